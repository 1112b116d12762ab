"""The triangle mesh: vertices, faces, and what is computed from them once."""

import math
import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from geomkit.arrays import Library, as_array, describe, frozen, library_of, precision_of, to_host, tracker_of
from geomkit.autodiff.primitive import Primitive
from geomkit.autodiff.recording import innermost, watched
from geomkit.errors import message
from geomkit.mesh import measure
from geomkit.mesh.box import used_bounds
from geomkit.mesh.checks import check_range, without_nonfinite
from geomkit.mesh.clusters import clustered
from geomkit.mesh.report import report, state
from geomkit.mesh.source import Source, traced
from geomkit.mesh.topology import Topology
from geomkit.tensors import is_tensor, untraced, version_of

if TYPE_CHECKING:
    from geomkit.spatial.bvh import Bvh

__all__ = ["Mesh", "as_mesh"]


class _kept(cached_property):  # noqa: N801 (it is used as cached_property is)
    """What a mesh computes once, for all meshes that share its values: kept by the plain one."""

    def __get__(self, mesh: Any, owner: type | None = None) -> Any:
        return self if mesh is None else super().__get__(mesh.plain, owner)


class Mesh:
    """A triangle mesh of any quality: open, non-manifold, a soup of triangles, several parts.

    A Mesh is a snapshot and does not change: its own arrays are read-only, and a mesh with moved vertices is a new one
    (`with_vertices`). NumPy's and CuPy's arrays are copied; tensors of torch and arrays of jax are shared, and a mesh
    whose tensor was written to afterwards refuses to be used. What is derived from a mesh is computed when first asked
    for and kept. Torch counts what is written into its tensors, but not what is written through `.data`, or through
    NumPy into memory that both share: then make a new mesh. Pickle and deepcopy carry vertices and faces only.

    Gradients reach the vertices given, whatever library follows them: a tensor that requires grad, an array that jax
    traces, an array of a `gk.Tape`. Under `jax.jit` a mesh has no values, and only primitives can use it.

    Args:
        vertices: (V, 3) numbers of any library, in the mesh's length unit. Or, alone, any object with `.vertices` and
            `.faces`, such as a trimesh.Trimesh.
        faces: (F, 3) integers in [0, V); counter-clockwise is the front.
        nonfinite: "error" refuses vertices that are NaN or infinite; "drop" removes them and the faces at them, and
            renumbers the rest.
    Raises:
        ValueError: wrong shape.
        TypeError: wrong dtype; faces missing, or traced by jax.
        MeshError: vertices that are not finite; a face index out of range.
    Example:
        >>> Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        Mesh(3 vertices, 1 face, float32)
    """

    @untraced
    def __init__(self, vertices: Any, faces: Any = None, *, nonfinite: str = "error"):
        if nonfinite not in ("error", "drop"):
            raise ValueError(message("Mesh", "nonfinite", "'error' or 'drop'", repr(nonfinite)))
        if faces is None:
            if not (hasattr(vertices, "vertices") and hasattr(vertices, "faces")):
                expected = "(F, 3) ints, or one object with .vertices and .faces"
                raise TypeError(message("Mesh", "faces", expected, f"None and {type(vertices).__name__}"))
            vertices, faces = vertices.vertices, vertices.faces
        self._library = library_of(vertices, faces)
        source = Source(vertices)
        triangles = as_array(faces, op="Mesh", name="faces", shape=("F", 3), dtype=np.int32, device=self.device)
        triangles = triangles if triangles.base is None and triangles is not faces else triangles.copy()
        if source.values is None and nonfinite != "error":
            raise ValueError(message("Mesh", "nonfinite", "'error' for vertices that jax traces", repr(nonfinite)))
        self._take(vertices, triangles, source, nonfinite)

    def _take(self, vertices: Any, triangles: Any, source: Source, nonfinite: str, known: bool = False) -> None:
        """Hold what was given, checked; of triangles that are known, not even the range."""
        if source.values is None:
            check_range(triangles, len(vertices))
            self._hold(traced(vertices), triangles, source)
            return
        points = as_array(
            source.values, op="Mesh", name="vertices", shape=("V", 3), dtype=precision_of(vertices), device=self.device
        )
        if not known:
            check_range(triangles, len(points))
        finite = abs(points) < np.inf
        if not finite.all():
            kept = finite.all(axis=1)
            points, triangles = without_nonfinite(points, triangles, kept, nonfinite)
            source = Source(source.array[np.flatnonzero(to_host(kept))]) if source.tracker else Source(None)
        self._hold(points if source.shared else points.copy(), triangles, source)

    @classmethod
    def adopt(cls, vertices: Any, faces: Any, library: Library) -> "Mesh":
        """A mesh of arrays that geomkit has made and keeps no other name for: neither checked nor copied.

        Args:
            vertices: (V, 3) finite float32 or float64, C-contiguous, numpy.ndarray or cupy.ndarray.
            faces: (F, 3) int32 in [0, V), likewise.
            library: that of the caller.
        """
        mesh = cls.__new__(cls)
        mesh._library = library
        # torch counts what is written into its tensors, so that those may share the memory.
        shared = library.name == "torch" and library.device == "cpu" and vertices.flags.writeable
        mesh._hold(vertices, faces, Source(library.wrap(vertices) if shared else None))
        return mesh

    def _hold(self, vertices: Any, faces: Any, source: Source) -> None:
        self._vertices, self._faces, self._source = frozen(vertices), frozen(faces), source
        self._earlier_topology: Topology | None = None
        self._earlier_bvh: Bvh | None = None
        self._derived: dict[str, Any] = {}
        self._family: dict[str, Any] = {}
        self._in_library: dict[str, Any] = {}
        # The same mesh in NumPy's or CuPy's library, which has all that is computed once.
        self._plain: Mesh | None = None
        self._latest: Mesh | None = None
        if self._library.name not in ("numpy", "cupy") and source.values is not None:
            self._plain = Mesh.adopt(self._vertices, self._faces, Library("cupy" if self.device == "cuda" else "numpy"))
            self._plain._family = self._family

    # ---- for gradients

    @property
    def tracker(self) -> str:
        """Who follows gradients through the vertices: "torch", "jax", "tape", or "" for nobody."""
        return self._source.tracker

    @property
    def tracked_array(self) -> Any:
        """What gradients of the mesh are gradients of: `vertices`."""
        return self.vertices

    @property
    def plain(self) -> "Mesh":
        """The same mesh, sharing all that has been computed, in NumPy's or CuPy's library and without gradients."""
        self._check()
        if self._plain is None and self._source.tracker:
            self._plain = Mesh.adopt(self._vertices, self._faces, self._library)._after(self)
        return self._plain or self

    def plain_with(self, values: Any) -> "Mesh":
        """The plain mesh; for vertices that jax traces, that of the values (V, 3), which are known now."""
        if self._source.values is not None or values is None:
            return self.plain
        if self.tracker:
            return self.without_trace.plain_with(values)
        # (A compiled program may ask from several threads, and its buffers do not outlive the call.)
        latest = self._latest
        if latest is None or not np.array_equal(latest._vertices, values):
            latest = self._latest = Mesh(to_host(values), self._faces)._after(self)
        return latest

    @cached_property
    def without_trace(self) -> "Mesh":
        """Of a mesh whose vertices jax traces: what `plain_with` needs, without the traced array."""
        return Mesh.adopt(self._vertices, self._faces, Library("numpy"))._after(self)

    def rebuilt(self, outputs: dict[str, Any], library: Library) -> "Mesh":
        """This mesh in another library, as a function of the vertices in `outputs`, if any, of the same values."""
        mesh = Mesh.adopt(self._vertices, self._faces, library)
        mesh._source, mesh._plain = Source(outputs.get("vertices")), self
        return mesh

    def detach(self) -> "Mesh":
        """The same mesh, sharing all that has been computed, through which no gradients are followed."""
        mesh = Mesh.adopt(self.vertices_array, self._faces, self._library)
        mesh._plain = self.plain
        return mesh

    def _check(self) -> None:
        if self._source.values is None and self._source.array is not None:
            expected = "values (only primitives take such a mesh)"
            raise TypeError(message("Mesh", "vertices", expected, "an array that jax traces"))
        self._source.check()

    # ---- the data

    @property
    def vertices(self) -> Any:
        """(V, 3) the vertices in the library of the caller, those that gradients reach; NumPy's are read-only."""
        if self._source.array is not None:
            return self._source.array
        return watched(self._handed_out("vertices", self._vertices), "Mesh", "vertices", private=True)

    @property
    def faces(self) -> Any:
        """(F, 3) the faces in the library of the caller; NumPy's are read-only."""
        return self._handed_out("faces", self._faces)

    @property
    def vertices_array(self) -> Any:
        """(V, 3) float32 or float64, C-contiguous, numpy.ndarray or cupy.ndarray. Not to be written to."""
        self._check()
        return self._vertices

    @property
    def faces_array(self) -> Any:
        """(F, 3) int32, C-contiguous, numpy.ndarray or cupy.ndarray. Not to be written to."""
        return self._faces

    @property
    def dtype(self) -> np.dtype:
        """float64 when the vertices were given as an array of float64, else float32. Queries compute in it."""
        return self._vertices.dtype

    @property
    def library(self) -> Library:
        """The array library the mesh was given in."""
        return self._library

    @property
    def device(self) -> str:
        """ "cpu" or "cuda"."""
        return self._library.device

    @property
    def n_vertices(self) -> int:
        """Number of vertices, those no face uses included."""
        return len(self._vertices)

    @property
    def n_faces(self) -> int:
        """Number of faces."""
        return len(self._faces)

    # ---- the box

    @_kept
    def bounds(self) -> np.ndarray:
        """(2, 3) float64. Least and greatest coordinates of the vertices that faces use; (inf, -inf) without faces."""
        if not self.n_faces:
            return frozen(np.array([[np.inf] * 3, [-np.inf] * 3]))
        kept = None if self._earlier_bvh is None else self._family
        return frozen(used_bounds(self.vertices_array, self._faces, kept).astype(np.float64))

    @_kept
    def center(self) -> np.ndarray:
        """(3,) float64. The middle of the box; the origin without faces."""
        return frozen(0.5 * self.bounds[0] + 0.5 * self.bounds[1] if self.n_faces else np.zeros(3))

    @_kept
    def diagonal(self) -> float:
        """The length of the box's diagonal; 0 without faces."""
        return math.hypot(*(self.bounds[1] - self.bounds[0])) if self.n_faces else 0.0

    # ---- measures

    @property
    def face_normals(self) -> Any:
        """(F, 3) unit normals, zero for a face of zero area. See `geomkit.mesh.measure.face_normals`."""
        return self._measured("face_normals", measure.face_normals)

    @property
    def vertex_normals(self) -> Any:
        """(V, 3) unit normals weighted by angle. See `geomkit.mesh.measure.vertex_normals`."""
        return self._measured("vertex_normals", measure.vertex_normals)

    @property
    def face_areas(self) -> Any:
        """(F,) areas. See `geomkit.mesh.measure.face_areas`."""
        return self._measured("face_areas", measure.face_areas)

    @property
    def area(self) -> float:
        """The sum of the face areas."""
        return self._measured("area", measure.area)

    @property
    def volume(self) -> float:
        """The signed volume: negative when the faces look inwards. See `geomkit.mesh.measure.volume`."""
        return self._measured("volume", measure.volume)

    def _measured(self, name: str, op: Callable[["Mesh"], Any]) -> Any:
        """Kept, unless gradients are followed."""
        if self.tracker or innermost() is not None:
            return op(self)
        value = self.derived(f"mesh.{name}", op)
        return value if isinstance(value, float) else self._handed_out(name, value)

    # ---- connectivity

    @_kept
    def topology(self) -> Topology:
        """The census of welded vertices and edges, on the host."""
        if self._earlier_topology is not None:
            return self._earlier_topology.moved(to_host(self._vertices))
        return Topology(to_host(self._vertices), to_host(self._faces))

    @property
    def is_closed(self) -> bool:
        """Whether every welded edge is passed equally often in both directions."""
        return self.topology.is_closed

    @property
    def is_oriented(self) -> bool:
        """Whether no two faces at an edge are seen to disagree about the front."""
        return self.topology.is_oriented

    @property
    def euler_characteristic(self) -> int:
        """Points - edges + faces of the welded mesh."""
        return self.topology.euler_characteristic

    def components(self) -> tuple[int, np.ndarray]:
        """Parts of the mesh: their number, and the (F,) int32 part of each face. Faces that share a point are one part.

        Example:
            >>> from geomkit.mesh.shapes import box
            >>> box().components()[0]
            1
        """
        return self.topology.components

    def boundary_loops(self) -> list[np.ndarray]:
        """The rims of the holes: for each the vertex indices along it, the surface to the left."""
        return list(self.topology.boundary_loops)

    def report(self) -> str:
        """What is right and wrong with the mesh in plain words, and what to do about it.

        Example:
            >>> print(Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]).report())
            3 vertices, 1 face, float32, 1 part
            size 1 x 1 x 0, area 0.5
            open: 3 boundary edges in 1 loop; the mesh bounds no volume, so no sign is right: use sign="unsigned"
        """
        return report(self)

    # ---- acceleration

    @_kept
    def bvh(self) -> "Bvh":
        """The bounding volume hierarchy that queries use, built at the first of them; for a mesh that came from
        `with_vertices`, the earlier mesh's tree refitted."""
        from geomkit.spatial.bvh import Bvh

        if self._earlier_bvh is not None and self._earlier_bvh.dtype == self.dtype:
            return self._earlier_bvh.refitted(self.vertices_array, self.center, size=self.diagonal)
        return Bvh(self.vertices_array, self.faces_array, self.center, size=self.diagonal)

    def derived(self, name: str, make: Callable[["Mesh"], Any]) -> Any:
        """What another layer computes from this mesh once: make(mesh), kept under the name."""
        plain = self.plain
        if name not in plain._derived:
            plain._derived[name] = make(plain)
        return plain._derived[name]

    @property
    def family(self) -> dict[str, Any]:
        """What another layer keeps for this mesh and all that came from it by `with_vertices`: they share this."""
        return self.plain._family

    # ---- other meshes

    def moved(self, vertices: Any) -> "Mesh":
        """As `with_vertices`, of an array as `adopt` takes it."""
        mesh = Mesh.adopt(vertices, self._faces, self._library)
        mesh._follow(self, stale=False)
        return mesh

    def weld(self, tolerance: float = 0.0) -> "Mesh":
        """Merge vertices that are at the same place; faces keep their number and order.

        Queries weld by position themselves: this is for smooth normals, smaller meshes, and near misses.

        Args:
            tolerance: in the mesh's length unit. Vertices at most so far apart become the one of lowest index, and so
                do chains of them. A face may collapse to an edge or a point: the report counts those.
        Returns:
            a mesh in the same library, its remaining vertices in their old order.
        Raises:
            ValueError: tolerance is negative or not finite.
        """
        if not 0 <= tolerance < np.inf:
            raise ValueError(message("weld", "tolerance", "a finite number of at least 0", repr(tolerance)))
        first = self.topology.representative
        if tolerance > 0 and self.n_vertices:
            first = clustered(to_host(self.vertices_array).astype(np.float64), first, tolerance)
        kept = np.flatnonzero(first == np.arange(len(first)))
        number = np.zeros(len(first), np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        faces = number[first][to_host(self._faces)]
        return self._like(self._followed()[kept], faces)

    @untraced
    def with_vertices(self, vertices: Any) -> "Mesh":
        """The same faces at new positions, without a new census where welded vertices still coincide, and with this
        mesh's tree refitted.

        Args:
            vertices: (V, 3) numbers, as many as before.
        Raises:
            ValueError: another number of vertices, or a wrong shape.
            MeshError: vertices that are not finite.
        """
        # A list takes the precision of the mesh.
        dtype = precision_of(vertices) if hasattr(vertices, "dtype") else self.dtype
        if isinstance(vertices, (list, tuple)) or not tracker_of(vertices):
            device, shape = library_of(vertices, self._faces).device, (self.n_vertices, 3)
            checked = as_array(vertices, op="with_vertices", name="vertices", shape=shape, dtype=dtype, device=device)
            vertices = vertices if hasattr(vertices, "dtype") else checked
        elif tuple(vertices.shape) != (self.n_vertices, 3):
            expected = f"({self.n_vertices}, 3) floats"
            raise ValueError(message("with_vertices", "vertices", expected, describe(vertices)))
        moved = type(self).__new__(type(self))
        moved._library = library_of(vertices, self.faces)
        if moved.device == self.device:
            moved._take(vertices, self._faces, Source(vertices), "error", known=True)
        else:
            moved = type(self)(vertices, self.faces)
        moved._follow(self._plain or self, stale=self._source.stale)
        if moved._plain is not None:
            moved._plain._follow(self._plain or self, stale=self._source.stale)
        return moved

    def _follow(self, earlier: "Mesh", *, stale: bool) -> None:
        """Take over the connectivity and the tree of a mesh with the same faces."""
        known = "topology" in earlier.__dict__ or (earlier._earlier_topology is None and not stale)
        self._earlier_topology = earlier.topology if known else earlier._earlier_topology
        self._earlier_bvh = earlier.__dict__.get("bvh", earlier._earlier_bvh)
        self._family = earlier._family

    def _after(self, mesh: "Mesh") -> "Mesh":
        """This mesh, which follows whatever that one followed."""
        self._earlier_topology, self._earlier_bvh = mesh._earlier_topology, mesh._earlier_bvh
        self._family = mesh._family
        return self

    def flipped(self) -> "Mesh":
        """The mesh turned inside out: every face with the opposite winding."""
        return self._like(self._followed(), self._faces[:, [0, 2, 1]])

    def copy(self) -> "Mesh":
        """A mesh with arrays of its own, but for one that gradients are followed through, and nothing computed yet."""
        vertices = self._followed()
        return self._like(vertices if tracker_of(vertices) else vertices.copy(), self._faces.copy())

    def save(self, path: str | os.PathLike) -> None:
        """Write OBJ, PLY, STL, OFF or GLB. See `geomkit.mesh.io.save_mesh`."""
        from geomkit.mesh.io import save_mesh

        save_mesh(self, path)

    # ---- Python

    def __repr__(self) -> str:
        topology = (self._plain or self).__dict__.get("topology")
        known = f", {state(topology)}" if topology else ""
        vertices = f"{self.n_vertices} {'vertex' if self.n_vertices == 1 else 'vertices'}"
        faces = f"{self.n_faces} {'face' if self.n_faces == 1 else 'faces'}"
        device = ", cuda" if self.device == "cuda" else ""
        return f"{type(self).__name__}({vertices}, {faces}, {self.dtype}{device}{known})"

    def __copy__(self) -> "Mesh":
        return self.copy()

    def __reduce__(self) -> tuple:
        return type(self), (self._library.wrap(self.vertices_array), self._library.wrap(self._faces))

    def _handed_out(self, name: str, array: Any) -> Any:
        kept = self._in_library.get(name)
        # (Torch's are copies that can be written to: the next caller gets another.)
        if kept is None or (is_tensor(kept) and version_of(kept) != 0):
            kept = self._in_library[name] = self._library.wrap(array)
        return kept

    def _followed(self) -> Any:
        """The vertices as gradients are followed through them, else NumPy's or CuPy's."""
        return self.vertices if tracker_of(self.vertices) else self.vertices_array

    def _like(self, vertices: Any, faces: Any) -> "Mesh":
        """A mesh of NumPy or CuPy arrays in the library of this one; the vertices may be of that library already."""
        own = vertices if tracker_of(vertices) else self._library.wrap(vertices)
        return type(self)(own, self._library.wrap(faces))


def as_mesh(obj: Any) -> Mesh:
    """The object itself if it is a Mesh, else a Mesh of its `.vertices` and `.faces`.

    Raises:
        TypeError: it has no such attributes.
    """
    return obj if isinstance(obj, Mesh) else Mesh(obj)


Primitive.as_mesh = staticmethod(as_mesh)
