"""geomkit: rays, signed distances, closest points and isosurfaces of triangle meshes, with gradients, CPU and CUDA."""

from geomkit import compat as compat
from geomkit.autodiff.gradcheck import gradcheck as gradcheck
from geomkit.autodiff.tape import Tape as Tape
from geomkit.errors import (
    ColorSpaceWarning as ColorSpaceWarning,
    DeviceError as DeviceError,
    MeshError as MeshError,
    SignWarning as SignWarning,
)
from geomkit.implicit.dual import dual_contouring as dual_contouring, surface_nets as surface_nets
from geomkit.implicit.flexicubes import flexicubes as flexicubes
from geomkit.implicit.grid import SdfGrid as SdfGrid, sdf_grid as sdf_grid
from geomkit.implicit.interpolate_grid import interpolate_grid as interpolate_grid
from geomkit.implicit.marching_cubes import marching_cubes as marching_cubes
from geomkit.implicit.redistance import redistance as redistance
from geomkit.implicit.remesh import offset as offset, remesh as remesh, voxelize as voxelize
from geomkit.implicit.signed_distance import contains as contains, signed_distance as signed_distance
from geomkit.implicit.sphere_trace import sphere_trace as sphere_trace
from geomkit.inverse import schedule as schedule
from geomkit.inverse.buffer_loss import depth_loss as depth_loss, normal_loss as normal_loss
from geomkit.inverse.dataset import Dataset as Dataset, load_dataset as load_dataset
from geomkit.inverse.fit import Fit as Fit, FitStep as FitStep, Stage as Stage, fit as fit
from geomkit.inverse.image_loss import (
    huber_loss as huber_loss,
    iou_loss as iou_loss,
    l1_loss as l1_loss,
    mse_loss as mse_loss,
    multiscale_loss as multiscale_loss,
    psnr as psnr,
)
from geomkit.inverse.large_steps import (
    LargeSteps as LargeSteps,
    from_differential as from_differential,
    to_differential as to_differential,
)
from geomkit.inverse.lbfgs import lbfgs as lbfgs
from geomkit.inverse.live import LiveView as LiveView
from geomkit.inverse.lpips_loss import lpips_loss as lpips_loss
from geomkit.inverse.mesh_loss import (
    mesh_edge_loss as mesh_edge_loss,
    mesh_laplacian_smoothing as mesh_laplacian_smoothing,
    mesh_normal_consistency as mesh_normal_consistency,
)
from geomkit.inverse.optimizer import (
    SGD as SGD,
    Adam as Adam,
    UniformAdam as UniformAdam,
    VectorAdam as VectorAdam,
)
from geomkit.inverse.ssim import ssim as ssim
from geomkit.lang.builtins import (
    abs as abs,
    acos as acos,
    asin as asin,
    atan as atan,
    atan2 as atan2,
    atomic_add as atomic_add,
    atomic_cas as atomic_cas,
    atomic_exch as atomic_exch,
    atomic_max as atomic_max,
    atomic_min as atomic_min,
    atomic_sub as atomic_sub,
    ceil as ceil,
    clamp as clamp,
    closest_point_query as closest_point_query,
    cos as cos,
    cosh as cosh,
    cross as cross,
    determinant as determinant,
    dot as dot,
    exp as exp,
    exp2 as exp2,
    floor as floor,
    fmod as fmod,
    grid_sample as grid_sample,
    identity as identity,
    inverse as inverse,
    isfinite as isfinite,
    isnan as isnan,
    length as length,
    length_squared as length_squared,
    lerp as lerp,
    log as log,
    log2 as log2,
    max as max,
    min as min,
    neighbors as neighbors,
    normalize as normalize,
    outer as outer,
    pow as pow,
    quat_from_axis_angle as quat_from_axis_angle,
    quat_inverse as quat_inverse,
    quat_rotate as quat_rotate,
    quat_to_matrix as quat_to_matrix,
    random_bits as random_bits,
    random_normal as random_normal,
    random_uniform as random_uniform,
    ray_query as ray_query,
    round as round,
    rsqrt as rsqrt,
    select as select,
    sign as sign,
    signed_distance_query as signed_distance_query,
    sin as sin,
    sinh as sinh,
    smoothstep as smoothstep,
    sqrt as sqrt,
    step as step,
    stop_gradient as stop_gradient,
    tan as tan,
    tanh as tanh,
    tid as tid,
    trace as trace,
    transpose as transpose,
    trunc as trunc,
    winding_number_query as winding_number_query,
)
from geomkit.lang.diagnostics import KernelError as KernelError
from geomkit.lang.function import func as func
from geomkit.lang.kernel import kernel as kernel, launch as launch
from geomkit.lang.struct import struct as struct
from geomkit.lang.types import (
    array as array,
    f16 as f16,
    f32 as f32,
    f64 as f64,
    i8 as i8,
    i16 as i16,
    i32 as i32,
    i64 as i64,
    mat22 as mat22,
    mat22d as mat22d,
    mat33 as mat33,
    mat33d as mat33d,
    mat44 as mat44,
    mat44d as mat44d,
    quat as quat,
    quatd as quatd,
    u8 as u8,
    u16 as u16,
    u32 as u32,
    u64 as u64,
    vec2 as vec2,
    vec2d as vec2d,
    vec2i as vec2i,
    vec3 as vec3,
    vec3d as vec3d,
    vec3i as vec3i,
    vec4 as vec4,
    vec4d as vec4d,
    vec4i as vec4i,
)
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
from geomkit.mesh.unwrap import unwrap_uv as unwrap_uv
from geomkit.render.bake import bake_texture as bake_texture
from geomkit.render.camera import Camera as Camera
from geomkit.render.color import linear_to_srgb as linear_to_srgb, srgb_to_linear as srgb_to_linear
from geomkit.render.image_io import load_image as load_image, save_image as save_image
from geomkit.render.pixel_rays import pixel_rays as pixel_rays
from geomkit.render.pose import pose as pose
from geomkit.render.project_points import project_points as project_points
from geomkit.render.render import render as render
from geomkit.render.render_sdf import render_sdf as render_sdf
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
from geomkit.render.sdf_features import sdf_features as sdf_features
from geomkit.render.texture import Texture as Texture
from geomkit.runtime.host import num_threads as num_threads, set_num_threads as set_num_threads
from geomkit.spatial.bounds import bounds as bounds
from geomkit.spatial.cast_rays import cast_rays as cast_rays
from geomkit.spatial.closest_point import closest_point as closest_point
from geomkit.spatial.compare import chamfer_distance as chamfer_distance, hausdorff_distance as hausdorff_distance
from geomkit.spatial.hash_grid import HashGrid as HashGrid
from geomkit.spatial.hits import all_hits as all_hits, count_hits as count_hits, occluded as occluded
from geomkit.spatial.isotropic_remesh import isotropic_remesh as isotropic_remesh
from geomkit.spatial.metrics import surface_scores as surface_scores
from geomkit.spatial.sample_surface import sample_surface as sample_surface
from geomkit.spatial.self_intersections import self_intersections as self_intersections
from geomkit.spatial.winding_number import winding_number as winding_number

__version__ = "0.1.0"
