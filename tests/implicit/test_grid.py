"""Signed distance on a grid: values, place, memory, and files."""

import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import geomkit as gk
from geomkit.implicit import grid as module, narrow_band


def box_distance(points: np.ndarray, half: float = 0.5) -> np.ndarray:
    q = np.abs(points) - half
    return np.linalg.norm(np.maximum(q, 0), axis=-1) + np.minimum(q.max(axis=-1), 0)


def coordinates(grid: gk.SdfGrid) -> np.ndarray:
    return np.stack(np.meshgrid(*grid.axes, indexing="ij"), axis=-1)


def test_values_are_the_distances_of_the_points_that_origin_and_spacing_name():
    mesh = gk.shapes.box((1, 1, 1), dtype=np.float64)
    grid = gk.sdf_grid(mesh, resolution=17)
    assert grid.values.dtype == np.float64 and grid.origin.dtype == np.float64 and isinstance(grid.spacing, float)
    np.testing.assert_allclose(grid.values, box_distance(coordinates(grid)), atol=1e-12)


def test_axes_are_x_y_z():
    grid = gk.sdf_grid(gk.shapes.box((1, 2, 3)), resolution=31, padding=0.1)
    points = coordinates(grid).reshape(-1, 3)
    np.testing.assert_allclose(grid.values.ravel(), gk.signed_distance(gk.shapes.box((1, 2, 3)), points), atol=1e-6)
    nx, ny, nz = grid.values.shape
    assert nx < ny < nz == 31


@pytest.mark.parametrize("padding", [0.0, 0.1, 1.5])
@pytest.mark.parametrize("extents", [(1, 1, 1), (1, 2, 3), (5, 0.01, 1)])
def test_layout_covers_the_padded_box_about_its_middle(extents, padding):
    mesh = gk.shapes.box(extents, dtype=np.float64)
    grid = gk.sdf_grid(mesh, resolution=20, padding=padding)
    last = grid.origin + grid.spacing * (np.array(grid.values.shape) - 1)
    wanted = np.array(extents) / 2 + padding * max(extents)
    np.testing.assert_allclose(0.5 * (grid.origin + last), 0, atol=1e-12)
    assert (last >= wanted - 1e-9).all() and (last < wanted + grid.spacing).all()
    assert max(grid.values.shape) == 20


def test_spacing_is_kept_and_whole_steps_stay_whole():
    grid = gk.sdf_grid(gk.shapes.box((0.3, 0.6, 0.9), dtype=np.float64), spacing=0.1, padding=0)
    assert grid.spacing == 0.1 and grid.values.shape == (4, 7, 10)


def test_blocks_do_not_show(monkeypatch):
    mesh = gk.shapes.torus()
    whole = gk.sdf_grid(mesh, resolution=24)
    monkeypatch.setitem(module.BLOCK, "cpu", 100)
    np.testing.assert_allclose(gk.sdf_grid(mesh, resolution=24).values, whole.values, atol=1e-6)
    monkeypatch.setitem(module.BLOCK, "cpu", 1)
    np.testing.assert_allclose(gk.sdf_grid(mesh, resolution=24).values, whole.values, atol=1e-6)


def test_progress_counts_samples_and_may_stop(monkeypatch):
    monkeypatch.setitem(module.BLOCK, "cpu", 1000)
    calls = []
    grid = gk.sdf_grid(gk.shapes.box(), resolution=20, progress=lambda done, total: calls.append((done, total)))
    assert len(calls) > 2 and calls[-1] == (grid.values.size, grid.values.size)
    assert all(a[0] < b[0] for a, b in zip(calls, calls[1:], strict=False))

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        gk.sdf_grid(gk.shapes.box(), resolution=20, progress=stop)


def test_far_from_the_origin_keeps_its_precision():
    base = gk.shapes.box(dtype=np.float64)
    far = np.array([1e6, -1e6, 1e6])
    mesh = gk.Mesh((base.vertices + far).astype(np.float32), base.faces)
    grid = gk.sdf_grid(mesh, resolution=12)
    np.testing.assert_allclose(grid.values, box_distance(coordinates(grid) - far), atol=2e-6)


def test_flat_mesh_and_open_mesh():
    flat = gk.sdf_grid(gk.shapes.grid(), resolution=9, padding=0, sign="unsigned")
    assert flat.values.shape == (9, 9, 1) and (np.abs(flat.values) < 1e-7).all()
    with pytest.warns(gk.SignWarning, match="sdf_grid: .*encloses no volume"):
        gk.sdf_grid(gk.shapes.grid(), resolution=9)


