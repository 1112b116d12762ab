"""Scores of a surface that stands for another."""

import numpy as np
import pytest

import geomkit as gk


def plate(z=0.0, size=1.0):
    v = [[0, 0, z], [size, 0, z], [size, 1, z], [0, 1, z]]
    return gk.Mesh(np.array(v), [[0, 1, 2], [0, 2, 3]])


def test_value():
    same = gk.surface_scores(plate(), plate(), 1e-6)
    assert same == (1, 1, 1, pytest.approx(1))
    # Twice as long: half of its points are on the true one, within 0.1 a twentieth more.
    longer = gk.surface_scores(plate(size=2.0), plate(), 0.1, samples=40_000)
    assert longer.recall == 1 and longer.precision == pytest.approx(0.55, abs=0.01)
    assert longer.f_score == pytest.approx(2 * 0.55 / 1.55, abs=0.01) and longer.normal_consistency == 1
    apart = gk.surface_scores(plate(0.2), plate(), 0.1)
    assert (apart.f_score, apart.precision, apart.recall) == (0, 0, 0)


def test_value_of_normals():
    ball = gk.shapes.icosphere(4)
    assert gk.surface_scores(ball, ball.flipped(), 1e-3).normal_consistency > 0.999
    # Across a slope of 60 degrees and a level.
    slope = gk.Mesh([[0, 0, 0], [1, 0, 3**0.5], [1, 1, 3**0.5], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    assert gk.surface_scores(slope, plate(), 1.0).normal_consistency == pytest.approx(0.5, abs=1e-6)


def test_value_of_fewer_points():
    coarse, fine = gk.shapes.icosphere(2), gk.shapes.icosphere(4)
    few, many = (gk.surface_scores(coarse, fine, 0.02, samples=n) for n in (3_000, 100_000))
    np.testing.assert_allclose(few, many, atol=0.03)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"threshold": 0}, ValueError, "threshold: expected a positive distance, got 0"),
        ({"threshold": "far"}, TypeError, "threshold"),
        ({"truth": gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), int))}, ValueError, "truth: expected at least one face"),
    ],
)
def test_error(options, error, text):
    with pytest.raises(error, match=f"^surface_scores: {text}"):
        gk.surface_scores(**{"mesh": plate(), "truth": plate(), "threshold": 1.0} | options)
