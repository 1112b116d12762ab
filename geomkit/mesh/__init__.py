"""Triangle meshes: the class, files, topology, measures, and shapes to start from."""

from geomkit.mesh.io import load_mesh, save_mesh
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.mesh.topology import Topology

__all__ = ["Mesh", "Topology", "as_mesh", "load_mesh", "save_mesh"]
