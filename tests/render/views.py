"""Small scenes and derivatives for the tests of the renderer."""

import numpy as np

import geomkit as gk
from geomkit.render import tables
from geomkit.render.direct_light import LightStruct


def weights(camera, channels=3):
    """(H, W, C) smooth, and nowhere symmetrical: what is summed over an image to make a number of it."""
    x = (np.arange(camera.width) + 0.5) / camera.width
    y = (np.arange(camera.height) + 0.5)[:, None] / camera.height
    return np.stack([1 + np.sin(5 * x + k) + 0.8 * np.cos(4 * y + 2 * k) for k in range(channels)], axis=2)


def total(scene, camera, channel="color", **options):
    """The weighted sum of a channel."""
    image = getattr(gk.render(scene, camera, channels=channel, **options), channel)
    return float((np.asarray(image, np.float64) * weights(camera, image.shape[2])).sum())


def gradients(scene, camera, channel="color", **options):
    """Those of `total`."""
    count = 3 if channel in ("color", "position", "normal", "albedo") else 1
    adj = {f"adj_{channel}": weights(camera, count)}
    return gk.render.adjoint(scene, camera, channels=channel, **options, **adj)


def difference(f, step):
    """The central difference of a function of a number, at 0."""
    return (f(step) - f(-step)) / (2 * step)


def slopes(f, slope, step, *, n=8):
    """The slope of f between -step and step, by its ends, and the mean of what `slope` says it is there.

    The two are equal: where edges pass pixels, slopes jump, so that the one in the middle alone need not be near.
    """
    places = step * ((np.arange(n) + 0.5) * 2 / n - 1)
    return np.mean([slope(e) for e in places]), difference(f, step)


def quad(size=1.0, z=0.0, dtype=np.float64):
    """A square across z, that looks to +z."""
    corners = size * np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) + [0, 0, z]
    return gk.Mesh(corners.astype(dtype), [[0, 1, 2], [0, 2, 3]])


def ball(level=2, radius=1.0, center=(0.0, 0.0, 0.0), dtype=np.float64):
    sphere = gk.shapes.icosphere(level, dtype=np.float64)
    return gk.Mesh((radius * sphere.vertices + np.asarray(center)).astype(dtype), sphere.faces)


def glow(mesh, radiance=(1.0, 1.0, 1.0)):
    return gk.Object(mesh, gk.Material(emission=radiance))


def only_draw(monkeypatch):
    """Have the points of area lights drawn alone: surfaces' own rays look for none, so that samples are constants."""
    monkeypatch.setattr(tables, "LightStruct", lambda *args, followed=False, **numbers: LightStruct(*args, **numbers))


def front(size=16, *, distance=4.0, fov=35.0, **options):
    """A camera on +z that looks at the origin."""
    return gk.Camera.look_at((0, 0, distance), (0, 0, 0), fov=fov, width=size, height=size, **options)
