"""The camera's kernels as the GPU runs them, one pixel a thread, against the CPU, eight at a time."""

from dataclasses import replace

import numpy as np
import pytest

import geomkit as gk
from geomkit.arrays import Library
from geomkit.render.optics import SUM_BLOCK, Optics, added
from geomkit.render.pixel_rays import PixelWindow, _Query, camera_rays_adj, camera_rays_fwd
from geomkit.render.project_points import project_adj, project_fwd
from geomkit.runtime import cuda
from tests.runtime.emulation import on_cuda

LENSES = [None, (-0.3, 0.05, 0.01, -0.02, 0.01), (-2.0, 0.1, 0.0, 0.0)]
N = 700


def numbers(model, lens):
    camera = gk.Camera.framing(gk.shapes.torus(), width=30, height=20, model=model)
    return camera.world_to_camera, camera.K, lens


def close(found, expected):
    # (Near the fold of a lens the last digits of the plane are hundreds of the ray's.)
    eps = 500 * np.finfo(np.float64).eps + 2 * np.finfo(expected.dtype).eps
    scale = abs(expected[np.isfinite(expected)]).max(initial=0)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=eps, atol=eps * scale)


@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize("model", ["pinhole", "orthographic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_emulated_rays(emulated, dtype, model, lens):
    rng = np.random.default_rng(0)
    listed = rng.uniform(-5, 35, (N, 2)).astype(dtype)
    for pixels in (PixelWindow(1, 2, 25, 7, 2, np.dtype(dtype)), listed):
        q = _Query(pixels, *numbers(model, lens), model)
        structs = on_cuda(q.camera), on_cuda(q.pixels)
        rays = [emulated(np.empty((N, 3), dtype)) for _ in range(2)]
        camera_rays_fwd(N, 1, N, *structs, *rays)
        for found, expected in zip(rays, gk.pixel_rays(pixels, *numbers(model, lens), model=model), strict=True):
            close(found, expected)
        adj = rng.normal(size=(2, N, 3)).astype(dtype)
        blocks = -(-N // SUM_BLOCK)
        adj_pixels, sums = emulated(np.empty((0 if q.is_window else N, 2), dtype)), emulated(np.empty((blocks, 22)))
        camera_rays_adj(blocks, SUM_BLOCK, N, *structs, *map(emulated, adj), adj_pixels, sums)
        cotangents = dict(zip(("adj_origins", "adj_directions"), adj, strict=True))
        expected = gk.pixel_rays.adjoint(pixels, *numbers(model, lens), model=model, **cotangents)
        if not q.is_window:
            close(adj_pixels, expected.pixels)
        fx, skew, cx, fy, cy = added(np.asarray(sums))[12:17]
        np.testing.assert_allclose([fx, skew, cx], expected.K[0], rtol=1e-9)
        np.testing.assert_allclose([fy, cy], expected.K[1, 1:], rtol=1e-9)


@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize("model", ["pinhole", "orthographic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_emulated_project(emulated, dtype, model, lens):
    rng = np.random.default_rng(1)
    points = (4 * rng.normal(size=(N, 3))).astype(dtype)
    camera = on_cuda(Optics("project_points", Library("numpy"), *numbers(model, lens), model).struct(np.dtype(dtype)))
    pixel, depth = emulated(np.empty((N, 2), dtype)), emulated(np.empty(N, dtype))
    project_fwd(N, camera, emulated(points), pixel, depth)
    seen = gk.project_points(points, *numbers(model, lens), model=model)
    assert np.isnan(seen.pixel).any() == (model == "pinhole" or lens is not None and lens[0] == -2)
    for found, expected in zip((pixel, depth), seen, strict=True):
        close(found, expected)
    adj = rng.normal(size=(N, 2)).astype(dtype), rng.normal(size=N).astype(dtype)
    blocks = -(-N // SUM_BLOCK)
    adj_points, sums = emulated(np.empty((N, 3), dtype)), emulated(np.empty((blocks, 22)))
    project_adj(blocks, SUM_BLOCK, N, camera, emulated(points), *map(emulated, adj), adj_points, sums)
    expected = gk.project_points.adjoint(points, *numbers(model, lens), model=model, adj_pixel=adj[0], adj_depth=adj[1])
    close(adj_points, expected.points)
    pose = added(np.asarray(sums))[:12].reshape(3, 4)
    np.testing.assert_allclose(pose, expected.world_to_camera[:3], rtol=1e-9, atol=1e-9 * abs(pose).max())


@pytest.mark.skipif(not cuda.available(), reason="CuPy finds no CUDA device here")
@pytest.mark.parametrize("lens", LENSES)
def test_devices(lens):
    camera = replace(gk.Camera.framing(gk.shapes.torus(), width=30, height=20), distortion=lens)
    for found, expected in zip(camera.rays(device="cuda"), camera.rays(), strict=True):
        close(found.get(), expected)
    points = camera.rays().directions
    for found, expected in zip(camera.project(cuda.cupy().asarray(points)), camera.project(points), strict=True):
        close(found.get(), expected)
