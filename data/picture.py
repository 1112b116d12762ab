"""Makes the picture of the README, every distance of it geomkit's: `python data/picture.py [FILE]`.

A trefoil stands half sunk in a plane that shows its signed distance; of the three arcs above the plane one is left out,
so that the inside is seen. The arcs are found by sphere tracing, in steps of the distance, and shade is a matter of
distances, too.
"""

import sys
from pathlib import Path

import numpy as np
from make import knot
from numpy.typing import NDArray
from PIL import Image

import geomkit as gk

WIDTH, HEIGHT, SAMPLES = 920, 412, 3  # pixels, and rays a pixel along each axis
EYE, TARGET, FIELD = np.array([1.5, -11.0, 10.6]), np.array([-0.17, -0.86, 0.0]), 0.26
LEFT_OUT = 1 / 12 + 1 / 3  # where along the curve the middle of that arc is
LIGHT = np.array([-0.55, -0.25, 0.8]) / np.linalg.norm([-0.55, -0.25, 0.8])
HALF = np.array([6.1, 4.2])  # of the plane's rectangle

Array = NDArray[np.float64]


def field(mesh: gk.Mesh, points: Array, *, sign: str = "unsigned") -> Array:
    return gk.signed_distance(mesh, points, sign=sign).astype(np.float64)


def visible(whole: gk.Mesh, sides: int) -> gk.Mesh:
    """The knot without its front arc above the plane."""
    height = whole.vertices_array[whole.faces_array, 2].max(axis=1)
    turn = np.arange(whole.n_faces) / (2 * sides) / (whole.n_vertices / sides)  # along the curve, from 0 to 1
    return gk.Mesh(whole.vertices_array, whole.faces_array[(height < 0) | (np.abs(turn - LEFT_OUT) > 1 / 6)])


def rays() -> tuple[Array, Array]:
    """Origins and unit directions, a row a ray."""
    forward = (TARGET - EYE) / np.linalg.norm(TARGET - EYE)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    nx, ny = WIDTH * SAMPLES, HEIGHT * SAMPLES
    x = ((np.arange(nx) + 0.5) / nx * 2 - 1) * FIELD * nx / ny
    y = (1 - (np.arange(ny) + 0.5) / ny * 2) * FIELD
    direction = forward + x[None, :, None] * right + y[:, None, None] * up
    direction = direction.reshape(-1, 3)
    return np.broadcast_to(EYE, direction.shape), direction / np.linalg.norm(direction, axis=1, keepdims=True)


def trace(mesh: gk.Mesh, origin: Array, direction: Array, t: Array, limit: Array, *, steps: int = 90) -> Array:
    """Along each ray the surface beyond t; inf if there is none before the limit."""
    t, hit = t.copy(), np.full(len(t), np.inf)
    active = np.flatnonzero(t < limit)
    for _ in range(steps):
        d = field(mesh, origin[active] + t[active, None] * direction[active])
        found = d < 1e-3
        hit[active[found]] = t[active[found]]
        t[active] += d
        active = active[~found & (t[active] < limit[active])]
        if not len(active):
            break
    return hit


def occlusion(mesh: gk.Mesh, points: Array, normal: Array) -> Array:
    """1 where the surroundings are open, less where the distance grows slowly along the normal."""
    shade, weight = np.zeros(len(points)), 1.0
    for h in (0.06, 0.15, 0.3, 0.5, 0.8):
        free = np.minimum(field(mesh, points + h * normal), points[:, 2] + h * normal[:, 2] + 1e-3)
        shade += weight * np.clip(h - np.maximum(free, 0), 0, None) / h
        weight *= 0.72
    return np.clip(1 - 0.36 * shade, 0, 1)


def sunlight(mesh: gk.Mesh, points: Array) -> Array:
    """How much of a wide light is seen: the least distance on the way to it, over the way."""
    seen, t, active = np.ones(len(points)), np.full(len(points), 0.05), np.arange(len(points))
    for _ in range(40):
        d = field(mesh, points[active] + t[active, None] * LIGHT)
        seen[active] = np.minimum(seen[active], np.clip(0.5 + 7 * d / t[active], 0, 1))
        t[active] += np.clip(d, 0.04, 0.5)
        active = active[(seen[active] > 0.005) & (t[active] < 6)]
    return seen**2 * (3 - 2 * seen)


