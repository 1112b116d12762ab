// The queries that kernels written in Python call on the CPU, in the order of their numbers.
#include "../lang/mesh_query.h"
#include "launch.h"

namespace gk {

static const MeshFunction MESH_FUNCTIONS[] = {
    closest_point_of, adj_closest_point_of, signed_distance_of, adj_signed_distance_of,
    ray_of, adj_ray_of, winding_number_of, adj_winding_number_of,
};

}  // namespace gk

GK_EXPORT const void* gk_mesh_functions() { return gk::MESH_FUNCTIONS; }
