import copy
import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import geomkit as gk
from geomkit.errors import DeviceError
from geomkit.implicit.sign import METHODS, boundary_strength, pseudonormals
from geomkit.implicit.signed_distance import signed_distance_fwd
from geomkit.mesh import shapes
from geomkit.runtime import cuda, kernel, nvrtc
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.bvh import Bvh
from geomkit.spatial.cast_rays import cast_rays_adj
from geomkit.spatial.closest_point import closest_point_fwd
from geomkit.spatial.hits import count_hits_fwd, occluded_fwd
from geomkit.spatial.query import point_codes
from geomkit.spatial.winding_number import exact_winding_number_fwd, winding_number_fwd
from tests.reference import rays_around, rays_to_edges
from tests.runtime.emulation import EmulatedRays, on_cuda

C_TYPES = {"P": ctypes.c_void_p, "d": ctypes.c_double, "f": ctypes.c_float, "i": ctypes.c_int, "Q": ctypes.c_uint64}
F32 = np.dtype(np.float32)
ALIKE = "on CUDA like the other arguments"


@pytest.fixture
def example():
    """A kernel that never runs: it has one parameter of each kind."""
    arrays = "Bvh bvh, const real* points, int* order, uint64* codes, Node* nodes"
    row = f"{arrays}, int count, double beta, real weight, uint64 seed"
    made = Kernel("spatial/closest_point.cu", "closest_point_fwd", row)
    Kernel.registry.remove(made)
    return made


@pytest.fixture
def arguments(device_array):
    bvh = SimpleNamespace(device="cuda", levels=3, dtype=F32, fields=(1, 2, 3, 4, 0.5, 1.5, 2.5, 8.0))
    arrays = [np.zeros((4, 3), F32), np.zeros(4, np.int32), np.zeros(4, np.uint64), np.zeros((1, 256), np.uint8)]
    return [bvh, *map(device_array, arrays), 7, 2.0, 0.25, 1 << 63]


def pack(example, arguments, real=F32):
    return cuda.pack(example, 4, tuple(arguments), real, type(arguments[4]))


@pytest.mark.parametrize("name", [*kernel.STRUCTS, "Mixed"])
def test_layout_of_structures_is_that_of_c(name, monkeypatch):
    monkeypatch.setitem(kernel.STRUCTS, "Mixed", (("a", "i"), ("b", "P"), ("c", "f"), ("d", "d"), ("e", "i")))
    cuda.struct_dtype.cache_clear()
    fields = kernel.STRUCTS[name]
    mirror = type(name, (ctypes.Structure,), {"_fields_": [(field, C_TYPES[code]) for field, code in fields]})
    layout = cuda.struct_dtype(name)
    assert layout.itemsize == ctypes.sizeof(mirror)
    for field, _ in fields:
        assert layout.fields[field][1] == getattr(mirror, field).offset
        assert layout.fields[field][0].itemsize == getattr(mirror, field).size
    cuda.struct_dtype.cache_clear()


def test_pack(example, arguments, device_array):
    (n, bvh, *arrays, count, beta, weight, seed), stack, device = pack(example, arguments)
    assert (stack, device) == (64, 0)
    assert bvh.shape == () and bvh.tolist() == (1, 2, 3, 4, 0.5, 1.5, 2.5, 8)
    assert all(a is b for a, b in zip(arrays, arguments[1:5], strict=True))
    found = [(type(x), x) for x in (n, count, beta, weight, seed)]
    assert found == [(np.int32, 4), (np.int32, 7), (np.float64, 2), (np.float32, 0.25), (np.uint64, 1 << 63)]
    arguments[1] = device_array(arguments[1].astype(np.float64))
    assert type(pack(example, arguments, np.dtype(np.float64))[0][8]) is np.float64


