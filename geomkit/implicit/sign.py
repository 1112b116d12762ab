"""Which sign of distance a mesh allows, and the tables it needs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from geomkit.errors import SignWarning, message, warn
from geomkit.mesh.mesh import Mesh
from geomkit.mesh.report import sign_method
from geomkit.runtime.device import address, empty, namespace
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.query import Points, n_groups
from geomkit.spatial.winding_number import winding

__all__ = ["METHODS", "Pseudonormals", "SignChoice", "boundary_strength", "choose", "pseudonormals"]

contains_fwd = Kernel(
    "implicit/signed_distance.cu",
    "contains_fwd",
    "Bvh bvh, int count, const real* points, const int* order, int sign, int* inside",
    grain=4,
)

edge_pseudonormals = Kernel(
    "implicit/pseudonormals.cu", "edge_pseudonormals", "const real* face_normals, const int* twin, real* edge_normals"
)

METHODS = {"unsigned": 0, "pseudonormal": 1, "winding": 2, "parity": 3}  # as the enum Sign of the kernels

SAMPLES = 256
PARTS, PER_PART = 256, 16  # parts of a mesh that are looked at one by one, and samples of each
ENCLOSING = 0.25  # share of faces with an inside behind them below which a mesh encloses nothing


class SignChoice(NamedTuple):
    """What `sign="auto"` became for a mesh."""

    method: str
    warning: str | None


def choose(op: str, mesh: Mesh, sign: str) -> str:
    """The method for a sign argument, "auto" resolved; warns where no method can be right.

    Raises:
        ValueError: sign is not one of the methods.
    """
    if sign == "auto":
        choice = mesh.derived("sign", choose_auto)
        if choice.warning:
            warn(f"{op}: {choice.warning}", SignWarning)
        return choice.method
    if sign not in METHODS:
        expected = "one of 'auto', " + ", ".join(repr(name) for name in sorted(METHODS))
        raise ValueError(message(op, "sign", expected, repr(sign)))
    return sign


def choose_auto(mesh: Mesh) -> SignChoice:
    """The method that the mesh's edges call for, checked against the winding number on samples.

    A closed, consistently oriented mesh gets pseudonormals unless they disagree with the winding number somewhere, as
    they do inside overlapping shells, which no census of edges sees. Any other mesh gets the winding number if faces
    have an inside behind them, and no sign at all, with a warning, if they have none.
    """
    method = sign_method(mesh)
    if mesh.n_faces == 0:
        return SignChoice("winding", None)
    if method == "unsigned":
        return SignChoice(
            "unsigned",
            "the mesh encloses no volume, so no sign is right and all distances are positive; see mesh.report()",
        )
    if method == "pseudonormal":
        inverted = mesh.volume < 0
        if not _agree(mesh, inverted):
            method = "winding"
        if inverted and method == "pseudonormal":
            return SignChoice(
                method, "the faces look inwards, so signs are inverted: positive inside; use mesh.flipped() to undo it"
            )
    if method == "winding":
        behind, before = _winding_at_faces(mesh)
        if ((behind > 0.55) & (before < 0.45)).mean() < ENCLOSING:
            if ((before < -0.55) & (behind > -0.45)).mean() >= ENCLOSING:
                text = "the faces look inwards, so nothing is inside and all distances are positive; use mesh.flipped()"
            else:
                text = (
                    "the mesh encloses no volume, so no sign is right and all distances are positive; see mesh.report()"
                )
            return SignChoice("unsigned", text)
    return SignChoice(method, None)


def _agree(mesh: Mesh, inverted: bool) -> bool:
    """Whether pseudonormals and the winding number agree at sample points: in the box, near faces, near every part."""
    from geomkit.implicit.signed_distance import distance

    rng = np.random.default_rng(0)
    by_part = _part_samples(mesh, rng)
    anywhere = mesh.center + rng.uniform(-0.55, 0.55, (SAMPLES // 2, 3)) * (mesh.bounds[1] - mesh.bounds[0])
    position, normal, _ = _face_samples(mesh, SAMPLES // 2, rng)
    close = position + rng.uniform(-0.02, 0.02, (len(position), 1)) * mesh.diagonal * normal
    q = _points(mesh, np.concatenate([anywhere, close, by_part]))
    w = _on_host(winding(q, "fast"))
    inside = _on_host(distance(q, "pseudonormal")) < 0
    clear = np.abs(w - np.round(w)) < 0.1
    return bool((inside == (w > (-0.5 if inverted else 0.5)))[clear].all())


def _winding_at_faces(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """Winding numbers just behind and just before sample faces: as near as rounding allows, for plates may be thin."""
    position, normal, size = _face_samples(mesh, SAMPLES, np.random.default_rng(0))
    step = np.clip(1e-3 * size, 2e-6 * mesh.diagonal, 1e-3 * mesh.diagonal)[:, None] * normal
    w = _on_host(winding(_points(mesh, np.concatenate([position - step, position + step])), "fast"))
    return w[: len(position)], w[len(position) :]


def _part_samples(mesh: Mesh, rng: np.random.Generator) -> np.ndarray:
    """(n, 3) points within half a face's size of faces of each part, of up to 256 parts; none if there is one part."""
    n_parts, part = mesh.components()
    if n_parts == 1:
        return np.empty((0, 3))
    order = np.argsort(part, kind="stable")
    start = np.searchsorted(part[order], np.arange(n_parts + 1))
    chosen = rng.choice(n_parts, min(n_parts, PARTS), replace=False)
    length = start[chosen + 1] - start[chosen]
    at = start[chosen] + (rng.random((PER_PART, len(chosen))) * length).astype(int)
    position, normal, size = _at_faces(mesh, order[at.ravel()])
    return position + (rng.uniform(-0.5, 0.5, len(position)) * size)[:, None] * normal


