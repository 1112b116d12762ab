"""What the adjoint of marching cubes is told, and refuses."""

import numpy as np
import pytest

import geomkit as gk


@pytest.mark.parametrize("gradient", ["edge", "normal"])
def test_the_adjoint_refuses_the_surface_of_another_field(gradient):
    field, other = (np.random.default_rng(seed).normal(size=(5, 5, 5)) for seed in (0, 1))
    mesh = gk.marching_cubes(field)
    adj = np.ones_like(mesh.vertices)
    with pytest.raises(ValueError, match="^marching_cubes.adjoint: result: expected the mesh of this field"):
        gk.marching_cubes.adjoint(other, adj_vertices=adj, result=mesh, gradient=gradient)
    # A NaN among the cotangents is no such thing.
    adj[0] = np.nan
    assert np.isnan(gk.marching_cubes.adjoint(field, adj_vertices=adj, result=mesh, gradient=gradient).spacing)
