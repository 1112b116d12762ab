"""Images and gradients beside those of Mitsuba 3: central differences of renders with 12,000 samples a pixel.

An error is |ours - reference| / max(|reference|, e), by pixel and channel, e = 0.02 for images and 0.2 for derivatives,
as in Mitsuba's own tests; its mean stays below a quarter of Mitsuba's limit, its maximum under the limit. One stays
under half of it: the derivative for the constant light, whose reference is 0.9776 where the light itself is seen, which
is 1.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.radiance import Radiance
from geomkit.render.shadow import shadows_of
from geomkit.render.silhouette import EdgeSamples
from geomkit.render.tables import SceneTables

FOLDER = (Path(__file__).parents[2] / ".." / "shared" / "mitsuba").resolve()
TAN = 0.30594117
WIDTH = 8 * TAN  # of the film at distance 4
BLACK = (0.0, 0.0, 0.0)
GREY = gk.Material(two_sided=False)
WHITE = gk.Material(albedo=(1.0, 1.0, 1.0), two_sided=False)


def camera(size=128):
    return gk.Camera.look_at((0, 0, 4), (0, 0, 0), fov=2 * np.degrees(np.arctan(TAN)), width=size, height=size)


def shape(name):
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} is not in {FOLDER}")
    return gk.load_mesh(path)


def moved(mesh, scale=1.0, shift=BLACK, dtype=np.float32):
    return gk.Mesh((np.asarray(mesh.vertices, np.float64) * scale + shift).astype(dtype), mesh.faces)


def rectangle(shift=BLACK, dtype=np.float32):
    corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    return gk.Mesh((corners + shift).astype(dtype), [[0, 1, 2], [0, 2, 3]])


def ball():
    return gk.Object(moved(gk.shapes.icosphere(5), 0.25), GREY, smooth=True)


def plane(material=GREY):
    return gk.Object(rectangle(), material)


def glowing(mesh, radiance=1.0):
    return gk.Object(mesh, gk.Material(emission=(radiance,) * 3, two_sided=False))


@dataclass
class Row:
    """A row of the table: the scene, what theta is, and Mitsuba's limits.

    Attributes:
        path: of what theta is added to; or of the vertices that theta times `direction` is added to.
        shares: the parts of the mean limits that images and derivatives keep within: 4 for a quarter.
    """

    scene: Any
    path: str
    limits: tuple[float, float]
    size: int = 128
    direction: Any = None
    depth: int = 1
    samples: int = 16
    light_points: int = 64
    shares: tuple[int, int] = (4, 4)


def side_light():
    """The rectangle turned by -90 degrees about y, and moved."""
    turned = rectangle().vertices @ np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]], np.float32)
    return gk.Mesh(turned + np.array([1.25, 0, 1], np.float32), rectangle().faces)


def occluder():
    sphere = shape("sphere.obj")
    objects = {
        "plane": plane(),
        "occluder": gk.Object(moved(sphere, 0.25, (2, 0, 2)), GREY, smooth=True),
        "lamp": glowing(moved(sphere, 0.05, (4, 0, 4)), 1000.0),
    }
    return gk.Scene(objects)


def along_x(mesh):
    return np.broadcast_to(np.array([1.0, 0, 0]), np.shape(mesh))


SKY = {"sky": gk.ConstantLight()}
ROWS = {
    "diffuse_albedo": Row(
        lambda: gk.Scene({"plane": plane(), "ball": ball()}, SKY), "plane.material.albedo", (0.015, 0.25)
    ),
    "constant_emitter_radiance": Row(
        lambda: gk.Scene({"plane": plane(), "ball": ball()}, SKY), "sky.radiance", (0.02, 0.1), shares=(4, 2)
    ),
    "point_light_intensity": Row(
        lambda: gk.Scene(
            {"plane": plane(WHITE), "ball": ball()}, {"point": gk.PointLight((1.25, 0.0, 1.0), (5.0, 5.0, 5.0))}
        ),
        "point.intensity",
        (0.02, 0.2),
    ),
    "area_light_radiance": Row(
        lambda: gk.Scene({"plane": plane(WHITE), "ball": ball(), "lamp": glowing(side_light(), 3.0)}),
        "lamp.material.emission",
        (0.02, 0.4),
        samples=20,
    ),
    "translate_diffuse_rectangle_constant": Row(
        lambda: gk.Scene({"plane": gk.Object(rectangle())}, SKY), "plane.vertices", (0.02, 0.5), direction=along_x
    ),
    "translate_rectangle_emitter_on_black": Row(
        lambda: gk.Scene({"lamp": glowing(rectangle((1.25, 0, 0)))}),
        "lamp.vertices",
        (0.03, 1),
        direction=along_x,
        depth=0,
    ),
    "scale_sphere_emitter_on_black": Row(
        lambda: gk.Scene({"lamp": glowing(shape("sphere.obj"))}),
        "lamp.vertices",
        (0.08, 0.5),
        size=64,
        direction=lambda x: x,
        depth=0,
    ),
    "translate_occluder_area_light": Row(
        occluder, "occluder.vertices", (0.03, 1.75), direction=along_x, light_points=512, samples=20
    ),
}
EDGES = [name for name, row in ROWS.items() if row.direction is not None]


def reference(name):
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{name}.npz is not in {FOLDER}")
    return np.load(path)


def compare(image, reference, least, limits, share):
    error = abs(image - reference) / np.maximum(abs(reference), least)
    print(f"mean {error.mean():.5f} of {limits[0]}, maximum {error.max():.3f} of {limits[1]}")
    assert error.mean() < limits[0] / share and error.max() < limits[1]


def color(scene, row, samples):
    return gk.render(scene, camera(row.size), samples=samples, depth=row.depth).color


@pytest.mark.parametrize("name", ROWS)
def test_image(name):
    row = ROWS[name]
    compare(color(row.scene(), row, row.samples), reference(name)["primal"], 0.02, row.limits, row.shares[0])


def edge_derivative(scene, view, steps, *, depth=1, light_points=64):
    """The image's derivative when vertices move by steps (V, 3), those of all objects, and only edges show it."""
    tables = SceneTables(scene)

    def seen(first):
        return Radiance(tables, None, first.directions, first.stream, first.index, depth, first).value

    image = EdgeSamples(tables, view, seen, repeat=64 if depth else 1, seed=0).tangent(steps)
    shadows = shadows_of(tables, view, count=light_points, seed=1) if depth else []
    return sum((shadow.tangent(steps) for shadow in shadows), image)


