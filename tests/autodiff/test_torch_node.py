"""What torch's autograd, torch.func and torch's tools may expect of geomkit's functions, besides right derivatives."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import geomkit as gk

torch = pytest.importorskip("torch")
func = pytest.importorskip("torch.func")

BALL = gk.shapes.icosphere(1)
VERTICES = torch.tensor(BALL.vertices.copy())
FACES = torch.tensor(BALL.faces.copy())
POINTS = torch.tensor(1.3 * np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32))
FIELD = torch.tensor(np.random.default_rng(1).normal(size=(4, 5, 6)).astype(np.float32))


def leaf(tensor):
    return tensor.detach().clone().requires_grad_()


def mesh(vertices=VERTICES):
    return gk.Mesh(vertices, FACES)


def distance(points, vertices=VERTICES):
    return gk.signed_distance(mesh(vertices), points)


def gradients(points=POINTS, vertices=VERTICES):
    """Of the sum of the distances, by the explicit pair."""
    d = np.ones(len(points), np.float32)
    found = gk.signed_distance.adjoint(gk.Mesh(vertices.detach().numpy(), BALL.faces), points.numpy(), adj_distance=d)
    return torch.from_numpy(found.points), torch.from_numpy(found.vertices)


# ---- when there is a node


def test_only_inputs_that_require_grad_make_a_node():
    assert not distance(POINTS).requires_grad
    assert distance(leaf(POINTS)).grad_fn.name() == "signed_distanceBackward"
    assert distance(POINTS, leaf(VERTICES)).requires_grad
    with torch.no_grad():
        assert not distance(leaf(POINTS), leaf(VERTICES)).requires_grad
    with torch.inference_mode():
        assert distance(leaf(POINTS)).is_inference()


def test_tensors_of_inference_mode_serve_as_constants_afterwards():
    with torch.inference_mode():
        points, ball = POINTS * 1, mesh(VERTICES * 1)
    vertices = leaf(VERTICES)
    distance(points, vertices).sum().backward()
    torch.testing.assert_close(vertices.grad, gradients()[1], rtol=0, atol=0)
    torch.testing.assert_close(gk.signed_distance(ball, POINTS), distance(POINTS))


def test_backward_gives_the_bits_of_the_explicit_pair():
    points, vertices = leaf(POINTS), leaf(VERTICES)
    distance(points, vertices).sum().backward()
    assert torch.equal(points.grad, gradients()[0]) and torch.equal(vertices.grad, gradients()[1])


def test_backward_twice_is_torchs_own_error_and_retain_graph_allows_it():
    points = leaf(POINTS)
    total = distance(points).sum()
    total.backward(retain_graph=True)
    total.backward()
    assert torch.equal(points.grad, 2 * gradients()[0])
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        total.backward()


def test_gradients_accumulate():
    points, vertices = leaf(POINTS), leaf(VERTICES)
    ball = mesh(vertices)
    for part in points.split(4):
        gk.signed_distance(ball, part).sum().backward()
    torch.testing.assert_close(points.grad, gradients()[0])
    torch.testing.assert_close(vertices.grad, gradients()[1])


def test_hooks_see_cotangents_and_may_change_them():
    points, seen = leaf(POINTS), []
    d = distance(points)
    d.register_hook(lambda g: 3 * g)
    d.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(outputs)))
    points.register_hook(lambda g: seen.append(tuple(g.shape)))
    d.sum().backward()
    assert seen == [1, (9, 3)]
    assert torch.allclose(points.grad, 3 * gradients()[0])


def test_a_detached_tensor_ends_the_path():
    with pytest.raises(RuntimeError, match="does not require grad"):
        distance(leaf(POINTS).detach()).sum().backward()


def test_a_parameter_and_a_module():
    class Fit(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.vertices = torch.nn.Parameter(VERTICES.clone())

        def forward(self, points):
            return gk.signed_distance(mesh(self.vertices), points)

    fit = Fit()
    fit(POINTS).sum().backward()
    assert torch.equal(fit.vertices.grad, gradients()[1])


# ---- what is written to


def test_a_result_may_be_written_to():
    points = leaf(POINTS)
    d = distance(points)
    d *= 2
    d.sum().backward()
    assert torch.equal(points.grad, 2 * gradients()[0])


def test_discrete_results_may_be_written_to():
    expected, found = leaf(VERTICES), leaf(VERTICES)
    for vertices in (expected, found):
        hits = gk.cast_rays(mesh(vertices), 4 * POINTS, -POINTS)
        assert hits.hit.any()
        t = hits.t[hits.hit]
        if vertices is found:
            hits.face.fill_(3)
            hits.barycentric.mul_(0)
        (t.sum() + hits.position[torch.isfinite(hits.t)].sum()).backward()
    assert torch.equal(found.grad, expected.grad)


@pytest.mark.parametrize("name", ["points", "vertices"])
@pytest.mark.parametrize("kind", ["leaf", "computed", "constant"])
def test_an_input_that_changes_before_backward_is_named(name, kind):
    tensors = {"points": leaf(POINTS), "vertices": leaf(VERTICES)}
    if kind == "computed":
        tensors[name] = tensors[name] * 1
    elif kind == "constant":
        tensors[name] = tensors[name].detach()
    total = distance(**tensors).sum()
    with torch.no_grad():
        tensors[name].add_(0.1)
    with pytest.raises(RuntimeError, match=f"signed_distance: {name}: expected the values of the call, got a tensor"):
        total.backward()


def test_a_numpy_array_that_changes_before_backward_is_named():
    points, vertices = POINTS.numpy().copy(), leaf(VERTICES)
    total = distance(points, vertices).sum()
    points[0] = 5
    with pytest.raises(RuntimeError, match="signed_distance: points: expected the values of the call, got an array"):
        total.backward()


def test_a_mesh_whose_tensor_changed_is_refused():
    vertices = leaf(VERTICES) * 1
    ball = mesh(vertices)
    vertices.add_(1)
    with pytest.raises(gk.MeshError, match="Mesh: vertices: expected the values the mesh was made of"):
        gk.signed_distance(ball, POINTS)


def test_the_surface_that_an_isosurface_hands_out_is_watched():
    surface = gk.marching_cubes(FIELD)
    surface.vertices.add_(1.0)
    with pytest.raises(gk.MeshError, match="changed in place"):
        gk.signed_distance(surface, POINTS)


def test_a_list_that_changes_before_backward_does_not_matter():
    rows, origins = (-POINTS).tolist(), leaf(3 * POINTS)
    gk.cast_rays(BALL, origins, -POINTS).t.nan_to_num(posinf=0).sum().backward()
    expected, origins.grad = origins.grad, None
    total = gk.cast_rays(BALL, origins, rows).t.nan_to_num(posinf=0).sum()
    rows[0][:] = 5.0, 0.0, 0.0
    total.backward()
    assert torch.equal(origins.grad, expected) and expected.any()


# ---- what has no gradient


def test_lists_of_tensors_are_refused():
    h, rows = leaf(torch.tensor(0.1)), [leaf(p) for p in POINTS]
    for field in (FIELD, leaf(FIELD)):
        with pytest.raises(TypeError, match="^marching_cubes: spacing: expected one array .torch.stack makes it."):
            gk.marching_cubes(field, spacing=(h, 0.1, 0.1))
    with pytest.raises(TypeError, match="^signed_distance: points: expected one array .torch.stack makes it."):
        gk.signed_distance(BALL, rows)
    with pytest.raises(TypeError, match="^Mesh: vertices: expected one array .torch.stack makes it."):
        gk.Mesh(rows, [[0, 1, 2]])
    with pytest.raises(TypeError, match="^with_vertices: vertices: expected one array .torch.stack makes it."):
        gk.Mesh(POINTS[:3], [[0, 1, 2]]).with_vertices(rows[:3])


@pytest.mark.parametrize("bound", [torch.zeros(9), torch.tensor(0.0)], ids=["each", "all"])
def test_arguments_that_no_gradient_is_sent_to_are_named(bound):
    for origins in (POINTS, leaf(POINTS)):
        with pytest.raises(TypeError, match="cast_rays: t_min: expected values that do not track gradients"):
            gk.cast_rays(BALL, origins, POINTS, t_min=leaf(bound))


def test_discrete_answers_take_tensors_that_require_grad():
    ball, points = mesh(leaf(VERTICES)), leaf(POINTS)
    found = [
        gk.contains(ball, points),
        gk.occluded(ball, points, points),
        gk.count_hits(ball, points, points),
        gk.voxelize(ball, resolution=16).values,
    ]
    expected = [
        gk.contains(mesh(), POINTS),
        gk.occluded(mesh(), POINTS, POINTS),
        gk.count_hits(mesh(), POINTS, POINTS),
        gk.voxelize(mesh(), resolution=16).values,
    ]
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b) and not a.requires_grad


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("remesh", lambda ball: gk.remesh(ball, resolution=16)),
        ("offset", lambda ball: gk.offset(ball, 0.1, resolution=16)),
        ("all_hits", lambda ball: gk.all_hits(ball, POINTS, POINTS)),
    ],
)
def test_functions_without_gradients_refuse_to_lose_them(name, call):
    with pytest.raises(TypeError, match=rf"^{name}: mesh: expected values that do not track .* torch follows \("):
        call(mesh(leaf(VERTICES)))
    with torch.no_grad():
        call(mesh(leaf(VERTICES)))


def test_tensors_of_two_followers_are_refused():
    with gk.Tape() as tape:
        points = tape.watch(POINTS.numpy().copy())
        with pytest.raises(TypeError, match="signed_distance: mesh: expected arrays that tape follows"):
            gk.signed_distance(mesh(leaf(VERTICES)), points)


def test_results_are_torchs_when_torch_follows_gradients():
    jnp = pytest.importorskip("jax.numpy")
    vertices = leaf(VERTICES)
    d = gk.signed_distance(mesh(vertices), jnp.asarray(POINTS.numpy()))
    assert torch.equal(d, distance(POINTS))
    d.sum().backward()
    assert torch.equal(vertices.grad, gradients()[1])


def test_second_derivatives_are_refused():
    points = leaf(POINTS)
    (gradient,) = torch.autograd.grad(distance(points).sum(), points, create_graph=True)
    assert torch.equal(gradient, gradients()[0])
    with pytest.raises(NotImplementedError, match="signed_distance: backward: expected first derivatives only"):
        gradient.square().sum().backward()


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_forward_mode_is_refused():
    match = "signed_distance: derivative: expected reverse mode"
    with pytest.raises(NotImplementedError, match=match):
        func.jvp(distance, (POINTS,), (POINTS,))
    with pytest.raises(NotImplementedError, match=match):
        func.jvp(lambda v: distance(POINTS, v), (VERTICES,), (VERTICES,))
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        for give in (distance, lambda x: distance(POINTS, VERTICES + x[:1])):
            with pytest.raises(NotImplementedError, match=match):
                give(forward.make_dual(POINTS, POINTS))


# ---- torch.func


def test_func_grad():
    assert torch.equal(func.grad(lambda p: distance(p).sum())(POINTS), gradients()[0])
    assert torch.equal(func.grad(lambda v: distance(POINTS, v).sum())(VERTICES), gradients()[1])


def test_func_grad_and_value_of_a_mesh_and_points():
    both, value = func.grad_and_value(lambda v, p: distance(p, v).sum(), argnums=(0, 1))(VERTICES, POINTS)
    assert torch.equal(both[0], gradients()[1]) and torch.equal(both[1], gradients()[0])
    assert torch.equal(value, distance(POINTS).sum())


def test_func_grad_beside_tensors_and_meshes_that_are_constant():
    for ball in (BALL, mesh(), mesh(leaf(VERTICES))):
        assert torch.equal(func.grad(lambda p, ball=ball: gk.signed_distance(ball, p).sum())(POINTS), gradients()[0])


def test_func_vjp_of_a_record():
    def hits(vertices, origins):
        found = gk.cast_rays(mesh(vertices), origins, -POINTS)
        return found.t[found.hit], found.position[found.hit]

    outputs, pull = func.vjp(hits, VERTICES, 4 * POINTS)
    pulled = pull(tuple(torch.ones_like(x) for x in outputs))
    vertices, origins = leaf(VERTICES), leaf(4 * POINTS)
    torch.stack([x.sum() for x in hits(vertices, origins)]).sum().backward()
    torch.testing.assert_close(pulled, (vertices.grad, origins.grad))


def test_func_grad_may_be_nested_as_long_as_it_is_a_first_derivative():
    def outer(vertices):
        inner = func.grad(lambda p: gk.signed_distance(BALL, p).sum())(POINTS)
        return (distance(POINTS, vertices) * inner[:, 0]).sum()

    vertices = leaf(VERTICES)
    (distance(POINTS, vertices) * gradients()[0][:, 0]).sum().backward()
    torch.testing.assert_close(func.grad(outer)(VERTICES), vertices.grad)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        func.grad(lambda p: func.grad(lambda q: distance(q).sum())(p).sum())(POINTS)


def test_vmap_is_refused():
    match = "torch.func.vmap: expected one call with all elements in it"
    for call in (
        lambda: func.vmap(lambda p: distance(p[None]))(POINTS),
        lambda: func.vmap(lambda p: gk.contains(BALL, p[None]))(POINTS),
        lambda: func.vmap(lambda v: distance(POINTS, v))(VERTICES[None]),
        lambda: func.jacrev(distance)(POINTS),
        lambda: torch.autograd.functional.jacobian(distance, POINTS, vectorize=True),
    ):
        with pytest.raises(NotImplementedError, match=match):
            call()
    assert torch.autograd.functional.jacobian(distance, POINTS).shape == (9, 9, 3)


# ---- torch's tools


@pytest.mark.parametrize("made", ["each step", "with_vertices"])
def test_an_optimizer_fits_a_mesh(made):
    vertices = torch.nn.Parameter(1.2 * VERTICES)
    optimizer = torch.optim.Adam([vertices], lr=0.02)
    moved, target, losses = mesh(), distance(POINTS), []
    for _ in range(30):
        moved = moved.with_vertices(vertices) if made == "with_vertices" else mesh(vertices)
        loss = (gk.signed_distance(moved, POINTS) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 * losses[0]


def test_memory_of_a_fit_stays_flat():
    vertices = torch.nn.Parameter(1.2 * VERTICES)
    moved, dead, counts = mesh(), [], []
    for step in range(300):
        moved = moved.with_vertices(vertices)
        distances = gk.signed_distance(moved, POINTS)
        loss = distances.square().mean()
        loss.backward()
        assert vertices.grad is not None
        with torch.no_grad():
            vertices -= 0.01 * vertices.grad
        vertices.grad = None
        dead += [weakref.ref(moved), weakref.ref(distances.grad_fn)]
        if step in (100, 299):
            gc.collect()
            counts.append(len(gc.get_objects()) - len(dead))
    del moved, distances, loss
    assert counts[1] - counts[0] < 199, "an object a step stays"
    gc.disable()
    try:
        assert not [ref for ref in dead[:-4] if ref() is not None]
    finally:
        gc.enable()


def test_chains():
    field = leaf(FIELD)
    surface = gk.marching_cubes(field)
    gk.chamfer_distance(surface, VERTICES, samples=50).backward()
    assert field.grad.abs().sum() > 0

    vertices = leaf(VERTICES)
    grid = gk.sdf_grid(mesh(vertices), resolution=12)
    assert isinstance(grid, gk.SdfGrid) and grid.values.requires_grad
    gk.interpolate_grid(grid, POINTS.clamp(-1, 1)).value.sum().backward()
    constant = grid._replace(values=grid.values.detach())
    explicit = gk.interpolate_grid.adjoint(constant, POINTS.clamp(-1, 1), adj_value=torch.ones(9))
    again = gk.sdf_grid.adjoint(BALL, resolution=12, adj_values=explicit.grid.numpy())
    torch.testing.assert_close(vertices.grad, torch.from_numpy(again.vertices))


def test_checkpoint_and_offloading_and_anomaly_mode_give_the_same_gradient():
    checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
    runs = [leaf(POINTS) for _ in range(4)]
    checkpoint(lambda p: distance(p * 1), runs[0], use_reentrant=False).sum().backward()
    checkpoint(lambda p: distance(p * 1), runs[1], use_reentrant=True).sum().backward()
    with torch.autograd.graph.save_on_cpu():
        distance(runs[2]).sum().backward()
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly():
        distance(runs[3]).sum().backward()
    assert all(torch.equal(points.grad, gradients()[0]) for points in runs)


@pytest.mark.filterwarnings("ignore")
def test_what_is_compiled_breaks_at_geomkit():
    def loss(vertices, points):
        ball = mesh().with_vertices(vertices * 1.5)
        hits = gk.cast_rays(ball, 4 * points, -points)
        return gk.signed_distance(mesh(vertices), points * 2).sum() + hits.position[hits.hit].sum() + ball.area

    grads = []
    for call in (loss, torch.compile(loss, backend="aot_eager")):
        vertices, points = leaf(VERTICES), leaf(POINTS)
        call(vertices, points).backward()
        grads.append((vertices.grad, points.grad))
    torch.testing.assert_close(*grads)


def test_threads():
    found, expected = [None] * 4, gradients()

    def work(i):
        points, vertices = leaf(POINTS), leaf(VERTICES)
        for _ in range(20):
            points.grad = vertices.grad = None
            distance(points, vertices).sum().backward()
        found[i] = torch.equal(points.grad, expected[0]) and torch.equal(vertices.grad, expected[1])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


class Samples(torch.utils.data.Dataset):
    """Points and distances, computed by the workers."""

    def __init__(self, ball):
        self.ball = ball

    def __len__(self):
        return 8

    def __getitem__(self, i):
        points = torch.from_numpy(np.random.default_rng(i).normal(size=(100, 3)).astype(np.float32)).requires_grad_()
        d = gk.signed_distance(self.ball, points)
        d.sum().backward()
        return points.detach(), d.detach(), points.grad


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork.. was called:RuntimeWarning")  # jax, where other tests have loaded it
def test_workers_of_a_data_loader():
    gk.signed_distance(BALL, np.zeros((5000, 3)))  # the parent's threads run already
    loader = torch.utils.data.DataLoader(Samples(mesh()), batch_size=4, num_workers=2, multiprocessing_context="fork")
    batches = list(loader)
    assert len(batches) == 2
    for points, d, gradient in zip(*[torch.cat(parts) for parts in zip(*batches, strict=True)], strict=True):
        again = leaf(points)
        distance(again).sum().backward()
        assert torch.equal(distance(points), d) and torch.equal(again.grad, gradient)


def test_an_output_made_late_does_not_refer_to_itself():
    origins = leaf(3 * POINTS)
    gc.disable()
    try:
        hits = gk.cast_rays(mesh(leaf(VERTICES)), origins, -POINTS)
        assert hits.position is hits.position
        node = weakref.ref(hits.position.grad_fn)
        hits.position[hits.hit].sum().backward()
        del hits
        assert node() is None
    finally:
        gc.enable()


def test_copies_of_meshes():
    vertices = leaf(VERTICES)
    ball = mesh(vertices)
    for other in (pickle.loads(pickle.dumps(ball)), copy.deepcopy(ball)):
        assert isinstance(other.vertices, torch.Tensor) and not other.vertices.requires_grad
        assert torch.equal(other.vertices, vertices) and torch.equal(other.faces, FACES)
    for other in (copy.copy(ball), ball.copy(), ball.flipped(), ball.weld(), gk.Mesh(ball)):
        vertices.grad = None
        gk.area(other).backward()
        assert vertices.grad is not None and vertices.grad.abs().sum() > 0
    assert ball.detach().area == pytest.approx(float(BALL.area)) and not ball.detach().vertices.requires_grad
