"""Points that chains of short steps connect."""

from __future__ import annotations

import numpy as np

from geomkit.mesh.topology import joined

__all__ = ["clustered"]


def clustered(positions: np.ndarray, first: np.ndarray, tolerance: float) -> np.ndarray:
    """For each vertex the lowest index among those that chains of steps no longer than tolerance lead to."""
    from scipy.spatial import KDTree

    n = len(positions)
    points = np.flatnonzero(first == np.arange(n))
    pairs = points[KDTree(positions[points]).query_pairs(tolerance, output_type="ndarray")]
    links = np.concatenate([pairs, np.stack([np.arange(n), first], axis=1)])
    label = joined(links[:, 0], links[:, 1], n)[1]
    lowest = np.unique(label, return_index=True)[1]
    return lowest[label].astype(np.int32)