def steps_of(scene, path, direction):
    parts = [np.zeros(np.shape(thing.mesh.vertices)) for thing in scene.objects.values()]
    index = list(scene.objects).index(path.partition(".")[0])
    parts[index] = np.asarray(direction(scene[path]), np.float64)
    return np.concatenate(parts)


@pytest.mark.parametrize("name", [name for name in ROWS if name not in EDGES])
def test_derivative_of_what_is_linear(name):
    row = ROWS[name]
    scene = row.scene()
    low, high = (color(scene.with_values({row.path: (x, x, x)}), row, row.samples) for x in (0.0, 1.0))
    compare(high - low, reference(name)["fwd"], 0.2, row.limits, row.shares[1])


@pytest.mark.parametrize("name", EDGES)
def test_derivative_of_edges(name):
    row = ROWS[name]
    scene = row.scene()
    steps = steps_of(scene, row.path, row.direction)
    image = edge_derivative(scene, camera(row.size), steps, depth=row.depth, light_points=row.light_points)
    compare(image, reference(name)["fwd"], 0.2, row.limits, row.shares[1])


@pytest.mark.parametrize("name", ROWS)
def test_adjoint(name):
    row = ROWS[name]
    scene, wanted = row.scene(), float(reference(name)["fwd"].mean())
    adj = np.full((row.size, row.size, 3), 1e-3 / (3 * row.size**2))
    options = dict(samples=4, depth=row.depth, light_points=128)
    g = gk.render.adjoint(scene, camera(row.size), **options, adj_color=adj)[row.path]
    got = np.sum(g if row.direction is None else g * row.direction(scene[row.path])) * 1e3
    print(f"{got:.6f}, wanted {wanted:.6f}")
    assert abs(got - wanted) < (0.05 if row.direction is None else 0.25) * max(abs(wanted), 1e-3)


