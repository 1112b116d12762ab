"""Cells of a grid that an isosurface passes, a vertex for each sheet in a cell: dual marching cubes' topology."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from geomkit.arrays import to_host

__all__ = ["EDGE_CORNERS", "EDGE_OF_CORNER", "DualCells"]

# Corner c of a cell is at x = c >> 2, y = c >> 1 & 1, z = c & 1. Edges 0 to 3 run along z, 4 to 7 along y, 8 to 11
# along x: the numbers of cuda/implicit/cell.h.
CORNERS = np.array([[c >> 2, c >> 1 & 1, c & 1] for c in range(8)])


def _edge_at(axis: int, corner: int) -> int:
    """The edge along an axis that starts at a corner."""
    return (8 + (corner & 3), 4 + (corner & 1) + 2 * (corner >> 2), corner >> 1)[axis]


EDGE_CORNERS = np.zeros((12, 2), np.int64)
EDGE_AXIS = np.zeros(12, np.int64)
for _c in range(8):
    for _axis in range(3):
        if not _c & 4 >> _axis:
            EDGE_CORNERS[_edge_at(_axis, _c)] = _c, _c | 4 >> _axis
            EDGE_AXIS[_edge_at(_axis, _c)] = _axis
# For each corner the three edges at it, and which of their ends it is.
EDGE_OF_CORNER = np.array([np.argwhere(EDGE_CORNERS == c) for c in range(8)])


def _face(face: int) -> tuple[list[int], list[int]]:
    """Corners of face 2 axis + end, counter-clockwise from outside, and the edges between them."""
    axis, upper = face >> 1, face & 1
    u, v = ((axis + 1) % 3, (axis + 2) % 3) if upper else ((axis + 2) % 3, (axis + 1) % 3)
    base, du, dv = (4 >> axis if upper else 0), 4 >> u, 4 >> v
    corners = [base, base + du, base + du + dv, base + dv]
    return corners, [_edge_at(u, base), _edge_at(v, base + du), _edge_at(u, base + dv), _edge_at(v, base)]


FACES = [_face(f) for f in range(6)]


@functools.cache
def _segments(code: int, joined: int) -> list[tuple[int, int, int]]:
    """Face, and the two edges that the surface joins in it; on an ambiguous face in `joined` the inside is joined."""
    out = []
    for f, (corners, edges) in enumerate(FACES):
        inside = [code >> c & 1 for c in corners]
        ambiguous = inside in ([0, 1, 0, 1], [1, 0, 1, 0])
        for s in range(4):
            if inside[s] or not inside[(s + 1) % 4]:
                continue
            leave = s + 3 if ambiguous and joined >> f & 1 else s + 1
            while not (ambiguous and joined >> f & 1) and inside[(leave + 1) % 4]:
                leave += 1
            out.append((f, edges[s], edges[leave % 4]))
    return out


@functools.cache
def _sheets(code: int, joined: int) -> tuple[np.ndarray, np.ndarray]:
    """(12,) the sheet that each edge belongs to, -1 for none; (6, 2) the sheets in an ambiguous face, else -1."""
    sheet = np.full(12, -1, np.int8)
    after = {a: b for _, a, b in _segments(code, joined)}
    count = 0
    for first in sorted(after):
        if sheet[first] < 0:
            edge = first
            while sheet[edge] < 0:
                sheet[edge] = count
                edge = after[edge]
            count += 1
    faces = np.full((6, 2), -1, np.int8)
    for f in range(6):
        found = [sheet[a] for g, a, _ in _segments(code, joined) if g == f]
        if len(found) == 2:
            faces[f] = found
    return sheet, faces


@functools.cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Of all codes, without joined faces: the sheets (256, 12), and whether a face has the same one twice (256, 6)."""
    all_codes = [_sheets(code, 0) for code in range(256)]
    return np.array([s for s, _ in all_codes]), np.array([(f[:, 0] >= 0) & (f[:, 0] == f[:, 1]) for _, f in all_codes])