def test_results_are_in_the_library_of_the_mesh():
    torch = pytest.importorskip("torch", reason="torch is an extra")
    box = gk.shapes.box()
    grid = gk.sdf_grid(gk.Mesh(torch.tensor(box.vertices.copy()), torch.tensor(box.faces.copy())), resolution=5)
    assert isinstance(grid.values, torch.Tensor) and grid.values.shape == (5, 5, 5)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "resolution, spacing: expected one of the two, got neither"),
        ({"resolution": 8, "spacing": 0.1}, "resolution, spacing: expected one of the two, got both"),
        ({"resolution": 1}, "resolution: expected an integer of at least 2, got 1"),
        ({"resolution": 2.5}, "resolution: expected an integer of at least 2, got 2.5"),
        ({"spacing": 0.0}, "spacing: expected a positive number, got 0.0"),
        ({"spacing": float("nan")}, "spacing: expected a positive number, got nan"),
        ({"resolution": 8, "padding": -0.1}, "padding: expected a finite number of at least 0, got -0.1"),
        ({"resolution": 8, "sign": "inside"}, "sign: expected one of"),
        ({"resolution": float("inf")}, "resolution: expected an integer of at least 2, got inf"),
        ({"resolution": float("nan")}, "resolution: expected an integer of at least 2, got nan"),
        ({"resolution": "a"}, "resolution: expected an integer of at least 2, got 'a'"),
        ({"resolution": "8"}, "resolution: expected an integer of at least 2, got '8'"),
        ({"resolution": [8, 8]}, "resolution: expected an integer of at least 2, got [8, 8]"),
        ({"resolution": 10**400}, "resolution: expected an integer of at least 2, got 1000"),
        ({"spacing": "a"}, "spacing: expected a positive number, got 'a'"),
        ({"resolution": 8, "padding": "a"}, "padding: expected a finite number of at least 0, got 'a'"),
        ({"resolution": 8, "padding": None}, "padding: expected a finite number of at least 0, got None"),
        ({"resolution": 8, "padding": 1e308}, "padding: expected a number that leaves the grid within the range of"),
        ({"resolution": 8, "padding": 1e39}, "padding: expected a number that leaves the grid within the range of"),
        (
            {"resolution": 10**30},
            "resolution: expected a smaller number, as the 1e90 samples would take 4e90 bytes, got 10000",
        ),
        (
            {"resolution": 30001},
            "resolution: expected a smaller number, as the 27,002,700,090,001 samples would take 100,592.9 GiB",
        ),
        ({"spacing": 1e-300}, "spacing: expected a larger number, as the 1e900 samples would take"),
        ({"spacing": 5e-324}, "spacing: expected a larger number, as the 5e924 samples would take"),
        ({"spacing": 1e-6, "padding": 1e30}, "spacing: expected a larger number"),
    ],
)
def test_errors(options, text):
    with pytest.raises((ValueError, TypeError), match=re.escape(f"sdf_grid: {text}")):
        gk.sdf_grid(gk.shapes.box(), **options)


def test_no_room_left(monkeypatch):
    class Full:
        @staticmethod
        def empty(*_):
            raise MemoryError

    monkeypatch.setattr(module, "namespace", lambda device: Full)
    with pytest.raises(MemoryError, match="sdf_grid: resolution: expected a smaller number, as the 512 samples would"):
        gk.sdf_grid(gk.shapes.box(), resolution=8)


def test_empty_mesh_and_a_point_are_refused():
    with pytest.raises(gk.MeshError, match="sdf_grid: mesh: expected at least one face, got none"):
        gk.sdf_grid(gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), int)), resolution=8)
    point = gk.Mesh([[1, 1, 1]], [[0, 0, 0]])
    with pytest.raises(ValueError, match="sdf_grid: spacing: expected a number, as the mesh is but a point"):
        gk.sdf_grid(point, resolution=8)
    assert gk.sdf_grid(point, spacing=0.1, sign="unsigned").values.shape == (1, 1, 1)


@pytest.fixture
def grid() -> gk.SdfGrid:
    return gk.sdf_grid(gk.shapes.box((1, 2, 3)), resolution=9)


