"""What is right and wrong with a mesh, in words: each kind of defect, how many, and what to do about it."""

from typing import TYPE_CHECKING

from geomkit.mesh.topology import Topology

if TYPE_CHECKING:
    from geomkit.mesh.mesh import Mesh

__all__ = ["report", "sign_method", "state"]

# A mesh bounds nothing when its volume is below this share of area times diagonal: a sheet, the same surface there and
# back, all in one plane. Rounding alone leaves 1e-8 in float32.
FLAT = 1e-6
# Share of faces in double-sided pairs from which the winding number is hollowed out.
DOUBLE_SIDED = 0.05


def sign_method(mesh: "Mesh") -> str:
    """The sign of distance that the census calls for: what `sign="auto"` begins with.

    Returns:
        "pseudonormal": every edge has two faces that agree, no face is there twice.
        "unsigned": the mesh encloses nothing that a winding number could tell, as sheets and double-sided faces.
        "winding": all else. Also for a mesh without faces, which has nothing to sign.
    """
    topology = mesh.topology
    if not mesh.n_faces:
        return "winding"
    if 2 * topology.n_duplicate_opposite >= DOUBLE_SIDED * mesh.n_faces:
        return "unsigned"
    if abs(mesh.volume) <= FLAT * mesh.area * mesh.diagonal:
        return "unsigned"
    if topology.is_closed_manifold and topology.n_duplicate_same == 0 and topology.n_duplicate_opposite == 0:
        return "pseudonormal"
    return "winding"


def state(topology: Topology) -> str:
    """The state of the surface in a few words, for `repr(mesh)`.

    Returns:
        such as "closed", "open: 223 boundary edges", "closed, not manifold: 1 edge with more than two faces".
    """
    words = []
    if topology.n_boundary:
        words.append(f"open: {_count(topology.n_boundary, 'boundary edge')}")
    elif topology.is_closed:
        words.append("closed")
    if topology.n_inconsistent:
        words.append(f"flipped faces at {_count(topology.n_inconsistent, 'edge')}")
    if topology.n_non_manifold:
        words.append(f"not manifold: {_count(topology.n_non_manifold, 'edge')} with more than two faces")
    return ", ".join(words)


def report(mesh: "Mesh") -> str:
    """What is right and wrong with the mesh, a line for each fact.

    Returns:
        Lines of text. The first two give sizes; the third says whether the mesh is closed and which sign of distance
        follows; each line after that names one kind of defect that is there, how many, and a remedy. A sound mesh has
        three lines.
    Example:
        >>> from geomkit.mesh.shapes import box
        >>> print(report(box()))
        8 vertices, 12 faces, float32, 1 part
        size 1 x 1 x 1, area 6, volume 1
        closed: every edge has two faces that agree; signs will use pseudonormals
    """
    if not mesh.n_faces:
        return f"{_count(mesh.n_vertices, 'vertex', 'vertices')}, 0 faces, {mesh.dtype}\nempty: distances to it are inf"
    return "\n".join([*_sizes(mesh), _surface(mesh), *_edge_defects(mesh), *_face_defects(mesh), *_vertex_notes(mesh)])


def _sizes(mesh: "Mesh") -> list[str]:
    topology = mesh.topology
    size = " x ".join(f"{length:.6g}" for length in mesh.bounds[1] - mesh.bounds[0])
    volume = f", volume {mesh.volume:.6g}" if topology.is_closed else ""
    genus = f", genus {topology.genus}" if topology.genus else ""
    counts = f"{_count(mesh.n_vertices, 'vertex', 'vertices')}, {_count(mesh.n_faces, 'face')}, {mesh.dtype}"
    return [f"{counts}, {_count(topology.components[0], 'part')}{genus}", f"size {size}, area {mesh.area:.6g}{volume}"]