@pytest.mark.parametrize(
    ("levels", "entries"), [(0, 64), (9, 64), (10, 128), (18, 128), (36, 256), (37, 680), (96, 680)]
)
def test_stack_fits_the_tree(example, arguments, levels, entries):
    arguments[0].levels = levels
    assert pack(example, arguments)[1] == entries >= 7 * levels + 1


@pytest.mark.parametrize(
    ("index", "value", "text"),
    [
        (0, SimpleNamespace(device="cpu", levels=3, dtype=F32, fields=()), f"bvh: expected a structure Bvh {ALIKE}"),
        (0, 3, f"bvh: expected a structure Bvh {ALIKE}, got 3"),
        (1, np.zeros((4, 3), F32), f"points: expected a C-contiguous float32 array {ALIKE}, got a NumPy array"),
        (1, None, f"points: expected a C-contiguous float32 array {ALIKE}, got builtins.NoneType"),
        (2, np.zeros(4, np.int32), f"order: expected a C-contiguous int32 array {ALIKE}, got a NumPy array"),
        (5, 7.0, "count: expected int, got 7.0"),
        (5, 1 << 31, "count: expected int, got 2147483648"),
        (6, "2", "beta: expected double, got builtins.str"),
        (6, None, "beta: expected double, got builtins.NoneType"),
        (8, -1, "seed: expected uint64, got -1"),
    ],
)
def test_error_names_the_argument(example, arguments, index, value, text):
    arguments[index] = value
    with pytest.raises(TypeError, match=f"^closest_point_fwd: {text}"):
        pack(example, arguments)


@pytest.mark.parametrize(
    ("index", "change", "text"),
    [
        (1, lambda a: a.astype(np.float64), "points: expected a C-contiguous float32 array on CUDA, got float64"),
        (1, lambda a: a[:, ::-1], "points: expected a C-contiguous float32 array on CUDA, got float32 with strides"),
        (2, lambda a: a.astype(np.int64), "order: expected a C-contiguous int32 array on CUDA, got int64"),
        (3, lambda a: a.astype(np.int64), "codes: expected a C-contiguous uint64 array on CUDA, got int64"),
        (4, lambda a: a[:, ::2], "nodes: expected a C-contiguous structure array on CUDA, got uint8 with strides"),
    ],
)
def test_error_of_arrays(example, arguments, index, change, text):
    arguments[index] = change(arguments[index])
    with pytest.raises(TypeError, match=f"^closest_point_fwd: {text}"):
        pack(example, arguments)


def test_error_of_number_and_device(example, arguments, device_array):
    with pytest.raises(TypeError, match="closest_point_fwd: expected 9 arguments after n, got 8"):
        pack(example, arguments[:-1])
    arguments[3] = device_array(arguments[3], device=1)
    with pytest.raises(TypeError, match="codes: expected arrays of one device, got one on CUDA device 1, others on 0"):
        pack(example, arguments)


def test_blocks():
    assert [cuda.blocks(n) for n in (1, 256, 257, 1 << 28, (1 << 28) + 1)] == [1, 1, 2, 1 << 20, 1 << 20]
    assert cuda.blocks((1 << 31) - (1 << 28) - 1) == 1 << 20
    with pytest.raises(ValueError, match="fewer than 1879048192 items, got 1879048192"):
        cuda.blocks((1 << 31) - (1 << 28))


def test_architecture():
    compiler = SimpleNamespace(architectures=[75, 80, 86, 90, 100, 120])
    found = [cuda.architecture(c, compiler) for c in ((7, 5), (8, 6), (8, 9), (9, 0), (10, 3), (12, 1))]
    assert found == ["sm_75", "sm_86", "sm_86", "sm_90", "sm_100", "sm_120"]
    with pytest.raises(DeviceError, match="does not compile for compute capability 7.0"):
        cuda.architecture((7, 0), compiler)


