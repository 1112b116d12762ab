"""Large Steps: coordinates in which a step of an optimiser moves a surface smoothly; forward and adjoint."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array, library_of, precision_of
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.mesh.position_graph import PositionGraph
from geomkit.runtime.device import namespace

__all__ = ["DifferentialGradients", "LargeSteps", "ValueGradients", "from_differential", "to_differential"]

SOLVERS = ("auto", "cg", "factorised")
# Of the residual, relative to the right side.
TOLERANCE = {np.dtype(np.float32): 1e-8, np.dtype(np.float64): 1e-13}
MOST = 10_000  # iterations of conjugate gradients
# Vertices from which on factors, whose fill-in grows, cost more than they save: at 41,000 they take 3 s, then 0.1 s a
# solution against 1 s of conjugate gradients; at 164,000 they take 200 s, then 0.2 s against 3 s.
LARGE = 60_000


class ValueGradients(NamedTuple):
    """Gradients of `to_differential`."""

    values: Any  # (V, C)


class DifferentialGradients(NamedTuple):
    """Gradients of `from_differential`."""

    differential: Any  # (V, C)


class LargeSteps:
    """The matrix I + smoothness L of a mesh, L the Laplacian of the graph of its positions.

    `u = to_differential(x)` are coordinates of x, a row for each vertex, that `from_differential(u)` brings back to x.
    A step in u is a step in x that is smoothed over some sqrt(smoothness) edges, in every step anew: noise of the
    gradient is spread out, and details can still form. Vertices at one position are one.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`; only how it is connected counts.
        smoothness: lambda of Nicolet et al.; alpha of their code is smoothness / (1 + smoothness).
        solver: "cg", conjugate gradients without a matrix, on both machines; "factorised", SciPy's sparse LU, factors
            kept, on the CPU; "auto", that on the CPU up to 60,000 positions, else "cg".

    Raises:
        ValueError: smoothness below 0 or not finite, another solver, "factorised" on CUDA.
        TypeError: mesh is no mesh.

    Example:
        >>> import geomkit as gk
        >>> ball = gk.shapes.icosphere(2)
        >>> steps = gk.LargeSteps(ball, smoothness=19)
        >>> u = steps.to_differential(ball.vertices)
        >>> bool(abs(steps.from_differential(u) - ball.vertices).max() < 1e-6)
        True
    """

    def __init__(self, mesh: Mesh, smoothness: float = 19.0, *, solver: str = "auto"):
        mesh = as_mesh(mesh).plain
        if not 0 <= smoothness < math.inf:
            raise ValueError(message("LargeSteps", "smoothness", "a number of at least 0", repr(smoothness)))
        if solver not in SOLVERS:
            raise ValueError(message("LargeSteps", "solver", f"one of {', '.join(SOLVERS)}", repr(solver)))
        if solver == "factorised" and mesh.device == "cuda":
            raise ValueError(message("LargeSteps", "solver", "'cg' or 'auto' for a mesh on CUDA", repr(solver)))
        self.graph = PositionGraph.of(mesh)
        self.n_vertices, self.device = mesh.n_vertices, mesh.device
        self.smoothness = float(smoothness)
        if solver == "auto":
            solver = "cg" if mesh.device == "cuda" or self.graph.n > LARGE else "factorised"
        self.solver = solver
        self._factors: Any = None

    def to_differential(self, values: Any) -> Any:
        """Coordinates (V, C) of values (V, C): see `geomkit.to_differential`."""
        return to_differential(values, self)

    def from_differential(self, differential: Any) -> Any:
        """Values (V, C) of coordinates (V, C): see `geomkit.from_differential`."""
        return from_differential(differential, self)

    def applied(self, x: Any) -> Any:
        """(I + smoothness L) x of (n, C) float64 at positions."""
        return self.graph.apply(namespace(self.device).ascontiguousarray(x), 1.0, self.smoothness)

    def solved(self, b: Any, dtype: np.dtype) -> Any:
        """What `applied` makes b of, to the precision of the dtype."""
        if not b.size or self.smoothness == 0:
            return b
        if self.solver == "cg":
            return self._conjugate_gradients(b, TOLERANCE[dtype])
        if self._factors is None:
            self._factors = self._factorised()
        return self._factors.solve(np.ascontiguousarray(b))

    def _factorised(self) -> Any:
        from scipy.sparse import csc_array
        from scipy.sparse.linalg import splu

        g = self.graph
        rows = np.concatenate([np.repeat(np.arange(g.n), np.diff(g.offset)), np.arange(g.n)])
        columns = np.concatenate([g.neighbors, np.arange(g.n)])
        values = np.concatenate([np.full(len(g.neighbors), -self.smoothness), 1 + self.smoothness * g.degree])
        matrix = csc_array((values, (rows, columns)), shape=(g.n, g.n))
        # It is symmetric and diagonally dominant: no pivots need to be looked for.
        return splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})

    def _conjugate_gradients(self, b: Any, tolerance: float) -> Any:
        """All channels at once, each with its own step lengths; preconditioned by the diagonal."""
        xp = namespace(self.device)
        scale = 1 / (1 + self.smoothness * self.graph.degree)[:, None]
        goal = tolerance * xp.sqrt((b * b).sum(axis=0))
        x = xp.zeros_like(b)
        r = b.copy()
        z = scale * r
        p = z.copy()
        rz = (r * z).sum(axis=0)
        for _ in range(MOST):
            # (The check waits for the device; of what has converged the step is 0.)
            if bool((xp.sqrt((r * r).sum(axis=0)) <= goal).all()):
                return x
            q = self.applied(p)
            pq = (p * q).sum(axis=0)
            step = xp.where(pq > 0, rz / xp.where(pq > 0, pq, 1), 0)
            x += step * p
            r -= step * q
            z = scale * r
            new = (r * z).sum(axis=0)
            p = z + xp.where(rz > 0, new / xp.where(rz > 0, rz, 1), 0) * p
            rz = new
        raise ArithmeticError(
            message("from_differential", "differential", f"a solution in {MOST} steps", "none (values too far apart?)")
        )


class _Query:
    def __init__(self, op: str, name: str, values: Any, steps: Any):
        if not isinstance(steps, LargeSteps):
            raise TypeError(message(op, "steps", "a LargeSteps", type(steps).__name__))
        self.library, self.dtype = library_of(values), precision_of(values)
        self.steps, self.graph = steps, steps.graph
        shape = ("V",) if np.ndim(values) == 1 else ("V", "C")
        array = as_array(values, op=op, name=name, shape=shape, dtype=self.dtype, device=steps.device)
        if len(array) != steps.n_vertices:
            expected = f"{steps.n_vertices} rows, one a vertex of the mesh"
            raise ValueError(message(op, name, expected, str(array.shape)))
        self.shape = array.shape
        self.array = array[:, None] if array.ndim == 1 else array

    def wrap(self, out: Any) -> Any:
        out = namespace(self.steps.device).ascontiguousarray(out.reshape(self.shape), dtype=self.dtype)
        return self.library.wrap(out)


@primitive(differentiable=("values",), outputs={"differential": "real =values"})
def to_differential(values: Any, steps: LargeSteps) -> Any:
    """(I + smoothness L) x: the coordinates of Large Steps in which to optimise what a mesh has at its vertices.

    Args:
        values: (V, C) or (V,) numbers, such as vertices, colours or displacements. Of several vertices at one position
            the mean counts.
        steps: the matrix, a `LargeSteps`.

    Returns:
        The same shape and library.

    Gradients:
        values.

    Raises:
        ValueError: another number of rows than the mesh has vertices.
        TypeError: wrong dtype; steps is no LargeSteps.

    Cost: one launch, O(F C), in float64.   Source: Nicolet, Jacobson and Jakob (2021).

    Example:
        >>> import geomkit as gk
        >>> steps = gk.LargeSteps(gk.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), smoothness=2)
        >>> gk.to_differential([0.0, 0.0, 1.0], steps).tolist()
        [-2.0, -2.0, 5.0]
    """
    q = _Query("to_differential", "values", values, steps)
    return q.wrap(q.graph.spread(steps.applied(q.graph.means(q.array))))


@to_differential.define_adjoint
def to_differential_adjoint(values: Any, steps: LargeSteps, *, adj_differential: Any) -> ValueGradients:
    """Gradients of `to_differential`: the cotangent of the coordinates to the values.

    Args:
        values, steps: as given to `to_differential`.
        adj_differential: the cotangent, of the shape of values.

    Returns:
        A record of `.values`.

    Raises:
        ValueError, TypeError: as `to_differential`.
    """
    q = _Query("to_differential", "values", values, steps)
    adj = _cotangent(q, "to_differential", "adj_differential", adj_differential)
    return ValueGradients(q.wrap(q.graph.shared(steps.applied(q.graph.sums(adj)))))


@primitive(differentiable=("differential",), outputs={"values": "real =differential"})
def from_differential(differential: Any, steps: LargeSteps) -> Any:
    """The inverse of `to_differential`: values at the vertices of a mesh from coordinates of Large Steps.

    Args:
        differential: (V, C) or (V,) numbers. Of several vertices at one position the mean counts.
        steps: the matrix, a `LargeSteps`.

    Returns:
        The same shape and library.

    Gradients:
        differential, by one more solution with the same matrix.

    Raises:
        ValueError: another number of rows than the mesh has vertices.
        TypeError: wrong dtype; steps is no LargeSteps.

    Cost: a solution for each channel, in float64; factors are found once. The same bits whatever the number of threads.
    Source: Nicolet, Jacobson and Jakob (2021).

    Example:
        >>> import geomkit as gk
        >>> steps = gk.LargeSteps(gk.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), smoothness=2)
        >>> gk.from_differential([-2.0, -2.0, 5.0], steps).round(6).tolist()
        [0.0, 0.0, 1.0]
    """
    q = _Query("from_differential", "differential", differential, steps)
    return q.wrap(q.graph.spread(steps.solved(q.graph.means(q.array), q.dtype)))


@from_differential.define_adjoint
def from_differential_adjoint(differential: Any, steps: LargeSteps, *, adj_values: Any) -> DifferentialGradients:
    """Gradients of `from_differential`: the cotangent of the values to the coordinates.

    Args:
        differential, steps: as given to `from_differential`.
        adj_values: the cotangent, of the shape of differential.

    Returns:
        A record of `.differential`.

    Raises:
        ValueError, TypeError: as `from_differential`.
    """
    q = _Query("from_differential", "differential", differential, steps)
    adj = _cotangent(q, "from_differential", "adj_values", adj_values)
    return DifferentialGradients(q.wrap(q.graph.shared(steps.solved(q.graph.sums(adj), q.dtype))))


def _cotangent(q: _Query, op: str, name: str, value: Any) -> Any:
    array = as_array(value, op=f"{op}.adjoint", name=name, shape=q.shape, dtype=q.dtype, device=q.steps.device)
    return array.reshape(q.array.shape)
