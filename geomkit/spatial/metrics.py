"""How well one surface stands for another: scores of reconstruction papers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array, to_host
from geomkit.autodiff.primitive import nondifferentiable
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.spatial.closest_point import closest_point
from geomkit.spatial.sample_surface import sample_surface

__all__ = ["SurfaceScores", "surface_scores"]

OP = "surface_scores"


class SurfaceScores(NamedTuple):
    """Of a surface and the true one, as floats."""

    f_score: float  # harmonic mean of precision and recall, in [0, 1]
    precision: float  # share of the surface's points within the threshold of the true surface
    recall: float  # share of the true surface's points within the threshold of the surface
    normal_consistency: float  # mean |cosine| between normals at points and at their closest points, both ways


@nondifferentiable("shares of points are discrete: for gradients use chamfer_distance")
def surface_scores(mesh: Mesh, truth: Any, threshold: float, *, samples: int = 100_000, seed: int = 0) -> SurfaceScores:
    """F-score and normal consistency of a surface that stands for another.

    Points are drawn evenly from both surfaces; distances are to the other surface itself, not to points drawn from it,
    so that the numbers hardly depend on how many there are.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.
        truth: the surface it stands for, likewise.
        threshold: the distance within which a point counts as right, in the meshes' length unit; papers take 1 % of the
            box's side or 0.001 of it.
        samples: number of points drawn from each.
        seed: of the points drawn.

    Returns:
        A record of floats: `.f_score`, `.precision`, `.recall`, `.normal_consistency`, of which 1 is best. Which side
        of a face is the front does not matter.

    Gradients:
        None: shares of points are discrete.

    Raises:
        ValueError: threshold, samples or seed out of range; a surface without faces, or without area.
        TypeError: they are no numbers.

    Cost: a closest-point query for each point.

    Example:
        >>> import geomkit as gk
        >>> coarse, fine = gk.shapes.icosphere(2), gk.shapes.icosphere(5)
        >>> scores = gk.surface_scores(coarse, fine, 0.01)
        >>> scores.f_score < 0.6 and scores.normal_consistency > 0.99
        True
    """
    reach = float(as_array(threshold, op=OP, name="threshold", shape=(), dtype=np.float64))
    if not reach > 0:
        raise ValueError(message(OP, "threshold", "a positive distance", repr(threshold)))
    shares, cosines = [], []
    one, other = (_host(name, given) for name, given in (("mesh", mesh), ("truth", truth)))
    for a, b in ((one, other), (other, one)):
        drawn = sample_surface(a, samples, seed=seed)
        hit = closest_point(b, drawn.points.astype(b.dtype))
        shares.append(float((hit.distance <= reach).mean()))
        cosines.append(float(abs((drawn.normal * b.face_normals[hit.face]).sum(axis=1)).mean()))
    precision, recall = shares
    total = precision + recall
    score = 2 * precision * recall / total if total > 0 else 0.0
    return SurfaceScores(score, precision, recall, 0.5 * sum(cosines))


def _host(name: str, given: Any) -> Mesh:
    mesh = as_mesh(given)
    if not mesh.n_faces:
        raise ValueError(message(OP, name, "at least one face", "none"))
    return Mesh(to_host(mesh.vertices_array), to_host(mesh.faces_array))