def _face_samples(mesh: Mesh, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centroids and unit normals, (n, 3) float64, and sizes (square roots of area) of faces drawn by their area."""
    area = np.asarray(_on_host(namespace(mesh.device).asarray(mesh.face_areas)), np.float64)
    total = np.cumsum(area)
    if not total[-1] > 0:
        return np.empty((0, 3)), np.empty((0, 3)), np.empty(0)
    face = np.minimum(np.searchsorted(total, rng.random(n) * total[-1], side="right"), len(area) - 1)
    return _at_faces(mesh, face)


def _at_faces(mesh: Mesh, face: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centroids, unit normals and sizes of those of the faces that have an area."""
    xp = namespace(mesh.device)
    a, b, c = _on_host(mesh.vertices_array[mesh.faces_array[xp.asarray(face)].T]).astype(np.float64)
    across = np.cross(b - a, c - a)
    length = np.linalg.norm(across, axis=1)
    flat = length == 0
    normal = across[~flat] / length[~flat, None]
    return ((a + b + c) / 3)[~flat], normal, np.sqrt(length[~flat] / 2)


def _points(mesh: Mesh, points: np.ndarray) -> Points:
    return Points("sign", mesh, namespace(mesh.device).asarray(points.astype(mesh.dtype)))


def _on_host(array: Any) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.get()


def boundary_strength(mesh: Mesh) -> float:
    """Length of the boundary, in the tree's unit, over 4 pi: bounds how fast the winding number changes in space."""
    edges, multiplicity = mesh.topology.unbalanced_edges("position")
    ends = _on_host(mesh.vertices_array).astype(np.float64)[edges]
    return float((np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) * multiplicity).sum() / (4 * np.pi * mesh.bvh.scale))


class Pseudonormals:
    """The structure `Pseudonormals` of the kernels: normals by feature, on the mesh's device.

    Where an edge has not just two faces that agree, its pseudonormal is that of the one face.
    """

    def __init__(self, mesh: Mesh):
        xp = namespace(mesh.device)
        topology, welded = mesh.topology, mesh
        if not topology.is_welded:
            welded = Mesh(mesh.vertices_array[xp.asarray(topology.unique_vertices)], xp.asarray(topology.welded_faces))
        face_normals, vertex_normals = xp.asarray(welded.face_normals), xp.asarray(welded.vertex_normals)
        edge_normals = empty(mesh.device, (mesh.n_faces, 3, 3), mesh.dtype)
        edge_pseudonormals(mesh.n_faces, face_normals, xp.asarray(topology.edge_twin), edge_normals)
        self._tables = (welded.faces_array, face_normals, edge_normals, vertex_normals)
        self.dtype, self.device = mesh.dtype, mesh.device
        self.fields = tuple(map(address, self._tables))


class NoPseudonormals:
    """Stands for `Pseudonormals` where a kernel does not read them."""

    def __init__(self, mesh: Mesh):
        self.dtype, self.device, self.fields = mesh.dtype, mesh.device, (0, 0, 0, 0)


def pseudonormals(mesh: Mesh, method: str) -> Pseudonormals | NoPseudonormals:
    """What a kernel reads of normals for a sign method: nothing unless it is "pseudonormal"."""
    return mesh.derived("pseudonormals", Pseudonormals) if method == "pseudonormal" else NoPseudonormals(mesh)


def inside(q: Points, method: str) -> Any:
    """(N,) int32: 1 where a point is inside by "winding" or "parity"."""
    result = q.empty(dtype=np.int32)
    bvh = q.mesh.bvh.struct("moments")
    for part, points, order in q.chunks():
        n = len(points)
        contains_fwd(n_groups(n, q.device), bvh, n, points, order, METHODS[method], result[part])
    return result