def test_launch(example, arguments, stand_in, tmp_path, monkeypatch):
    try:
        nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("GEOMKIT_CACHE_DIR", str(tmp_path / "cache"))
    example(1000, *arguments)
    example(300, *arguments)
    calls = [("closest_point_fwd", (4,), (256,)), ("closest_point_fwd", (2,), (256,))]
    assert [call[:3] for call in stand_in.calls] == calls
    assert [code[:4] for code in stand_in.loaded] == [b"\x7fELF"]
    arguments[0].levels = 12
    example(1000, *arguments)
    assert len(stand_in.loaded) == 2 and stand_in.loaded[0] != stand_in.loaded[1]
    example(0, *arguments)
    example(-3, *arguments)
    assert len(stand_in.calls) == 3
    assert len(list((tmp_path / "cache").glob("*.cubin"))) == 2


def test_devices(stand_in):
    assert list(map(str, cuda.devices())) == ["Stand-in, 3.0 GiB, compute capability 9.0, CUDA driver 99.0"]
    assert cuda.available()


def test_cupy_is_missing(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(cuda.importlib, "import_module", missing)
    cuda.cupy.cache_clear()
    with pytest.raises(DeviceError, match=r'needs CuPy \(No module .*\): pip install "geomkit-diff\[cuda13\]"'):
        cuda.cupy()
    assert not cuda.available()
    with pytest.raises(TypeError, match="point_codes: points: expected a NumPy array .*, got builtins.list"):
        cuda.launch(point_codes, 1, ([[0.0] * 3], *[0.0] * 6, 10, np.zeros(1, np.uint64)), F32)


# The GPU side of the kernels' text, run on the CPU, against their CPU side.


@pytest.fixture(params=["sah", "morton"])
def tree(request):
    mesh = shapes.torus()
    vertices = mesh.vertices_array + np.float32(0.25)
    return SimpleNamespace(
        mesh=gk.Mesh(vertices, mesh.faces_array), bvh=Bvh(vertices, mesh.faces_array, mesh.center, method=request.param)
    )


def queries(n=500):
    return np.random.default_rng(5).uniform(-1.5, 1.5, (n, 3)).astype(np.float32)


def assert_consistent(mesh, point, face, barycentric, feature, distance):
    """On an edge either face is right, so a face is judged by the point that it makes."""
    corners = mesh.vertices_array[mesh.faces_array[face]]
    np.testing.assert_allclose(np.einsum("nk,nkx->nx", barycentric, corners), point, atol=2e-6)
    on_boundary = (np.asarray(barycentric) == 0).sum(axis=1)
    np.testing.assert_array_equal(on_boundary, np.choose(np.asarray(feature), [0, 1, 1, 1, 2, 2, 2]))


def test_emulated_closest_point(emulated, tree):
    points, n = queries(), 500
    order = np.arange(n, dtype=np.int32)
    out = [np.empty((n, 3), F32), np.empty(n, np.int32), np.empty((n, 3), F32), np.empty(n, np.int32), np.empty(n, F32)]
    result = [emulated(a) for a in out]
    closest_point_fwd(n, on_cuda(tree.bvh.struct("frames")), n, *map(emulated, (points, order)), *result)
    expected = gk.closest_point(tree.mesh, points)
    np.testing.assert_allclose(result[4], expected.distance, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result[0], expected.point, atol=2e-6)
    assert_consistent(tree.mesh, *result)


def test_emulated_winding_number(emulated, tree):
    points, n = queries(), 500
    order = np.arange(n, dtype=np.int32)
    fast, exact = emulated(np.empty(n, F32)), emulated(np.empty(n, F32))
    winding_number_fwd(n, on_cuda(tree.bvh.struct("moments")), n, *map(emulated, (points, order)), 2.0, fast)
    exact_winding_number_fwd(n, on_cuda(tree.bvh.struct()), tree.bvh.n_packets, emulated(points), exact)
    np.testing.assert_allclose(exact, gk.winding_number(tree.mesh, points, method="exact"), atol=1e-5)
    np.testing.assert_allclose(fast, exact, atol=5e-3)


@pytest.mark.parametrize("method", METHODS)
def test_emulated_signed_distance(emulated, tree, method):
    points, n = queries(), 500
    order, distance = np.arange(n, dtype=np.int32), emulated(np.empty(n, F32))
    structs = tree.bvh.struct("frames", "moments"), pseudonormals(tree.mesh, method)
    given = (METHODS[method], 0, boundary_strength(tree.mesh), distance)
    signed_distance_fwd(n, *map(on_cuda, structs), n, *map(emulated, (points, order)), *given)
    np.testing.assert_allclose(distance, gk.signed_distance(tree.mesh, points, sign=method), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cull", ["none", "back", "front"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["sah", "morton"])
def test_emulated_rays(emulated, method, dtype, cull):
    """Closest, any, number and list of hits, with bounds for all rays and for each, from near and from out of reach."""
    mesh = shapes.torus(dtype=dtype)
    bvh = Bvh(mesh.vertices_array, mesh.faces_array, mesh.center, method=method)
    origins, directions = rays_around(mesh, 400)
    far = directions * (50 / np.linalg.norm(directions, axis=1)[:, None])
    origins = np.concatenate([origins, origins[:200] - far[:200]]).astype(dtype)
    directions = np.concatenate([directions, directions[:200]])
    each = np.random.default_rng(0).uniform(-2, 2, 600).astype(dtype)
    tolerance = 1e-6 if dtype == np.float32 else 1e-14
    for options in ({}, {"t_min": -np.inf}, {"t_min": each, "t_max": each + dtype(3)}, {"t_max": each}):
        rays = EmulatedRays(emulated, mesh, bvh, origins, directions, cull=cull, **options)
        expected = gk.cast_rays(mesh, origins, directions, cull=cull, **options)
        t, face, barycentric, normal = rays.closest()
        np.testing.assert_array_equal(face, expected.face)
        np.testing.assert_allclose(t, expected.t, rtol=tolerance)
        np.testing.assert_allclose(barycentric, expected.barycentric, atol=tolerance)
        np.testing.assert_array_equal(normal, expected.normal)
        np.testing.assert_array_equal(rays.integers(occluded_fwd), expected.hit)
        hits = gk.all_hits(mesh, origins, directions, cull=cull, **options)
        np.testing.assert_array_equal(rays.integers(count_hits_fwd), np.diff(hits.offsets))
        t, face = rays.every(hits.offsets)
        np.testing.assert_allclose(t, hits.t, rtol=tolerance)
        np.testing.assert_array_equal(face, hits.face)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_emulated_rays_do_not_leak(emulated, dtype):
    """Through edges and vertices of a closed mesh: every ray hits, every line crosses it twice."""
    mesh = shapes.icosphere(3, dtype=dtype)
    inside = np.random.default_rng(0).uniform(-0.5, 0.5, (50, 3))
    for points in (inside, np.zeros((1, 3)), mesh.vertices_array):
        origins, directions = rays_to_edges(mesh, points, 1500)
        rays = EmulatedRays(emulated, mesh, mesh.bvh, origins, directions, t_min=-np.inf)
        assert (rays.closest()[1] >= 0).all() and rays.integers(occluded_fwd).all()
        count = rays.integers(count_hits_fwd)
        assert (count % 2 == 0).all() and (points is mesh.vertices_array or (count == 2).all())


@pytest.mark.parametrize("bad", [[0, 0, 0], [np.nan, 0, 1], [0, -np.inf, 1]])
def test_emulated_rays_that_are_none(emulated, bad):
    mesh = shapes.box()
    directions = np.array([[0, 0, -1], bad, [0, 0, -1]], F32)
    rays = EmulatedRays(emulated, mesh, mesh.bvh, np.array([[0.1, 0, 2]] * 3, F32), directions)
    found, invalid = rays.array(dtype=np.int32), rays.array(dtype=np.int32)
    structs = map(on_cuda, (mesh.bvh.struct(), rays.query.mesh_struct(), rays.query.struct()))
    occluded_fwd(3, 1, 3, *structs, 0, found, invalid)
    assert found.tolist() == [1, 0, 1] and invalid.tolist() == [-1, 1, -1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_emulated_rays_adjoint(emulated, dtype):
    mesh = shapes.torus(dtype=dtype)
    origins, directions = rays_around(mesh, 500)
    rays = EmulatedRays(emulated, mesh, mesh.bvh, origins, directions)
    hits = gk.cast_rays(mesh, origins, directions)
    face = hits.face
    rng = np.random.default_rng(0)
    names = {"adj_t": (), "adj_barycentric": (2,), "adj_normal": (3,), "adj_position": (3,)}
    cotangents = {name: rng.normal(size=(500, *shape)).astype(dtype) for name, shape in names.items()}
    out = rays.array(3, fill=7), rays.array(3, fill=7), rays.array(3, 3)
    given = map(emulated, (directions, hits.t, face, hits.barycentric, *cotangents.values()))
    cast_rays_adj(500, on_cuda(rays.query.mesh_struct()), mesh.bvh.scale, *given, *out)
    expected = gk.cast_rays.adjoint(mesh, origins, directions, **cotangents)
    vertices = np.zeros((mesh.n_vertices, 3))
    np.add.at(vertices, mesh.faces_array[face[face >= 0]], np.float64(out[2])[face >= 0])
    for found, value in zip((*out[:2], vertices), expected, strict=True):
        atol = np.finfo(dtype).eps * np.abs(value).max()
        np.testing.assert_allclose(found, value, rtol=1e-5 if dtype == np.float32 else 1e-11, atol=atol)


@pytest.fixture
def recorded(monkeypatch):
    """All launches on the CPU, with their arguments before and after."""
    launches, call = [], Kernel.__call__

    def record(self, n, *arguments, dtype=None):
        before = [copy.copy(a) for a in arguments]
        call(self, n, *arguments, dtype=dtype)
        launches.append((self, n, before, [copy.copy(a) for a in arguments], dtype))

    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "__call__", record)
        work_on_the_cpu()
    return launches


def work_on_the_cpu():
    """Builds and adjoints."""
    mesh, points = shapes.torus(), queries(300)
    open_mesh = gk.Mesh(mesh.vertices_array, mesh.faces_array[:-40])
    for method in ("sah", "morton"):
        Bvh(mesh.vertices_array, mesh.faces_array, mesh.center, method=method).struct("frames", "moments")
    gk.closest_point.adjoint(mesh, points, adj_point=points, adj_distance=points[:, 0])
    gk.signed_distance.adjoint(mesh, points, adj_distance=points[:, 0])
    gk.winding_number.adjoint(open_mesh, points, adj_winding=points[:, 0])
    gk.area.adjoint(mesh, adj_area=1.0)
    field = np.random.default_rng(0).normal(size=(6, 7, 40)).astype(np.float32)
    for boundary, topology, gradient in (("open", "table", "edge"), ("cap", "trilinear", "normal")):
        surface = gk.marching_cubes(field, boundary=boundary, topology=topology)
        gk.marching_cubes.adjoint(field, boundary=boundary, gradient=gradient, adj_vertices=surface.vertices)
        field[3, 3, 3] = np.nan
    normals = np.random.default_rng(1).normal(size=(*field.shape, 3)).astype(np.float32)
    gk.dual_contouring.adjoint(field, normals, adj_vertices=gk.dual_contouring(field, normals).vertices)
    for method in ("linear", "cubic"):
        gk.interpolate_grid(field, 3 + points, method=method)
        gk.interpolate_grid.adjoint(field, 3 + points, method=method, adj_value=points[:, 0], adj_gradient=points)


def assert_alike(found, expected):
    for name in expected.dtype.names or ():
        assert_alike(found[name], expected[name])
    if expected.dtype.names is None:
        exact = not np.issubdtype(expected.dtype, np.floating)
        scale = 1 if exact or not expected.size else np.abs(expected[np.abs(expected) < 1e30]).max(initial=0)
        np.testing.assert_allclose(found, expected, rtol=0 if exact else 1e-4, atol=0 if exact else 1e-5 * scale)


def test_emulated_launches(recorded, emulated):
    """Every launch on the CPU but those of grouped queries, done again by the GPU's text."""
    names = set()
    for launched, n, before, after, dtype in recorded:
        if {"bvh", "order"} <= {p.name for p in launched.parameters}:
            continue
        on_device = [
            emulated(a) if isinstance(a, np.ndarray) else on_cuda(a) if hasattr(a, "fields") else a for a in before
        ]
        launched(n, *on_device, dtype=dtype)
        for a, expected in zip(on_device, after, strict=True):
            if isinstance(expected, np.ndarray):
                assert_alike(np.asarray(a), expected)
        names.add(launched.name)
    assert {"pack_triangles", "fit_boxes", "split_ranges", "link_nodes", "build_frames", "fit_moments"} <= names
    assert {"closest_point_adj", "signed_distance_adj", "winding_number_points_adj"} <= names
    assert {"sum_pieces", "sum_pieces_at_vertices", "sum_corners"} <= names
    assert {"sample_signs", "live_cells", "count_rows", "marching_cubes_fwd", "marching_cubes_adj"} <= names


# On a real device.

needs_device = pytest.mark.skipif(not cuda.available(), reason="CuPy finds no CUDA device here")


def both(mesh):
    """A mesh on the CPU and the same on CUDA."""
    xp = cuda.cupy()
    return mesh, gk.Mesh(xp.asarray(mesh.vertices_array), xp.asarray(mesh.faces_array))


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def meshes(request):
    return both(shapes.torus(dtype=request.param))


def close(found, expected, **tolerance):
    np.testing.assert_allclose(found.get(), expected, **{"rtol": 1e-5, "atol": 1e-5} | tolerance)


@needs_device
def test_devices_closest_point(meshes):
    xp, points = cuda.cupy(), queries(5000).astype(meshes[0].dtype)
    expected, found = gk.closest_point(meshes[0], points), gk.closest_point(meshes[1], xp.asarray(points))
    close(found.distance, expected.distance)
    close(found.point, expected.point)
    assert_consistent(meshes[0], *(a.get() for a in found))
    adj = gk.closest_point.adjoint(meshes[0], points, adj_distance=np.ones(5000, points.dtype))
    adj_found = gk.closest_point.adjoint(meshes[1], xp.asarray(points), adj_distance=xp.ones(5000, points.dtype))
    close(adj_found.points, adj.points, atol=1e-3)
    close(adj_found.vertices, adj.vertices, rtol=1e-3, atol=1e-3)


@needs_device
def test_devices_rays(meshes):
    """All ray queries, with their bounds; no ray leaks; the adjoint twice the same bits."""
    xp, (mesh, there) = cuda.cupy(), meshes
    rays = rays_around(mesh, 5000)
    given = [xp.asarray(a) for a in rays]
    for options in ({}, {"t_min": -np.inf, "cull": "back"}, {"t_min": -1.0, "t_max": given[0][:, 0]}):
        at_home = options | {name: a.get() for name, a in options.items() if isinstance(a, xp.ndarray)}
        expected, found = gk.cast_rays(mesh, *rays, **at_home), gk.cast_rays(there, *given, **options)
        np.testing.assert_array_equal(found.hit.get(), expected.hit)
        close(found.t, expected.t)
        close(found.position, expected.position)
        np.testing.assert_array_equal(gk.occluded(there, *given, **options).get(), expected.hit)
        hits, listed = gk.all_hits(mesh, *rays, **at_home), gk.all_hits(there, *given, **options)
        np.testing.assert_array_equal(listed.offsets.get(), hits.offsets)
        close(listed.t, hits.t)
    through = [xp.asarray(a) for a in rays_to_edges(mesh, mesh.vertices_array, 5000)]
    assert not (gk.count_hits(there, *through, t_min=-np.inf) % 2).any()
    assert gk.occluded(there, *through, t_min=-np.inf).all()
    adj = {"adj_t": given[0][:, 0], "adj_position": given[1]}
    runs = [gk.cast_rays.adjoint(there, *given, **adj) for _ in range(2)]
    expected = gk.cast_rays.adjoint(mesh, *rays, **{name: a.get() for name, a in adj.items()})
    for first, second, value in zip(*runs, expected, strict=True):
        np.testing.assert_array_equal(first.get(), second.get())
        close(first, value, rtol=1e-3, atol=1e-3 * np.abs(value).max())


@needs_device
def test_devices_rays_that_are_none(meshes):
    xp = cuda.cupy()
    with pytest.raises(ValueError, match="directions: expected directions that are not zero, got 1 .* ray 1"):
        gk.occluded(meshes[1], xp.zeros((2, 3)), xp.asarray([[0, 0, 1.0], [0, 0, 0]]))


@needs_device
def test_devices_winding_number(meshes):
    xp, points = cuda.cupy(), queries(2000).astype(meshes[0].dtype)
    for method in ("fast", "exact"):
        expected = gk.winding_number(meshes[0], points, method=method)
        close(gk.winding_number(meshes[1], xp.asarray(points), method=method), expected, atol=1e-4)


@needs_device
@pytest.mark.parametrize("sign", [m for m in METHODS if m != "unsigned"])
def test_devices_signed_distance(meshes, sign):
    xp, points = cuda.cupy(), queries(5000).astype(meshes[0].dtype)
    expected = gk.signed_distance(meshes[0], points, sign=sign)
    close(gk.signed_distance(meshes[1], xp.asarray(points), sign=sign), expected)


@needs_device
def test_devices_morton_tree(meshes):
    trees = [Bvh(m.vertices_array, m.faces_array, m.center, method="morton") for m in meshes]
    assert trees[0].levels == trees[1].levels
    for name in ("nodes", "packets"):
        on_host = getattr(trees[0], name)
        np.testing.assert_array_equal(getattr(trees[1], name).get().reshape(-1), on_host.view(np.uint8).reshape(-1))
    assert trees[1].cost == pytest.approx(trees[0].cost)


@needs_device
def test_devices_repeat_to_the_bit(meshes):
    xp, points = cuda.cupy(), queries(5000).astype(meshes[0].dtype)
    given = xp.asarray(points)
    runs = [gk.closest_point.adjoint(meshes[1], given, adj_distance=given[:, 0]) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].vertices.get(), runs[1].vertices.get())


@needs_device
def test_devices_are_not_mixed(meshes):
    xp = cuda.cupy()
    codes = xp.zeros(4, np.uint64)
    with pytest.raises(TypeError, match="point_codes: points: .* got a NumPy array"):
        point_codes(4, np.zeros((4, 3), F32), *[0.0] * 6, 10, codes)


@needs_device
def test_devices_current_stream_and_empty(meshes):
    xp = cuda.cupy()
    with xp.cuda.Stream(non_blocking=True) as stream:
        points = xp.asarray(queries(1000).astype(meshes[0].dtype))
        codes = xp.zeros(1000, np.uint64)
        point_codes(1000, points, *[-1.5] * 3, *[300.0] * 3, 10, codes)
        point_codes(0, points[:0], *[-1.5] * 3, *[300.0] * 3, 10, codes[:0])
        stream.synchronize()
    assert int(codes.max()) > 0
