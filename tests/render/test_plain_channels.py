"""Channels without light: their gradients by the short way and by that of surfaces."""

import numpy as np
import pytest

import geomkit as gk

CHANNELS = {"normal": 3, "albedo": 3, "depth": 1, "mask": 1, "position": 3}


@pytest.mark.parametrize("filter, samples", [("box", 1), ("gaussian", 2)])
def test_gradient(filter, samples):
    """Whoever wants the camera's gradients, too, gets the same ones of the mesh."""
    ball = gk.shapes.icosphere(2, dtype=np.float64)
    rng = np.random.default_rng(0)
    scene = gk.Scene({"a": gk.Object(ball, gk.Material(albedo=rng.random((ball.n_vertices, 3))))})
    camera = gk.Camera.framing(ball, width=24, height=18)
    adj = {f"adj_{name}": rng.standard_normal((18, 24, n)) for name, n in CHANNELS.items()}
    options = dict(channels=tuple(CHANNELS), samples=samples, filter=filter, boundary="none", **adj)
    paths = ("a.vertices", "a.material.albedo")
    short, whole = (gk.render.adjoint(scene, camera, **options, wanted=wanted) for wanted in (paths, None))
    for path in paths:
        assert abs(whole[path]).max() > 1
        np.testing.assert_allclose(short[path], whole[path], atol=1e-12)
    only = gk.render.adjoint(scene, camera, **options, wanted="a.vertices")
    np.testing.assert_allclose(only["a.vertices"], short["a.vertices"], atol=1e-12)


def test_value():
    """What is seen does not depend on whether light is asked for, too."""
    ball = gk.shapes.icosphere(2, dtype=np.float64)
    colors = np.random.default_rng(0).random((ball.n_vertices, 3))
    camera = gk.Camera.framing(ball, width=24, height=18)
    for albedo in (colors, (0.2, 0.4, 0.6)):
        scene = gk.Scene({"a": gk.Object(ball, gk.Material(albedo=albedo))}, gk.ConstantLight())
        plain = gk.render(scene, camera, channels=tuple(CHANNELS), samples=2)
        lit = gk.render(scene, camera, channels=("color", *CHANNELS), samples=2)
        for name in CHANNELS:
            np.testing.assert_allclose(getattr(plain, name), getattr(lit, name), atol=1e-12)