def plane_colour(distance: Array) -> Array:
    """Warm outside, blue inside, a line at equal steps of distance, and the surface itself in ink."""
    far = np.clip(distance / 3.4, 0, 1)[:, None]
    deep = np.clip(-distance / 0.6, 0, 1)[:, None] ** 0.8
    outside = (1 - far) * np.array([0.99, 0.86, 0.62]) + far * np.array([0.90, 0.42, 0.17])
    inside = (1 - deep) * np.array([0.62, 0.85, 0.93]) + deep * np.array([0.03, 0.23, 0.44])
    colour = np.where((distance < 0)[:, None], inside, outside) ** 1.7
    step = np.where(distance < 0, 0.1, 0.2)
    from_line = np.abs(distance / step - np.round(distance / step)) * step
    colour *= 1 - 0.36 * np.clip(1.6 - from_line / 0.014, 0, 1)[:, None]
    return colour * np.clip((np.abs(distance) - 0.022) / 0.012, 0.02, 1)[:, None]


def shade(mesh: gk.Mesh, points: Array, normal: Array, albedo: Array, direction: Array, gloss: float) -> Array:
    open_sky = occlusion(mesh, points, normal)[:, None]
    sun = (np.clip(normal @ LIGHT, 0, 1) * sunlight(mesh, points + 0.01 * normal))[:, None]
    half = LIGHT - direction
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    shine = gloss * sun * np.clip((normal * half).sum(axis=1, keepdims=True), 0, 1) ** 60
    fresnel = gloss * 0.35 * open_sky * (1 + np.clip((normal * direction).sum(axis=1, keepdims=True), -1, 0)) ** 4
    sky = (0.55 + 0.25 * normal[:, 2:]) * np.array([0.95, 1.0, 1.06])
    return albedo * (0.62 * sky * open_sky + 0.72 * sun * np.array([1.05, 1.0, 0.92])) + shine + fresnel


def render() -> Array:
    """(H, W, 4) linear colours and coverage, an axis of samples behind H and W."""
    whole = knot(640, 64)
    mesh = visible(whole, 64)
    origin, direction = rays()
    colour = np.zeros((len(direction), 4))

    ground = -origin[:, 2] / direction[:, 2]
    at = origin + ground[:, None] * direction
    rim = np.abs(at[:, :2]) - HALF + 0.5
    edge = np.hypot(*np.maximum(rim, 0).T) + np.minimum(rim.max(axis=1), 0) - 0.5  # of a rectangle with round corners
    on_plane = (ground > 0) & (edge < 0)

    top = (1.6 - origin[:, 2]) / direction[:, 2]  # no part of the knot is higher
    hit = trace(mesh, origin, direction, top, np.where(on_plane, ground, top + 9))
    on_knot = np.isfinite(hit)
    on_knot &= on_plane | (origin[:, 2] + hit * direction[:, 2] > 0)

    for part in np.array_split(np.flatnonzero(on_plane & ~on_knot), 4):
        up = np.broadcast_to([0.0, 0.0, 1.0], (len(part), 3))
        albedo = plane_colour(field(whole, at[part], sign="pseudonormal"))
        colour[part, :3] = shade(mesh, at[part], up, albedo, direction[part], 0.0)
    for part in np.array_split(np.flatnonzero(on_knot), 4):
        points = origin[part] + hit[part, None] * direction[part]
        near = gk.closest_point(mesh, points)
        normal = (whole.vertex_normals[mesh.faces_array[near.face]] * near.barycentric[:, :, None]).sum(axis=1)
        normal = (normal / np.linalg.norm(normal, axis=1, keepdims=True)).astype(np.float64)
        albedo = np.broadcast_to([0.10, 0.36, 0.52], points.shape)
        colour[part, :3] = shade(mesh, points, normal, albedo, direction[part], 0.55)
    colour[:, 3] = on_plane | on_knot
    return colour.reshape(HEIGHT, SAMPLES, WIDTH, SAMPLES, 4)


def encoded(linear: Array) -> Array:
    """sRGB of linear colours, averaged over the rays of each pixel, with the share of rays that met something."""
    mean = np.clip(linear, 0, 1).mean(axis=(1, 3))
    colour, cover = mean[:, :, :3] / np.maximum(mean[:, :, 3:], 1e-9), mean[:, :, 3:]
    colour = np.where(colour <= 0.0031308, 12.92 * colour, 1.055 * colour ** (1 / 2.4) - 0.055)
    return np.concatenate([colour, cover], axis=2)


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("signed_distance.png")
    pixels = np.uint8(3 * np.round(85 * encoded(render())))  # in steps of 3, which nobody sees and PNG packs better
    Image.fromarray(pixels).save(path, optimize=True)
