"""Textures: wrap modes, levels of detail, what materials take from them, and their gradients."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.texture import Pyramid

RNG = np.random.default_rng(5)
SIZES = (1, 1), (1, 4), (2, 3), (5, 7), (8, 8)


def wrapped(k: int, n: int, wrap: str) -> int:
    """The texel of n that stands at position k of the endless row."""
    if wrap == "repeat":
        return k % n
    if wrap == "clamp":
        return min(max(k, 0), n - 1)
    k %= 2 * n
    return k if k < n else 2 * n - 1 - k


def looked_up(image: np.ndarray, u: float, v: float, wrap_u: str, wrap_v: str) -> np.ndarray:
    h, w = image.shape[:2]
    x, y = w * u - 0.5, h * (1 - v) - 0.5
    i, j = int(np.floor(x)), int(np.floor(y))
    total = np.zeros(image.shape[2])
    for a, b in product((0, 1), (0, 1)):
        weight = (x - i if a else 1 - x + i) * (y - j if b else 1 - y + j)
        total += weight * image[wrapped(j + b, h, wrap_v), wrapped(i + a, w, wrap_u)]
    return total


@pytest.mark.parametrize(("wrap_u", "wrap_v"), [("repeat", "clamp"), ("mirror", "repeat"), ("clamp", "mirror")])
@pytest.mark.parametrize("size", SIZES)
def test_value(size: tuple[int, int], wrap_u: str, wrap_v: str) -> None:
    image, uv = RNG.random((*size, 3)), 6 * RNG.random((200, 2)) - 3
    expected = [looked_up(image, u, v, wrap_u, wrap_v) for u, v in uv]
    assert np.allclose(Pyramid(image, wrap_u, wrap_v).values(uv), expected, rtol=0, atol=1e-12)


def test_edge() -> None:
    pyramid = Pyramid(RNG.random((3, 4, 3)), "repeat", "mirror")
    assert pyramid.values(np.zeros((0, 2))).shape == (0, 3)
    adj_image, adj_uv = pyramid.adjoint(np.zeros((0, 2)), None, np.zeros((0, 3)))
    assert adj_image.shape == (3, 4, 3) and not adj_image.any() and adj_uv.shape == (0, 2)
    # On a texel's centre is the texel.
    image = RNG.random((3, 4, 1))
    u, v = np.meshgrid((np.arange(4) + 0.5) / 4, 1 - (np.arange(3) + 0.5) / 3)
    found = Pyramid(image, "clamp", "clamp").values(np.stack([u, v], axis=-1).reshape(-1, 2))
    assert np.allclose(found, image.reshape(-1, 1), rtol=0, atol=1e-14)


@pytest.mark.parametrize("size", SIZES)
def test_levels_keep_the_mean(size: tuple[int, int]) -> None:
    image = RNG.random((*size, 2))
    pyramid = Pyramid(image, "repeat", "repeat", mipmap=True)
    assert pyramid.shapes[-1] == (1, 1)
    first = 0
    for h, w in pyramid.shapes:
        assert np.allclose(pyramid.texels[first : first + h * w].mean(axis=0), image.mean(axis=(0, 1)))
        first += h * w


def test_between_levels() -> None:
    image = RNG.random((8, 8, 3))
    pyramid = Pyramid(image, "repeat", "clamp", mipmap=True)
    half = Pyramid(image.reshape(4, 2, 4, 2, 3).mean(axis=(1, 3)), "repeat", "clamp")
    uv = RNG.random((50, 2))
    expected = 0.75 * Pyramid(image, "repeat", "clamp").values(uv) + 0.25 * half.values(uv)
    assert np.allclose(pyramid.values(uv, np.full(50, 0.25)), expected)
    assert np.allclose(pyramid.values(uv, np.full(50, 99.0)), image.mean(axis=(0, 1)))


@pytest.mark.parametrize("mipmap", [False, True])
@pytest.mark.parametrize(("wrap_u", "wrap_v"), [("repeat", "clamp"), ("mirror", "repeat"), ("clamp", "mirror")])
@pytest.mark.parametrize("size", SIZES)
def test_gradient(size: tuple[int, int], wrap_u: str, wrap_v: str, mipmap: bool) -> None:
    image, uv, level = RNG.random((*size, 3)), 6 * RNG.random((300, 2)) - 3, 4 * RNG.random(300) - 0.5
    adj, d_image, d_uv = RNG.normal(size=(300, 3)), RNG.normal(size=image.shape), RNG.normal(size=uv.shape)

    def value(e: float, f: float) -> np.ndarray:
        pyramid = Pyramid(image + e * d_image, wrap_u, wrap_v, mipmap=mipmap)
        return (pyramid.values(uv + f * d_uv, level) * adj).sum(axis=1)

    adj_image, adj_uv = Pyramid(image, wrap_u, wrap_v, mipmap=mipmap).adjoint(uv, level, adj)
    assert (adj_image * d_image).sum() == pytest.approx((value(1, 0) - value(0, 0)).sum(), rel=1e-9, abs=1e-9)
    step = 1e-7
    slopes, expected = (value(0, step) - value(0, -step)) / (2 * step), (adj_uv * d_uv).sum(axis=1)
    # The slope jumps where texels meet; few of the places are that near.
    assert (abs(slopes - expected) < 1e-5 * (1 + abs(expected))).mean() > 0.98


def quad(z: float = 0.0, size: float = 1.0) -> tuple[gk.Mesh, np.ndarray]:
    corners = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    return gk.Mesh(size * corners + [0, 0, z], [[0, 1, 2], [0, 2, 3]]), (corners[:, :2] + 1) / 2


CAMERA = gk.Camera.look_at((0.1, -0.2, 3), (0, 0, 0), fov=30, width=9, height=8)
LIGHT = gk.PointLight((0.5, 0.6, 2.0), (9.0, 8.0, 7.0))


def scene(**material: Any) -> gk.Scene:
    mesh, uv = quad()
    return gk.Scene({"wall": gk.Object(mesh, gk.Material(model="metallic", **material), uv=uv)}, {"lamp": LIGHT})


@pytest.mark.parametrize(
    ("what", "constant"),
    [("albedo", (0.2, 0.5, 0.7)), ("metallic", 0.3), ("roughness", 0.4), ("emission", (1.0, 2, 3))],
)
def test_same_as_constant(what: str, constant: object) -> None:
    expected = gk.render(scene(**{what: constant}), CAMERA, samples=2).color
    c = np.asarray(constant, float)
    images = np.broadcast_to(c, (3, 5, *c.shape))
    for given in (np.broadcast_to(c, (4, *c.shape)), images, gk.Texture(images, "mirror", "mipmap")):
        assert np.allclose(gk.render(scene(**{what: given}), CAMERA, samples=2).color, expected, rtol=1e-9)


@pytest.mark.parametrize("what", ["albedo", "metallic", "roughness", "emission"])
@pytest.mark.parametrize("form", ["vertices", "image", "mipmap"])
def test_gradient_of_materials(what: str, form: str) -> None:
    shape = (4,) if form == "vertices" else (6, 5)
    shape = (*shape, 3) if what in ("albedo", "emission") else shape
    values = 0.3 + 0.4 * RNG.random(shape)
    given = gk.Texture(values, "clamp", "mipmap") if form == "mipmap" else values
    base, adj = scene(**{what: given}), RNG.normal(size=(8, 9, 3))
    options = dict(samples=2, boundary="none")
    g = gk.render.adjoint(base, CAMERA, adj_color=adj, **options)
    path = f"wall.material.{what}"
    assert g[path].shape == shape
    for changed, step in ((path, 1e-5), ("wall.uv", 1e-6)):
        if changed == "wall.uv" and form == "vertices":
            continue
        x = np.asarray(base[changed])
        direction = RNG.normal(size=x.shape)
        values_at = [
            (gk.render(base.with_values({changed: x + s * step * direction}), CAMERA, **options).color * adj).sum()
            for s in (1, -1)
        ]
        if changed == "wall.uv" and form == "mipmap":
            continue  # the level is a constant to gradients
        expected = (values_at[0] - values_at[1]) / (2 * step)
        assert (g[changed] * direction).sum() == pytest.approx(expected, rel=2e-5)


def test_far_away_is_the_mean() -> None:
    mesh, uv = quad(size=20)
    checks = np.kron(np.indices((64, 64)).sum(axis=0) % 2, np.ones((2, 2)))[..., None] * np.ones(3)
    camera = gk.Camera.look_at((0, 0, 60), (0, 0, 0), fov=30, width=32, height=32)
    spread = {}
    for kind in ("bilinear", "mipmap"):
        material = gk.Material(gk.Texture(checks, filter=kind))
        image = gk.render(gk.Scene(gk.Object(mesh, material, uv=uv)), camera, channels="albedo", samples=1).albedo
        spread[kind] = image.std()
        assert image.mean() == pytest.approx(0.5, abs=0.06)
    assert spread["mipmap"] < 0.06 < 0.3 < spread["bilinear"]


def test_emitting_texture_lights() -> None:
    """A lamp with a texture lights as the mean of two lamps, each with one of its halves."""
    floor, _ = quad()
    lamp, uv = quad(z=1.5, size=0.4)
    image = np.zeros((4, 4, 3))
    image[:, :2], image[:, 2:] = (5, 1, 0), (0, 2, 8)
    camera = gk.Camera.look_at((0, -3, 1), (0, 0, 0), fov=30, width=12, height=12)

    def made(emission: object) -> gk.Scene:
        return gk.Scene({"floor": gk.Object(floor), "lamp": gk.Object(lamp, gk.Material(emission=emission), uv=uv)})

    options = dict(samples=4, boundary="none")
    color = gk.render(made(image), camera, **options).color
    adj = RNG.random(color.shape)
    # The image is linear in what is emitted.
    g = gk.render.adjoint(made(image), camera, adj_color=adj, **options)["lamp.material.emission"]
    assert (g * image).sum() == pytest.approx((adj * color).sum(), rel=1e-9)
    other = image[:, ::-1] + 0.1
    change = (gk.render(made(other), camera, **options).color - color) * adj
    assert (g * (other - image)).sum() == pytest.approx(change.sum(), rel=1e-9)
    # Left is red, right is blue.
    assert color[:, :5, 0].mean() > color[:, 7:, 0].mean() and color[:, :5, 2].mean() < color[:, 7:, 2].mean()


def test_same_bits_again() -> None:
    shapes = (40, 50, 3), (20000, 2), (20000,), (20000, 3)
    image, uv, level, adj = (RNG.random(shape).astype(np.float32) for shape in shapes)
    pyramid = Pyramid(image, "repeat", "repeat", mipmap=True)
    found = [pyramid.adjoint(uv, level, adj)[0] for _ in range(3)]
    assert found[0].any()
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


@pytest.mark.parametrize(
    ("material", "error", "text"),
    [
        (dict(albedo=np.zeros((2, 2, 3), np.uint8)), TypeError, r"wall.material.albedo.*astype\(float\) / 255.*uint8"),
        (dict(albedo=gk.Texture(np.zeros((2, 2, 3)), wrap="border")), ValueError, "albedo.wrap.*'repeat' or 'clamp'"),
        (dict(roughness=gk.Texture(np.zeros((2, 2)), filter="cubic")), ValueError, "roughness.filter"),
        (dict(roughness=np.full((2, 2), 1.5)), ValueError, r"numbers in \[0, 1\], got 1.5 to 1.5"),
        (dict(metallic=1.5), ValueError, r"a number in \[0, 1\], got 1.5"),
        (dict(albedo=np.zeros((2, 2, 4))), ValueError, r"wall\.material\.albedo"),
        (dict(emission=np.zeros((0, 2, 3))), ValueError, "at least one texel"),
        (dict(albedo=np.full((4, 3), np.nan)), ValueError, "finite numbers"),
    ],
)
def test_error(material: dict, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        gk.render(scene(**material), CAMERA)


def test_error_without_uv() -> None:
    mesh, _ = quad()
    material = gk.Material(roughness=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="wall.uv: expected texture coordinates, as roughness is a texture, got None"):
        gk.render(gk.Scene({"wall": gk.Object(mesh, material)}), CAMERA)


def test_path_of_a_texture_is_its_image() -> None:
    made = scene(albedo=gk.Texture(np.zeros((2, 2, 3)), "clamp"))
    assert made["wall.material.albedo"].shape == (2, 2, 3)
    other = made.with_values({"wall.material.albedo": np.ones((3, 3, 3))}).objects["wall"].material.albedo
    assert other.wrap == "clamp" and other.image.shape == (3, 3, 3)