# ---- closed forms

PRECISIONS = [(np.float32, 1e-4), (np.float64, 1e-6)]


def mean_gradient(scene, view, path, direction, depth=0):
    """How the mean of the image changes, by the adjoint and by the derivative, and that derivative."""
    adj = np.full((view.height, view.width, 3), 1 / (3 * view.height * view.width))
    g = gk.render.adjoint(scene, view, samples=1, depth=depth, adj_color=adj)[path]
    image = edge_derivative(scene, view, steps_of(scene, path, direction), depth=depth)
    return float(np.sum(np.asarray(g, np.float64) * direction(scene[path]))), float(image.mean()), image


@pytest.mark.parametrize("dtype, tolerance", PRECISIONS)
def test_rectangle_that_emits(dtype, tolerance):
    scene = gk.Scene({"lamp": glowing(rectangle((1.25, 0, 0), dtype))})
    adjoint, mean, image = mean_gradient(scene, camera(), "lamp.vertices", along_x)
    assert [adjoint, mean] == pytest.approx([-2 / WIDTH**2] * 2, rel=tolerance)
    assert image.min() == pytest.approx(-128 / WIDTH, rel=tolerance)


@pytest.mark.parametrize("dtype, tolerance", PRECISIONS)
def test_rectangle_that_is_lit(dtype, tolerance):
    scene = gk.Scene({"plane": gk.Object(rectangle(dtype=dtype))}, SKY)
    adjoint, mean, image = mean_gradient(scene, camera(), "plane.vertices", along_x, depth=1)
    assert [image.min(), image.max()] == pytest.approx([-64 / WIDTH, 64 / WIDTH], rel=tolerance)
    assert max(abs(adjoint), abs(mean)) < tolerance


@pytest.mark.parametrize("dtype, tolerance", PRECISIONS)
def test_cube(dtype, tolerance):
    scene = gk.Scene({"lamp": glowing(gk.shapes.box((2, 2, 2), dtype=dtype))})
    view = gk.Camera.look_at((0, 0, 4), (0, 0, 0), fov=45, width=128, height=128)
    nearer = lambda x: np.broadcast_to(np.array([0, 0, 1.0]), np.shape(x))  # noqa: E731
    adjoint, mean, _ = mean_gradient(scene, view, "lamp.vertices", nearer)
    wanted = 2 / 3 / (9 * np.tan(np.radians(22.5)) ** 2)
    assert [adjoint, mean] == pytest.approx([wanted] * 2, rel=tolerance)


@pytest.mark.parametrize("dtype, tolerance", PRECISIONS)
def test_sphere_that_grows(dtype, tolerance):
    """What shows of the unit sphere is the disc where the cone from the eye touches it."""
    n = 4096
    angle = 2 * np.pi * np.arange(n) / n
    ring = np.stack([np.cos(angle), np.sin(angle), np.full(n, 1 / np.sqrt(15))], axis=1) * np.sqrt(15) / 4
    faces = np.stack([np.arange(n), np.roll(np.arange(n), -1), np.full(n, n)], axis=1)
    scene = gk.Scene({"lamp": glowing(gk.Mesh(np.concatenate([ring, [[0, 0, 1 / 4]]]).astype(dtype), faces))})
    adjoint, mean, _ = mean_gradient(scene, camera(64), "lamp.vertices", lambda x: x)
    assert [adjoint, mean] == pytest.approx([np.pi * 16 * (32 / 225) / WIDTH**2] * 2, rel=tolerance)