class DualCells:
    """The cells that a surface passes, its sheets in each of them, and the quads around the edges of the grid.

    Where a face between two cells is ambiguous and both have one sheet that passes it twice, four quads would meet in
    the edge between the two vertices. The face's inside is then joined instead of its outside, which splits both
    sheets: one such face of a cell at a time, until there is none. So every edge has two quads.

    Args:
        xp: NumPy or CuPy.
        inside: (X, Y, Z) bool, at least two along each axis.

    Attributes:
        cell: (C,) numbers of the cells, in order, counted in (X - 1, Y - 1, Z - 1).
        corner: (C, 8) numbers of their samples.
        sheet: (C, 12) int8, which sheet each edge belongs to, -1 for none.
        first: (C,) the number of the cell's first vertex.
        n_vertices: number of vertices.
        owner: (V,) which of the cells each vertex is in.
    """

    def __init__(self, xp: Any, inside: Any):
        self.xp, self.inside = xp, inside
        nx, ny, nz = inside.shape
        self.counts = nx - 1, ny - 1, nz - 1
        code = xp.zeros(self.counts, np.int32)
        for c, (x, y, z) in enumerate(CORNERS.tolist()):
            code |= inside[x : nx - 1 + x, y : ny - 1 + y, z : nz - 1 + z].astype(np.int32) << c
        code = code.reshape(-1)
        self.cell = xp.flatnonzero((code != 0) & (code != 255))
        code = code[self.cell]
        place = xp.stack(xp.unravel_index(self.cell, self.counts), axis=1)
        corner = place[:, None] + xp.asarray(CORNERS)
        self.corner = (corner[..., 0] * ny + corner[..., 1]) * nz + corner[..., 2]
        self.at = xp.full(int(np.prod(self.counts)), -1, np.int32)
        self.at[self.cell] = xp.arange(len(self.cell), dtype=np.int32)
        self.sheet = xp.asarray(_tables()[0])[code]
        self._split(place, code)
        number = self.sheet.max(axis=1).astype(np.int64) + 1 if len(self.cell) else xp.zeros(0, np.int64)
        self.first = xp.cumsum(number) - number
        self.n_vertices = int(number.sum())
        self.owner = xp.searchsorted(self.first, xp.arange(self.n_vertices), side="right") - 1

    def _split(self, place: Any, code: Any) -> None:
        """Join the inside of faces that both cells pass twice with one sheet."""
        xp = self.xp
        twice = xp.asarray(_tables()[1])[code]
        doubtful = xp.flatnonzero(twice.any(axis=1))
        if not len(doubtful):
            return
        # (Few cells are so, if the field is not noise: the rest is done in Python's own numbers.)
        rows, places, codes = (to_host(x) for x in (doubtful, place[doubtful], code[doubtful]))
        row_of = {tuple(p): k for k, p in enumerate(places.tolist())}
        joined = np.zeros(len(rows), np.int64)
        queue = sorted(row_of)
        while queue:
            again = set()
            for p in queue:
                for axis in range(3):
                    q = (*p[:axis], p[axis] + 1, *p[axis + 1 :])
                    if q not in row_of:
                        continue
                    a, b, face = row_of[p], row_of[q], 2 * axis + 1
                    one = _sheets(int(codes[a]), int(joined[a]))[1][face]
                    other = _sheets(int(codes[b]), int(joined[b]))[1][face - 1]
                    if one[0] >= 0 and one[0] == one[1] and other[0] == other[1]:
                        joined[a] |= 1 << face
                        joined[b] |= 1 << (face - 1)
                        again |= {p, q}
            queue = sorted(again)
        changed = np.flatnonzero(joined)
        sheets = [_sheets(int(codes[k]), int(joined[k]))[0] for k in changed]
        if sheets:
            self.sheet[xp.asarray(rows[changed])] = xp.asarray(np.array(sheets))

    def quads(self) -> tuple[Any, Any]:
        """(Q, 4) vertices around each crossed edge of the grid, counter-clockwise from outside, and their cells."""
        xp, (_, ny, nz) = self.xp, self.inside.shape
        vertices, cells = [], []
        for axis in range(3):
            u, v = (axis + 1) % 3, (axis + 2) % 3
            # Edges with a cell on every side: not on the border of the grid across u or v.
            low, high = [slice(None)] * 3, [slice(None)] * 3
            low[axis], high[axis] = slice(None, -1), slice(1, None)
            for w in (u, v):
                low[w] = high[w] = slice(1, -1)
            starts = self.inside[tuple(low)]
            where = xp.stack(xp.nonzero(starts != self.inside[tuple(high)]), axis=1)
            leaves = starts[tuple(where.T)]
            where[:, [u, v]] += 1
            around = []
            for du, dv in ((1, 1), (0, 1), (0, 0), (1, 0)):
                p = where.copy()
                p[:, u] -= du
                p[:, v] -= dv
                k = self.at[(p[:, 0] * (ny - 1) + p[:, 1]) * (nz - 1) + p[:, 2]]
                edge = _edge_at(axis, du * (4 >> u) + dv * (4 >> v))
                around.append((k, self.first[k] + self.sheet[k, edge]))
            quad = xp.stack([x for _, x in around], axis=1)
            cell = xp.stack([x for x, _ in around], axis=1)
            vertices.append(xp.where(leaves[:, None], quad, quad[:, ::-1]))
            cells.append(xp.where(leaves[:, None], cell, cell[:, ::-1]))
        return xp.concatenate(vertices), xp.concatenate(cells)
