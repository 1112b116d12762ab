"""The census of a mesh: which vertices are one point, which edges border what, and what that says of the surface.

Every count is of the *welded* mesh: vertices at exactly the same position are one point, so a soup of triangles (STL)
and a mesh cut along texture seams are as closed as they look. A face two of whose corners are one point is `collapsed`
and takes no part in the census of edges: it has no area, and its directed edges cancel.

The census sorts half-edges packed in single 64-bit keys, because NumPy sorts those with SIMD: 13 ms for 70,000
faces on one core for the whole census, where numpy.unique(axis=0) takes 190 ms for the edges alone.
"""

import copy
from functools import cached_property

import numpy as np

from geomkit.arrays import frozen
from geomkit.mesh.measure import count_flat

__all__ = ["Topology", "joined"]


class Topology:
    """Connectivity of a triangle mesh, computed when asked for and kept.

    Use `mesh.topology`; it is never built by hand except in tests.

    Args:
        vertices: (V, 3) float32 or float64, finite, on the host.
        faces: (F, 3) int32 in [0, V), on the host.

    Half-edges: number 3 f + k goes from corner k of face f to corner (k + 1) % 3.
    """

    def __init__(self, vertices: np.ndarray, faces: np.ndarray):
        self._vertices = vertices
        self._faces = faces

    def moved(self, vertices: np.ndarray) -> "Topology":
        """The topology after the vertices have moved: what is known is kept when every welded group still is one point.

        Vertices that newly coincide are not welded: motion does not change how a surface is connected.
        """
        if self.is_welded or np.array_equal(vertices, vertices[self.representative]):
            moved = copy.copy(self)
            moved._vertices = vertices
            moved.__dict__.pop("n_zero_area", None)
            return moved
        return Topology(vertices, self._faces)

    # ---- vertices

    @cached_property
    def representative(self) -> np.ndarray:
        """(V,) int32. The lowest vertex index at the same position."""
        return frozen(_first_at_same_position(self._vertices))

    @cached_property
    def _is_first(self) -> np.ndarray:
        return self.representative == np.arange(len(self.representative), dtype=np.int32)

    @cached_property
    def n_unique(self) -> int:
        """Number of distinct positions, those no face uses included."""
        return int(np.count_nonzero(self._is_first))

    @property
    def is_welded(self) -> bool:
        """Whether no two vertices share a position."""
        return self.n_unique == len(self._vertices)

    @cached_property
    def weld(self) -> np.ndarray:
        """(V,) int32. The number of each vertex's position, in order of first appearance."""
        if self.is_welded:
            return self.representative
        return frozen((np.cumsum(self._is_first, dtype=np.int32) - np.int32(1))[self.representative])

    @cached_property
    def unique_vertices(self) -> np.ndarray:
        """(n_unique,) int32. The lowest vertex index at each position: the inverse of `weld`."""
        return frozen(np.flatnonzero(self._is_first).astype(np.int32))

    @cached_property
    def welded_faces(self) -> np.ndarray:
        """(F, 3) int32. Faces that index positions instead of vertices."""
        return self._faces if self.is_welded else frozen(self.weld[self._faces])

    @cached_property
    def n_referenced(self) -> int:
        """Number of positions that some face uses."""
        used = np.zeros(self.n_unique, bool)
        used[self.welded_faces] = True
        return int(np.count_nonzero(used))

    @cached_property
    def n_unreferenced(self) -> int:
        """Number of vertices that no face uses."""
        used = np.zeros(len(self._vertices), bool)
        used[self._faces] = True
        return int(np.count_nonzero(~used))

    @cached_property
    def n_non_manifold_vertices(self) -> int:
        """Number of points where faces meet in more than one fan, as at the waist of an hourglass.

        The end points of a non-manifold edge are not counted for that edge alone.
        """
        if not len(self._edges.codes):
            return 0
        n, fan = joined(*_corner_links(self._edges), 3 * len(self._faces))
        point_of_fan = np.full(n, -1, np.int64)
        point_of_fan[fan] = self.welded_faces.ravel()
        live = np.zeros(n, bool)
        live[fan[np.repeat(~self.collapsed, 3)]] = True
        return int(np.count_nonzero(np.bincount(point_of_fan[live], minlength=self.n_unique) > 1))

    # ---- faces

    @cached_property
    def collapsed(self) -> np.ndarray:
        """(F,) bool. Faces with two corners at one position."""
        a, b, c = self.welded_faces.T
        return frozen((a == b) | (b == c) | (c == a))

    @cached_property
    def n_collapsed(self) -> int:
        """Number of faces with two corners at one position."""
        return int(np.count_nonzero(self.collapsed))

    @cached_property
    def n_zero_area(self) -> int:
        """Number of faces with three distinct corners on one line. See `geomkit.mesh.measure.count_flat`."""
        return count_flat(self._vertices, self._faces[~self.collapsed] if self.n_collapsed else self._faces)

    @property
    def n_degenerate(self) -> int:
        """Number of faces without area: the collapsed and those of zero area."""
        return self.n_collapsed + self.n_zero_area

    @cached_property
    def _duplicates(self) -> tuple[int, int]:
        return _count_duplicates(self.welded_faces[~self.collapsed] if self.n_collapsed else self.welded_faces)

    @property
    def n_duplicate_same(self) -> int:
        """Number of faces that repeat an earlier face with the same winding."""
        return self._duplicates[0]

    @property
    def n_duplicate_opposite(self) -> int:
        """Number of pairs of faces on the same three points with opposite winding (double-sided faces)."""
        return self._duplicates[1]

    # ---- edges

    @cached_property
    def _edges(self) -> "_EdgeTable":
        return _EdgeTable(self.welded_faces, self.n_unique, None if not self.n_collapsed else ~self.collapsed)

    @property
    def n_edges(self) -> int:
        """Number of undirected edges."""
        return len(self._edges.uses)

    @cached_property
    def n_boundary(self) -> int:
        """Number of edges with one face."""
        return int(np.count_nonzero(self._edges.uses == 1))

    @cached_property
    def n_non_manifold(self) -> int:
        """Number of edges with more than two faces."""
        return int(np.count_nonzero(self._edges.uses > 2))

    @cached_property
    def n_inconsistent(self) -> int:
        """Number of edges with two faces, both of which pass it in the same direction: one of the two is flipped."""
        table = self._edges
        return int(np.count_nonzero((table.uses == 2) & (table.net != 0)))

    @cached_property
    def is_closed(self) -> bool:
        """Whether every edge is passed equally often in both directions: the surface bounds a volume.

        The volume may be bounded many-fold. An empty mesh is closed.
        """
        return not self._edges.net.any()

    @cached_property
    def is_closed_manifold(self) -> bool:
        """Whether every edge has exactly two faces, which pass it in opposite directions."""
        return self.is_closed and bool((self._edges.uses == 2).all())

    @cached_property
    def is_oriented(self) -> bool:
        """Whether no edge is passed in one direction more than once beyond the other: no face is seen to be flipped."""
        return bool((np.abs(self._edges.net) <= 1).all())

    def unbalanced_edges(self, by: str = "index") -> tuple[np.ndarray, np.ndarray]:
        """Directed edges that faces pass more often forwards than backwards: the boundary, as a 1-chain.

        The winding number of an open mesh depends on its faces' solid angles and on this boundary alone.

        Args:
            by: "index" tells vertices apart by their index, "position" by where they are.
        Returns:
            edges: (E, 2) int32 vertex indices (by position: the lowest index at it), sorted, directed as the faces are.
            multiplicity: (E,) int32, how many more uses forwards than backwards; at least 1.
        Raises:
            ValueError: by is neither.
        """
        if by not in ("index", "position"):
            raise ValueError(f"unbalanced_edges: by: expected 'index' or 'position', got {by!r}")
        if by == "position" or self.is_welded:
            table, names = self._edges, self.unique_vertices
        else:
            table, names = _EdgeTable(self._faces, len(self._vertices), None), None
        open_ = np.flatnonzero(table.net)
        net = table.net[open_]
        low, high = table.ends(open_)
        edges = np.stack([np.where(net > 0, low, high), np.where(net > 0, high, low)], axis=1)
        return (edges if names is None else names[edges]), np.abs(net)

    @cached_property
    def edge_twin(self) -> np.ndarray:
        """(F, 3) int32. For each half-edge the number 3 g + l of the half-edge opposite, across the same welded edge.

        -1 where the edge is not passed exactly once in each direction, so that twins come in pairs.
        """
        table = self._edges
        twin = np.full(3 * len(self._faces), -1, np.int32)
        first = table.starts[(table.uses == 2) & (table.net == 0)]
        one, other = table.codes[first], table.codes[first + 1]
        twin[one], twin[other] = other, one
        return frozen(twin.reshape(-1, 3))

    @cached_property
    def boundary_half_edges(self) -> np.ndarray:
        """(n_boundary,) int32. The half-edges 3 f + k with no other face at their edge, ascending."""
        table = self._edges
        return frozen(np.sort(table.codes[table.starts[table.uses == 1]]))

    @cached_property
    def boundary_loops(self) -> list[np.ndarray]:
        """The boundary edges joined to loops, each an int array of vertex indices without the first repeated.

        A loop runs as its faces do, surface to the left, and passes no vertex twice: where two holes touch, they are
        two loops. On a surface that cannot be oriented, some edges run backwards. Chains that do not close, which only
        non-manifold edges cause, are listed as they are. Arrays are read-only, here as everywhere.
        """
        codes = self.boundary_half_edges
        welded = self.welded_faces.ravel()
        tails = self.unique_vertices[welded[codes]].tolist()
        heads = self.unique_vertices[welded[codes - codes % 3 + (codes + 1) % 3]].tolist()
        return _walk_loops(tails, heads)

    # ---- the whole

    @cached_property
    def components(self) -> tuple[int, np.ndarray]:
        """Parts of the mesh: faces that share a welded vertex are in one part.

        Returns:
            n: number of parts.
            labels: (F,) int32 in [0, n), numbered by first face.
        """
        if not len(self._faces):
            return 0, frozen(np.zeros(0, np.int32))
        a, b, c = self.welded_faces.T
        labels = joined(np.concatenate([a, b]), np.concatenate([b, c]), self.n_unique)[1][a]
        seen, first = np.unique(labels, return_index=True)
        number = np.zeros(labels.max() + 1, np.int32)
        number[seen[np.argsort(first)]] = np.arange(len(seen), dtype=np.int32)
        return len(seen), frozen(number[labels])

    @cached_property
    def euler_characteristic(self) -> int:
        """Points - edges + faces, of the welded mesh without collapsed faces and unreferenced vertices."""
        faces = self.welded_faces[~self.collapsed]
        used = np.zeros(self.n_unique, bool)
        used[faces] = True
        return int(np.count_nonzero(used)) - self.n_edges + len(faces)

    @cached_property
    def genus(self) -> int | None:
        """Number of handles; None unless the mesh is one closed oriented manifold part."""
        if not self.is_closed_manifold or self.components[0] != 1 or self.n_non_manifold_vertices:
            return None
        return 1 - self.euler_characteristic // 2

    @cached_property
    def vertex_faces(self) -> tuple[np.ndarray, np.ndarray]:
        """The corners at each vertex (by index, not welded), as compressed rows.

        Returns:
            offsets: (V + 1,) int32. The corners of vertex v are corners[offsets[v]:offsets[v + 1]].
            corners: (3F,) int32. 3 f + k for corner k of face f, ascending within a vertex.
        """
        flat = self._faces.ravel()
        offsets = np.zeros(len(self._vertices) + 1, np.int32)
        np.cumsum(np.bincount(flat, minlength=len(self._vertices)), out=offsets[1:])
        keys = (flat.astype(np.int64) << 32) | np.arange(len(flat))
        keys.sort()
        return frozen(offsets), frozen(keys.astype(np.int32))


