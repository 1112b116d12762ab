"""geomkit: rays, signed distances, closest points and isosurfaces of triangle meshes, with gradients, CPU and CUDA."""

from geomkit import compat as compat
from geomkit.autodiff.gradcheck import gradcheck as gradcheck
from geomkit.autodiff.tape import Tape as Tape
from geomkit.errors import DeviceError as DeviceError, MeshError as MeshError, SignWarning as SignWarning
from geomkit.implicit.dual import dual_contouring as dual_contouring, surface_nets as surface_nets
from geomkit.implicit.grid import SdfGrid as SdfGrid, sdf_grid as sdf_grid
from geomkit.implicit.interpolate_grid import interpolate_grid as interpolate_grid
from geomkit.implicit.marching_cubes import marching_cubes as marching_cubes
from geomkit.implicit.remesh import offset as offset, remesh as remesh, voxelize as voxelize
from geomkit.implicit.signed_distance import contains as contains, signed_distance as signed_distance
from geomkit.mesh import shapes as shapes
from geomkit.mesh.io import load_mesh as load_mesh
from geomkit.mesh.measure import (
    area as area,
    face_areas as face_areas,
    face_normals as face_normals,
    vertex_normals as vertex_normals,
    volume as volume,
)
from geomkit.mesh.mesh import Mesh as Mesh
from geomkit.render.camera import Camera as Camera
from geomkit.render.color import linear_to_srgb as linear_to_srgb, srgb_to_linear as srgb_to_linear
from geomkit.render.image_io import load_image as load_image, save_image as save_image
from geomkit.render.pixel_rays import pixel_rays as pixel_rays
from geomkit.render.pose import pose as pose
from geomkit.render.project_points import project_points as project_points
from geomkit.render.render import render as render
from geomkit.render.scene import (
    ConstantLight as ConstantLight,
    DirectionalLight as DirectionalLight,
    EnvironmentLight as EnvironmentLight,
    Material as Material,
    Object as Object,
    PointLight as PointLight,
    Scene as Scene,
    SpotLight as SpotLight,
)
from geomkit.render.scene_io import (
    load_cameras as load_cameras,
    load_scene as load_scene,
    save_scene as save_scene,
)
from geomkit.render.texture import Texture as Texture
from geomkit.runtime.host import num_threads as num_threads, set_num_threads as set_num_threads
from geomkit.spatial.bounds import bounds as bounds
from geomkit.spatial.cast_rays import cast_rays as cast_rays
from geomkit.spatial.closest_point import closest_point as closest_point
from geomkit.spatial.compare import chamfer_distance as chamfer_distance, hausdorff_distance as hausdorff_distance
from geomkit.spatial.hash_grid import HashGrid as HashGrid
from geomkit.spatial.hits import all_hits as all_hits, count_hits as count_hits, occluded as occluded
from geomkit.spatial.sample_surface import sample_surface as sample_surface
from geomkit.spatial.winding_number import winding_number as winding_number

__version__ = "0.1.0"
