"""geomkit: signed distance, closest points and winding numbers of triangle meshes, with gradients, on CPU and CUDA."""

from geomkit.autodiff.gradcheck import gradcheck as gradcheck
from geomkit.errors import DeviceError as DeviceError, MeshError as MeshError, SignWarning as SignWarning
from geomkit.mesh import shapes as shapes
from geomkit.mesh.io import load_mesh as load_mesh
from geomkit.mesh.mesh import Mesh as Mesh
from geomkit.spatial.closest_point import closest_point as closest_point
from geomkit.spatial.winding_number import winding_number as winding_number
from geomkit.implicit.signed_distance import contains as contains, signed_distance as signed_distance
