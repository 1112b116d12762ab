"""When tapes record and when not, what works meanwhile, and what they leave behind."""

import gc
import threading
import tracemalloc

import numpy as np
import pytest

import geomkit as gk
from geomkit.autodiff import recording
from geomkit.autodiff.tape_array import TapeArray


@pytest.fixture(autouse=True)
def no_tape_is_left_recording():
    yield
    assert recording.tapes() == [] and recording.innermost() is None


def torus():
    return gk.shapes.torus(major_sections=9, minor_sections=7, dtype=np.float64)


def cloud(n=20, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


# ---- recordings


def test_reuse_and_twice():
    mesh, points = torus(), cloud()
    tape = gk.Tape()
    for k in (1, 2, 3):
        with tape:
            loss = (k * gk.signed_distance(mesh, points)).sum()
        expected = k * gk.signed_distance.adjoint(mesh, points, adj_distance=np.ones(20)).points
        for _ in range(2):
            assert np.allclose(tape.gradient(loss, points), expected)


def test_a_tape_records_once_at_a_time():
    with gk.Tape() as tape, pytest.raises(RuntimeError, match="^Tape: with: expected a tape that is not recording yet"):
        tape.__enter__()
    with pytest.raises(RuntimeError, match=r"^Tape.watch: array: expected a tape that is recording \(with gk.Tape"):
        tape.watch(np.ones(3))


def test_gradient_within_the_recording():
    mesh, points = torus(), cloud()
    with gk.Tape() as tape:
        loss = (gk.signed_distance(mesh, points) ** 2).sum()
        gradient = tape.gradient(loss, points)
        step = points - 0.1 * gradient
        total = step.sum()
    distance = gk.signed_distance(mesh, points)
    expected = gk.signed_distance.adjoint(mesh, points, adj_distance=2 * distance).points
    assert isinstance(gradient, TapeArray) and np.allclose(gradient.value, expected)
    assert np.allclose(step.value, points - 0.1 * expected)
    with pytest.raises(NotImplementedError, match="^Tape.gradient: target: expected first derivatives only"):
        tape.gradient(total, points)


def test_nested_tapes_record_the_same():
    points = cloud()
    with gk.Tape() as outer:
        x = outer.watch(points)
        y = np.sin(x)
        with gk.Tape() as inner:
            z = (y * inner.watch(points)).sum()
        after = (z * y).sum()
    assert np.allclose(inner.gradient(z, y), points)
    assert np.allclose(inner.gradient(z, points), np.sin(points))  # y came from before
    assert np.allclose(outer.gradient(z, points), np.sin(points) + points * np.cos(points))
    assert np.allclose(
        outer.gradient(after, points),
        z.value * np.cos(points) + np.sin(points).sum() * (np.sin(points) + points * np.cos(points)),
    )
    with pytest.raises(ValueError, match="^Tape.gradient: target: expected an array recorded since the tape"):
        inner.gradient(after, points)


def test_second_derivatives_are_refused_only_where_asked_for():
    points, scale = cloud(), np.array(2.0)
    with gk.Tape() as outer:
        s = outer.watch(scale)
        with gk.Tape() as inner:
            loss = (inner.watch(points) ** 3).sum()
        gradient = inner.gradient(loss, points)
        penalty = (s * gradient**2).sum()
        constant = (gradient.detach() * outer.watch(points)).sum()
    assert np.allclose(gradient, 3 * points**2)
    assert np.allclose(outer.gradient(penalty, scale), (9 * points**4).sum())
    with pytest.raises(NotImplementedError, match=r"first derivatives only, got a path .*detach\(\)"):
        outer.gradient(penalty, points)
    assert np.allclose(outer.gradient(constant, points), 3 * points**2)
    assert isinstance(inner.gradient(loss, points), np.ndarray)  # nothing records any more


def test_exceptions_leave_no_tape_recording():
    tape = gk.Tape()
    with pytest.raises(ZeroDivisionError), tape:
        raise ZeroDivisionError
    assert recording.tapes() == []
    with tape, pytest.raises(ValueError, match="^signed_distance: points"):
        gk.signed_distance(torus(), np.ones(2))
    assert isinstance(gk.signed_distance(torus(), cloud()), np.ndarray)
    with tape:
        with pytest.raises(ValueError, match="^signed_distance: points"):
            gk.signed_distance(torus(), np.ones(2))
        assert isinstance(gk.signed_distance(torus(), cloud()), TapeArray)  # not paused


def test_threads_do_not_see_each_others_tapes():
    mesh, points, found = torus(), cloud(), {}

    def work():
        found["plain"] = gk.signed_distance(mesh, points)
        found["computed"] = x * 2
        try:
            tape.watch(points)
        except RuntimeError as error:
            found["error"] = str(error)
        try:
            tape.__enter__()
        except RuntimeError as error:
            found["entered"] = str(error)
        with gk.Tape() as own:
            loss = gk.signed_distance(mesh, points).sum()
        found["gradient"] = own.gradient(loss, points)

    with gk.Tape() as tape:
        x = tape.watch(points)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        loss = gk.signed_distance(mesh, points).sum()
    assert isinstance(found["plain"], np.ndarray) and isinstance(found["computed"], np.ndarray)
    assert "not in this thread" in found["error"] and "not recording yet" in found["entered"]
    assert np.array_equal(found["gradient"], tape.gradient(loss, points))


def test_generators():
    """A tape in a generator records from one step to the next, and leaves when it ends, in whatever order."""

    def steps():
        with gk.Tape() as tape:
            x = tape.watch(np.array(2.0))
            yield
            y = x * x
        yield tape.gradient(y, x)

    first, second = steps(), steps()
    next(first)
    next(second)
    assert len(recording.tapes()) == 2
    assert next(first) == 4 and len(recording.tapes()) == 1
    assert next(second) == 4 and not recording.tapes()
    third = steps()
    next(third)
    third.close()
    assert not recording.tapes()


# ---- what has no gradient works within a recording


@pytest.mark.parametrize("of_array", [False, True])
def test_functions_without_gradients(of_array, tmp_path):
    points = cloud()
    with gk.Tape() as tape:
        mesh = gk.Mesh(tape.watch(torus().vertices * 1.0), torus().faces) if of_array else torus()
        x = tape.watch(points)
        for given in (points, x):
            assert type(gk.contains(mesh, given)) is np.ndarray
            assert type(gk.count_hits(mesh, given, given)) is np.ndarray
            assert type(gk.occluded(mesh, given, given)) is np.ndarray
        assert mesh.report() and repr(mesh) and mesh.topology and mesh.is_closed and mesh.components()
        assert type(mesh.bounds) is np.ndarray and mesh.bvh
        mesh.save(tmp_path / "mesh.ply")
        assert gk.load_mesh(tmp_path / "mesh.ply").n_faces == mesh.n_faces
        gk.sdf_grid(mesh, resolution=8).save(tmp_path / "grid.npz")
        assert type(gk.voxelize(mesh, 16).values) is np.ndarray
        camera = gk.Camera.framing(mesh, width=4, height=4)
        assert camera.rays().origins.shape == (16, 3) and camera.project(points).depth.shape == (20,)
        assert type(camera.eye) is np.ndarray
        hits = gk.cast_rays(mesh, points, -points)
        assert type(hits.face) is np.ndarray and type(hits.hit) is np.ndarray and repr(hits)
        assert hits.interpolate(np.ones(mesh.n_vertices)).shape == (20,)
        queries = gk.compat.RayMeshIntersector(mesh)
        found = queries.intersects_id(points, -points, multiple_hits=False, return_locations=True)
        assert all(type(array) is np.ndarray for array in (*found, queries.intersects_first(points, -points)))
        assert type(queries.contains_points(points)) is np.ndarray
        if of_array:
            for function in (gk.remesh, gk.offset, gk.all_hits):
                rest = {gk.remesh: (16,), gk.offset: (0.1,), gk.all_hits: (points, points)}[function]
                with pytest.raises(TypeError, match=f"^{function.__name__}: mesh: expected values that do not track"):
                    function(mesh, *rest)
            mesh = mesh.detach()
        assert type(gk.remesh(mesh, 16)) is gk.Mesh and gk.offset(mesh, 0.1, resolution=16).n_faces
        assert type(gk.all_hits(mesh, points, points).t) is np.ndarray


def test_command_line_within_a_recording(tmp_path):
    from typer.testing import CliRunner

    from geomkit.cli.app import app

    gk.shapes.torus().save(tmp_path / "mesh.ply")
    with gk.Tape():
        done = CliRunner().invoke(app, ["info", str(tmp_path / "mesh.ply"), "--json"])
        assert recording.innermost() is not None
    assert done.exit_code == 0, done.output


def test_arrays_of_other_libraries_within_a_recording():
    torch = pytest.importorskip("torch")
    mesh = gk.Mesh(torch.arange(9).reshape(3, 3) % 4, torch.tensor([[0, 1, 2]]))
    with gk.Tape():
        assert isinstance(mesh.vertices, torch.Tensor) and isinstance(gk.face_areas(mesh), torch.Tensor)
        assert isinstance(gk.signed_distance(mesh, torch.ones(1, 3), sign="unsigned"), torch.Tensor)


def test_arguments_that_have_no_gradient_refuse():
    with gk.Tape() as tape:
        x = tape.watch(np.zeros(20))
        with pytest.raises(TypeError, match="^cast_rays: t_min: expected values that do not track gradients"):
            gk.cast_rays(torus(), cloud(), cloud(), t_min=x)
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            gk.signed_distance(torus())


# ---- memory


def iterate(mesh, n, tape):
    """Steps of descent, every other one taken while the tape records: that ties a mesh to the recording before."""
    for k in range(n):
        with tape or gk.Tape() as current:
            loss = (gk.face_areas(mesh) ** 2).sum()
            if k % 2:
                mesh = gk.Mesh(mesh.vertices - 1e-4 * current.gradient(loss, mesh.vertices), mesh.faces)
        if k % 2 == 0:
            mesh = gk.Mesh(np.asarray(mesh.vertices) - 1e-4 * current.gradient(loss, mesh.vertices), mesh.faces)
    return mesh


@pytest.mark.parametrize("reused", [False, True])
def test_memory_is_flat(reused):
    """Over 10,000 iterations, without the garbage collector, with a new tape each or one for all."""
    mesh, tape = gk.shapes.box(dtype=np.float64), gk.Tape() if reused else None
    gc.collect()
    gc.disable()
    try:
        mesh, sizes = iterate(mesh, 200, tape), []
        for warm in (0, 9_600):
            mesh = iterate(mesh, warm, tape)
            tracemalloc.start()
            mesh = iterate(mesh, 100, tape)
            sizes.append(tracemalloc.get_traced_memory()[0])
            tracemalloc.stop()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert sizes[1] < sizes[0] + 20_000


def test_memory_of_a_long_recording_is_that_of_its_sources():
    """What was computed and let go is not kept by the tape."""
    x = np.ones(1000)
    with gk.Tape() as tape:
        y = tape.watch(x)
        tracemalloc.start()
        for _ in range(200):
            np.exp(y).sum().item()
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert size < 20 * 8000  # of 200


def test_a_long_chain_is_not_too_deep():
    x = np.array(1.0)
    with gk.Tape() as tape:
        y = tape.watch(x)
        for _ in range(5000):
            y = y * 1.0001
    assert np.allclose(tape.gradient(y, x), 1.0001**5000)
    del y, tape