class _EdgeTable:
    """Half-edges sorted by the undirected edge they lie on.

    Attributes:
        codes: (H,) int32 half-edge numbers, grouped by edge.
        starts: (E,) where each edge begins in codes.
        backwards: (H,) bool, whether a half-edge runs from the higher vertex to the lower; False first within an edge.
        uses: (E,) int32 number of half-edges on each edge.
        net: (E,) int32 uses from the lower vertex to the higher, minus uses the other way.
    """

    def __init__(self, faces: np.ndarray, n_vertices: int, keep: np.ndarray | None):
        bits = max(n_vertices - 1, 1).bit_length()
        code_bits = max(3 * len(faces) - 1, 1).bit_length()
        # The half-edge's number fits beneath the edge's but for millions of faces: one sort of plain integers does all.
        packed = 2 * bits + 1 + code_bits <= 63
        key = np.empty((3, len(faces)), np.int64)
        corners = np.ascontiguousarray(faces.T)
        for k, (row, tail, head) in enumerate(zip(key, corners, corners[[1, 2, 0]], strict=True)):
            row[:] = np.minimum(tail, head)
            row <<= bits
            row |= np.maximum(tail, head)
            row <<= 1
            row |= tail > head
            if packed:
                row <<= code_bits
                row |= np.arange(k, 3 * len(faces), 3)
        key = key.ravel() if keep is None else key[:, keep].ravel()
        if packed:
            key.sort()
            self.codes = key.astype(np.int32)
            self.codes &= np.int32((1 << code_bits) - 1)
            key >>= code_bits
        else:
            # Unstable, but half-edges of one edge and one direction are alike to every reader of this table.
            order = np.argsort(key)
            live = np.arange(len(faces)) if keep is None else np.flatnonzero(keep)
            self.codes = (3 * live[order % len(live)] + order // len(live)).astype(np.int32)
            key = key[order]
        self.backwards = (key.astype(np.int8) & np.int8(1)).view(bool)
        key >>= 1
        first = np.ones(len(key), bool)
        np.not_equal(key[1:], key[:-1], out=first[1:])
        self.starts = np.flatnonzero(first)
        self.uses = np.empty(len(self.starts), np.int32)
        np.subtract(self.starts[1:], self.starts[:-1], out=self.uses[:-1], casting="same_kind")
        self.uses[-1:] = len(key) - self.starts[-1:]
        self.net = self._net_uses()
        self._edge = key
        self._bits = bits

    def _net_uses(self) -> np.ndarray:
        sign = 1 - 2 * self.backwards.view(np.int8)
        first, last = np.take(sign, self.starts), np.take(sign, self.starts + self.uses - 1)
        last[self.uses == 1] = 0
        net = (first + last).astype(np.int32)
        many = np.flatnonzero(self.uses > 2)
        if len(many):
            within = np.repeat(self.uses > 2, self.uses)
            ends = np.cumsum(self.uses[many])
            net[many] = np.add.reduceat(sign[within], ends - self.uses[many], dtype=np.int32)
        return net

    def ends(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the higher vertex of each edge."""
        key = self._edge[self.starts[edges]]
        return (key >> self._bits).astype(np.int32), (key & ((1 << self._bits) - 1)).astype(np.int32)


def _first_at_same_position(vertices: np.ndarray) -> np.ndarray:
    """(V,) int32. For each vertex the lowest index with equal coordinates (0 and -0 are equal).

    Positions are hashed and sorted with their index in the low bits; a collision of two positions is seen when the
    members of a run are compared, and then a full sort decides.
    """
    n = len(vertices)
    itself = np.arange(n, dtype=np.int32)
    if n < 2:
        return itself
    vertices = vertices + 0  # turns -0 into 0
    index_bits = (n - 1).bit_length()
    keys = _position_hash(vertices) & np.uint64(2**64 - 2**index_bits)
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort()
    order = (keys & np.uint64(2**index_bits - 1)).astype(np.intp)
    keys >>= np.uint64(index_bits)
    same = keys[1:] == keys[:-1]
    if not same.any():
        return itself
    at = np.flatnonzero(same)
    if not np.array_equal(vertices[order[at]], vertices[order[at + 1]]):
        order = np.lexsort(vertices.T)
        same = (vertices[order[1:]] == vertices[order[:-1]]).all(axis=1)
    run_start = np.maximum.accumulate(np.where(np.concatenate([[True], ~same]), np.arange(n), 0))
    itself[order] = order[run_start]
    return itself


def _position_hash(vertices: np.ndarray) -> np.ndarray:
    """(V,) uint64, well mixed in its high bits (the multipliers are those of splitmix64)."""
    bits = np.ascontiguousarray(vertices.T).view(f"u{vertices.dtype.itemsize}").astype(np.uint64)
    mixed = bits[0]
    for column in (bits[1], bits[2], np.uint64(0)):
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
        mixed += column
    return mixed * np.uint64(0xBF58476D1CE4E5B9)


def _count_duplicates(faces: np.ndarray) -> tuple[int, int]:
    """Faces that repeat an earlier one with the same winding, and pairs of faces with opposite winding."""
    a, b, c = np.ascontiguousarray(faces.T)
    low, high = np.minimum(np.minimum(a, b), c).astype(np.int64), np.maximum(np.maximum(a, b), c).astype(np.int64)
    middle = a.astype(np.int64) + b + c - low - high
    # Distinct triples may share a key on meshes of over 2^21 vertices; candidates are compared in full below.
    key = (((low << 21) + middle) << 21) + high
    ordered = np.sort(key)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return 0, 0
    at = np.flatnonzero(np.isin(key, repeated))
    odd = ((a[at] > b[at]) ^ (b[at] > c[at]) ^ (a[at] > c[at])).astype(np.int64)
    triples = np.stack([low[at], middle[at], high[at]], axis=1)
    order = np.lexsort(triples.T)
    triples, odd = triples[order], odd[order]
    starts = np.flatnonzero(np.concatenate([[True], (triples[1:] != triples[:-1]).any(axis=1)]))
    total = np.diff(starts, append=len(triples))
    backwards = np.add.reduceat(odd, starts)
    forwards = total - backwards
    same = np.maximum(forwards - 1, 0) + np.maximum(backwards - 1, 0)
    return int(same.sum()), int(np.minimum(forwards, backwards).sum())


def joined(one: np.ndarray, other: np.ndarray, n: int) -> tuple[int, np.ndarray]:
    """What links between n points join: the number of parts, and the (n,) int32 part of each point."""
    from scipy import sparse  # imported here, as it takes longer than all of geomkit
    from scipy.sparse.csgraph import connected_components

    graph = sparse.coo_array((np.ones(len(one), np.int8), (one, other)), shape=(n, n))
    return connected_components(graph, directed=False)


def _corner_links(table: _EdgeTable) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of corners that are at one point and whose faces share an edge there."""
    following = np.ones(len(table.codes), bool)
    following[table.starts] = False
    second = np.flatnonzero(following)
    one, other = table.codes[second - 1], table.codes[second]
    parallel = table.backwards[second - 1] == table.backwards[second]
    one_end, other_end = one - one % 3 + (one + 1) % 3, other - other % 3 + (other + 1) % 3
    rows = np.concatenate([one, one_end])
    columns = np.concatenate([np.where(parallel, other, other_end), np.where(parallel, other_end, other)])
    return rows, columns


def _walk_loops(tails: list[int], heads: list[int]) -> list[np.ndarray]:
    """Edges tail -> head joined end to end, cut wherever a walk meets itself."""
    leaving: dict[int, list[int]] = {}
    touching: dict[int, list[int]] = {}
    for edge in reversed(range(len(tails))):
        leaving.setdefault(tails[edge], []).append(edge)
        touching.setdefault(tails[edge], []).append(edge)
        touching.setdefault(heads[edge], []).append(edge)
    used = [False] * len(tails)
    loops: list[list[int]] = []

    def next_edge(vertex: int) -> int:
        for stack in (leaving.get(vertex, []), touching[vertex]):
            while stack and used[stack[-1]]:
                stack.pop()
            if stack:
                return stack[-1]
        return -1

    for start in range(len(tails)):
        if used[start]:
            continue
        path, place, edge = [tails[start]], {tails[start]: 0}, start
        while edge >= 0:
            used[edge] = True
            vertex = heads[edge] if tails[edge] == path[-1] else tails[edge]
            if vertex in place:
                at = place[vertex]
                loops.append(path[at:])
                for passed in path[at + 1 :]:
                    del place[passed]
                del path[at + 1 :]
            else:
                place[vertex] = len(path)
                path.append(vertex)
            edge = next_edge(path[-1])
        if len(path) > 1:
            loops.append(path)
    return [frozen(np.array(path, np.int32)) for path in loops]