def test_npz_and_npy(grid, tmp_path):
    grid.save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as found:
        np.testing.assert_array_equal(found["values"], grid.values)
        np.testing.assert_array_equal(found["origin"], grid.origin)
        assert float(found["spacing"]) == grid.spacing
    grid.save(tmp_path / "a.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), grid.values)


def test_vti_holds_the_values_with_x_fastest(grid, tmp_path):
    grid.save(tmp_path / "a.vti")
    head, _, rest = (tmp_path / "a.vti").read_bytes().partition(b'<AppendedData encoding="raw">\n_')
    nx, ny, nz = grid.values.shape
    assert f'WholeExtent="0 {nx - 1} 0 {ny - 1} 0 {nz - 1}"'.encode() in head
    origin = re.search(rb'Origin="([^"]+)"', head)
    assert origin is not None and [float(x) for x in origin[1].split()] == grid.origin.tolist()
    size = int.from_bytes(rest[:8], "little")
    assert size == grid.values.nbytes and rest[8 + size :] == b"\n</AppendedData>\n</VTKFile>\n"
    values = np.frombuffer(rest[8 : 8 + size], "<f4").reshape(nz, ny, nx)
    np.testing.assert_array_equal(values.transpose(2, 1, 0), grid.values)


def test_save_replaces_whole_files_or_nothing(grid, tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    path.write_bytes(b"before")

    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(KeyboardInterrupt):
        grid.save(path)
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]


def test_save_errors(grid, tmp_path):
    with pytest.raises(ValueError, match="SdfGrid.save: path: expected a file name ending in .npy, .npz, .vti"):
        grid.save("a.txt")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        grid.save(tmp_path / "missing" / "a.npz")


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
@pytest.mark.parametrize("sign", ["pseudonormal", "winding"])
def test_memory_stays_under_three_times_the_output(sign):
    program = f"""
import re, geomkit as gk
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
mesh = gk.shapes.icosphere(5)
gk.sdf_grid(mesh, resolution=8, sign={sign!r})
before = peak()
values = gk.sdf_grid(mesh, resolution=192, sign={sign!r}).values
print((peak() - before) / values.nbytes, *values.shape)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    times, *shape = done.stdout.split()
    assert shape == ["192"] * 3 and 1 <= float(times) < 3, f"the peak is {times} times the output"


# ---- narrow band


@pytest.mark.parametrize("band", [3, 1e30])
def test_narrow_band_memory(monkeypatch, band):
    """The scratch memory is bounded however much of the grid the band takes."""
    monkeypatch.setitem(narrow_band.CHUNK, "cpu", 1 << 14)
    mesh = gk.shapes.icosphere(3)
    gk.sdf_grid(mesh, resolution=20, narrow_band=band)
    tracemalloc.start()
    grid = gk.sdf_grid(mesh, resolution=150, narrow_band=band)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert grid.values.nbytes < peak < 1.5 * grid.values.nbytes


@pytest.mark.parametrize("resolution", [20, 37])
@pytest.mark.parametrize("band", [1, 2.5, 6])
def test_narrow_band_is_the_dense_grid_cut(resolution, band):
    for mesh in (gk.shapes.torus(dtype=np.float64), gk.shapes.box((1, 2, 0.05))):
        dense = gk.sdf_grid(mesh, resolution=resolution)
        narrow = gk.sdf_grid(mesh, resolution=resolution, narrow_band=band)
        assert narrow.spacing == dense.spacing and narrow.values.dtype == dense.values.dtype
        width = band * dense.spacing
        np.testing.assert_allclose(narrow.values, np.clip(dense.values, -width, width), atol=1e-6)


def test_narrow_band_blocks_do_not_show(monkeypatch):
    mesh = gk.shapes.torus()
    whole = gk.sdf_grid(mesh, resolution=40, narrow_band=3)
    for largest, chunk in ((4, 1000), (16, 5000), (1, 1 << 18)):
        monkeypatch.setattr(narrow_band, "LARGEST", largest)
        monkeypatch.setitem(narrow_band.CHUNK, "cpu", chunk)
        np.testing.assert_allclose(gk.sdf_grid(mesh, resolution=40, narrow_band=3).values, whole.values, atol=1e-6)


def test_narrow_band_queries_few_points(monkeypatch):
    points, query = [], narrow_band.distance
    monkeypatch.setattr(narrow_band, "distance", lambda q, method: points.append(len(q)) or query(q, method))
    calls = []
    grid = gk.sdf_grid(
        gk.shapes.icosphere(4), resolution=128, narrow_band=2, progress=lambda done, total: calls.append((done, total))
    )
    assert sum(points) < 0.12 * grid.values.size and calls[-1][0] == calls[-1][1]


def test_narrow_band_without_sign():
    grid = gk.sdf_grid(gk.shapes.grid(), resolution=20, padding=0.5, sign="unsigned", narrow_band=2)
    assert grid.values.min() >= 0 and grid.values.max() == pytest.approx(2 * grid.spacing)


def broken(kind):
    ball = gk.shapes.icosphere(3, dtype=np.float64)
    faces = ball.faces.copy()
    if kind == "open":
        faces = faces[ball.vertices[faces].mean(axis=1)[:, 2] < 0.3]
    elif kind == "flipped":
        faces[:300] = faces[:300, ::-1]
    elif kind == "overlapping":
        return gk.Mesh(
            np.concatenate([ball.vertices, ball.vertices + [0.7, 0.2, 0.1]]), np.concatenate([faces, faces + 642])
        )
    return gk.Mesh(ball.vertices, faces)


@pytest.mark.filterwarnings("ignore::geomkit.SignWarning")
@pytest.mark.parametrize("sign", ["auto", "winding", "parity", "pseudonormal", "unsigned"])
@pytest.mark.parametrize("kind", ["open", "flipped", "overlapping"])
def test_narrow_band_signs_away_from_faces(kind, sign):
    """Where the sign changes in holes and elsewhere in space, it does so in the band's grid too."""
    options = {"resolution": 48, "padding": 0.4, "sign": sign}
    dense = gk.sdf_grid(broken(kind), **options)
    narrow = gk.sdf_grid(broken(kind), **options, narrow_band=2)
    width = 2 * dense.spacing
    np.testing.assert_allclose(narrow.values, np.clip(dense.values, -width, width), atol=1e-9)
    if (kind, sign) == ("open", "winding"):
        jump = np.abs(np.diff(np.sign(dense.values), axis=2)) == 2
        assert (np.abs(dense.values[:, :, 1:])[jump] > width).any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("band", [1e30, 1e300])
def test_narrow_band_wider_than_the_grid(band):
    for mesh in (gk.shapes.box(), gk.Mesh(gk.shapes.box().vertices, gk.shapes.box().faces[2:])):
        dense = gk.sdf_grid(mesh, resolution=12)
        np.testing.assert_array_equal(gk.sdf_grid(mesh, resolution=12, narrow_band=band).values, dense.values)


@pytest.mark.parametrize(("value", "error"), [(0.5, ValueError), (np.nan, ValueError), ("a", TypeError)])
def test_narrow_band_error(value, error):
    with pytest.raises(error, match="sdf_grid: narrow_band: expected None, or a finite number of at least 1"):
        gk.sdf_grid(gk.shapes.box(), resolution=8, narrow_band=value)


# ---- gradients


def crooked(dtype=np.float64):
    """A mesh without symmetry: no sample is as near to one feature as to another."""
    torus = gk.shapes.torus(major_sections=9, minor_sections=7, dtype=np.float64)
    noise = np.random.default_rng(0).normal(scale=0.03, size=torus.vertices.shape)
    return gk.Mesh((torus.vertices + noise).astype(dtype), torus.faces)


def fixed_layout(mesh):
    """Vertices that may move while the box of the mesh, and so the grid, stays."""
    v = mesh.vertices
    return ((v > v.min(axis=0)) & (v < v.max(axis=0))).all(axis=1)


@pytest.mark.parametrize("band", [None, 2])
def test_gradient(band):
    mesh = crooked()
    options = {"resolution": 9, "padding": 0.13, "narrow_band": band}
    free = fixed_layout(mesh)
    rng = np.random.default_rng(0)
    adj = rng.normal(size=gk.sdf_grid(mesh, **options).values.shape)
    g = gk.sdf_grid.adjoint(mesh, **options, adj_values=adj).vertices
    for _ in range(5):
        step = np.where(free[:, None], rng.normal(size=mesh.vertices.shape), 0) * 1e-6
        values = [gk.sdf_grid(mesh.with_vertices(mesh.vertices + s * step), **options).values for s in (1, -1)]
        assert (g * step).sum() == pytest.approx(((values[0] - values[1]) / 2 * adj).sum(), rel=1e-4)


def test_gradient_is_that_of_the_samples(monkeypatch):
    mesh = crooked(np.float32)
    grid = gk.sdf_grid(mesh, resolution=12)
    adj = np.random.default_rng(0).normal(size=grid.values.shape).astype(np.float32)
    expected = gk.signed_distance.adjoint(mesh, coordinates(grid).reshape(-1, 3), adj_distance=adj.ravel()).vertices
    calls = []
    for block in (1 << 18, 300):
        monkeypatch.setitem(module.BLOCK, "cpu", block)
        g = gk.sdf_grid.adjoint(
            mesh, resolution=12, adj_values=adj, progress=lambda done, total: calls.append((done, total))
        )
        np.testing.assert_allclose(g.vertices, expected, rtol=1e-4, atol=1e-4)
    assert calls[-1] == (adj.size, adj.size)
    assert (gk.sdf_grid.adjoint(mesh, resolution=12, adj_values=np.zeros_like(adj)).vertices == 0).all()
    with pytest.raises(ValueError, match=r"sdf_grid.adjoint: adj_values: expected \("):
        gk.sdf_grid.adjoint(mesh, resolution=12, adj_values=adj[1:])