def _surface(mesh: "Mesh") -> str:
    topology, sign = mesh.topology, sign_method(mesh)
    consequence = {
        "pseudonormal": "signs will use pseudonormals",
        "winding": "signs will use the winding number",
        "unsigned": 'the mesh bounds no volume, so no sign is right: use sign="unsigned"',
    }[sign]
    if topology.n_boundary:
        loops = _count(len(topology.boundary_loops), "loop")
        return f"open: {_count(topology.n_boundary, 'boundary edge')} in {loops}; {consequence}"
    if topology.is_closed_manifold:
        return f"closed: every edge has two faces that agree; {consequence}"
    if topology.is_closed:
        return f"closed: every edge is passed equally often in both directions; {consequence}"
    return f"not closed: no boundary, but faces disagree about the front; {consequence}"


def _edge_defects(mesh: "Mesh") -> list[str]:
    topology = mesh.topology
    lines = []
    if topology.is_closed and mesh.volume < 0 and sign_method(mesh) != "unsigned":
        lines.append(
            f"inside out: the volume is {mesh.volume:.6g}, so the faces look inwards and signs are inverted; "
            "use mesh.flipped()"
        )
    if topology.n_inconsistent:
        lines.append(
            f"flipped: {_count(topology.n_inconsistent, 'edge')} whose two faces pass it in the same direction; "
            "make the winding consistent (trimesh.repair.fix_winding) unless the surface has one side only"
        )
    if topology.n_non_manifold:
        lines.append(
            f"non-manifold: {_count(topology.n_non_manifold, 'edge')} with more than two faces; "
            "separate the sheets that meet there, or remove the inner ones"
        )
    return lines


def _face_defects(mesh: "Mesh") -> list[str]:
    topology = mesh.topology
    lines = []
    if topology.n_duplicate_same:
        repeats = "repeats" if topology.n_duplicate_same == 1 else "repeat"
        lines.append(
            f"duplicate: {_count(topology.n_duplicate_same, 'face')} that {repeats} another with the same winding; "
            "remove the repeats, which count twice in volume and winding number"
        )
    if topology.n_duplicate_opposite:
        share = 200 * topology.n_duplicate_opposite / mesh.n_faces
        lines.append(
            f"double-sided: {_count(topology.n_duplicate_opposite, 'pair')} of faces with opposite winding, "
            f"{share:.3g} % of all faces; they cancel in volume and winding number: remove one of each pair"
        )
    if topology.n_collapsed:
        lines.append(
            f"collapsed: {_count(topology.n_collapsed, 'face')} with two corners at one point; "
            "queries treat them as segments or points: remove them if that is not meant"
        )
    if topology.n_zero_area:
        lines.append(
            f"zero area: {_count(topology.n_zero_area, 'face')} with three corners on a line; "
            "queries treat them as segments, but they have no normal: collapse them or flip their longest edge"
        )
    return lines


def _vertex_notes(mesh: "Mesh") -> list[str]:
    topology = mesh.topology
    lines = []
    if topology.n_non_manifold_vertices:
        points = _count(topology.n_non_manifold_vertices, "point")
        lines.append(
            f"non-manifold: {points} where separate fans of faces touch; pseudonormals there mix the fans: "
            'compare with sign="winding" if points nearby matter'
        )
    n_repeated = mesh.n_vertices - topology.n_unique
    if n_repeated:
        share = "shares" if n_repeated == 1 else "share"
        lines.append(
            f"unwelded: {_count(n_repeated, 'vertex', 'vertices')} that {share} the position of another; "
            "queries weld by themselves, mesh.weld() does for normals"
        )
    if topology.n_unreferenced:
        lines.append(
            f"unreferenced: {_count(topology.n_unreferenced, 'vertex', 'vertices')} that no face uses; "
            "harmless, they are ignored"
        )
    return lines


def _count(n: int, noun: str, plural: str = "") -> str:
    """ "1 edge", "2 edges" """
    return f"{n} {noun}" if n == 1 else f"{n} {plural if plural else noun + 's'}"
