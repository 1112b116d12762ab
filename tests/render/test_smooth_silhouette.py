"""Silhouettes of objects with interpolated normals, which turn away from the viewer near the rim."""

import numpy as np
import pytest

import geomkit as gk

CAMERA = gk.Camera.look_at((0.5, 3, 4), (0, 0, 0), fov=40, width=32, height=32)
LIGHTS = {
    "constant": gk.ConstantLight(0.3),
    "hidden": gk.ConstantLight(0.3, visible=False),
    "sun": gk.DirectionalLight((-0.5, -1, -0.6), 1.6),
}


@pytest.mark.parametrize("name", LIGHTS)
def test_gradient_of_a_shift_is_that_of_the_image(name):
    ball = gk.shapes.icosphere(3, dtype=np.float64)
    y, x = np.mgrid[:32, :32] / 32
    weight = np.stack([np.sin(3 * x + 2 * y), np.cos(4 * y), x], axis=2) / 1024

    def scene(step):
        moved = ball.with_vertices(0.9 * ball.vertices + [0, step, 0])
        return gk.Scene(gk.Object(moved, gk.Material((0.8,) * 3), smooth=True), LIGHTS[name])

    ahead, behind = (gk.render(scene(h), CAMERA, samples=8, seed=1).color for h in (0.02, -0.02))
    measured = ((ahead - behind) * weight).sum() / 0.04
    claimed = gk.render.adjoint(scene(0.0), CAMERA, samples=8, seed=1, adj_color=weight)["object.vertices"][:, 1].sum()
    assert abs(claimed - measured) < 0.1 * abs(measured)


def test_a_diffuse_rim_is_as_bright_as_the_rest():
    ball = gk.shapes.icosphere(2)
    scene = gk.Scene(gk.Object(ball, smooth=True), gk.ConstantLight(visible=False))
    image = gk.render(scene, CAMERA, channels=("color", "mask"), samples=4)
    share = image.color[:, :, :1][image.mask == 1]
    # (A face that the viewer sees may still look away from some of the light that its normals would see.)
    assert share.min() > 0.4
