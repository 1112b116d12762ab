// Queries of a mesh as programs of the kernel language call them: with scalars.
#pragma once
#include "mesh_handle.h"
#if GK_GPU
#include "mesh_query.h"
#define GK_QUERY(NAME, NUMBER) NAME
#else
#define GK_QUERY(NAME, NUMBER) mesh.functions[NUMBER]
#endif

namespace gk {

GK_FN void closest_point_query(const MeshHandle& mesh, real x, real y, real z, real farthest, bool& hit, int& face, real& u,
                               real& v, real& w, int& feature, real& px, real& py, real& pz, real& distance) {
    real given[4] = {x, y, z, farthest}, made[7];
    int found[2];
    GK_QUERY(closest_point_of, CLOSEST_POINT)(mesh, given, nullptr, made, found);
    hit = found[0] >= 0, face = found[0], feature = found[1];
    u = made[0], v = made[1], w = made[2], px = made[3], py = made[4], pz = made[5], distance = made[6];
}

GK_FN void adj_closest_point_query(const MeshHandle& mesh, real x, real y, real z, real, bool hit, int face, real u, real v,
                                   real w, int feature, real, real, real, real, real adj_px, real adj_py, real adj_pz,
                                   real adj_distance, real& adj_x, real& adj_y, real& adj_z) {
    adj_x = 0, adj_y = 0, adj_z = 0;
    if (!hit) return;
    real given[10] = {x, y, z, u, v, w, adj_px, adj_py, adj_pz, adj_distance}, made[3];
    int known[2] = {face, feature};
    GK_QUERY(adj_closest_point_of, ADJ_CLOSEST_POINT)(mesh, given, known, made, nullptr);
    adj_x = made[0], adj_y = made[1], adj_z = made[2];
}

GK_FN void signed_distance_query(const MeshHandle& mesh, real x, real y, real z, real farthest, bool& hit, int& face, real& u,
                                 real& v, real& w, int& feature, real& px, real& py, real& pz, real& distance) {
    real given[4] = {x, y, z, farthest}, made[7];
    int found[2];
    GK_QUERY(signed_distance_of, SIGNED_DISTANCE)(mesh, given, nullptr, made, found);
    hit = found[0] >= 0, face = found[0], feature = found[1];
    u = made[0], v = made[1], w = made[2], px = made[3], py = made[4], pz = made[5], distance = made[6];
}

GK_FN void adj_signed_distance_query(const MeshHandle& mesh, real x, real y, real z, real, bool hit, int face, real u, real v,
                                     real w, int feature, real, real, real, real distance, real adj_px, real adj_py,
                                     real adj_pz, real adj_distance, real& adj_x, real& adj_y, real& adj_z) {
    adj_x = 0, adj_y = 0, adj_z = 0;
    if (!hit) return;
    real given[11] = {x, y, z, u, v, w, adj_px, adj_py, adj_pz, adj_distance, distance}, made[3];
    int known[2] = {face, feature};
    GK_QUERY(adj_signed_distance_of, ADJ_SIGNED_DISTANCE)(mesh, given, known, made, nullptr);
    adj_x = made[0], adj_y = made[1], adj_z = made[2];
}

GK_FN void ray_query(const MeshHandle& mesh, real ox, real oy, real oz, real dx, real dy, real dz, real t_max, bool& hit, real& t,
                     int& face, real& u, real& v, real& nx, real& ny, real& nz, real& x, real& y, real& z) {
    real given[7] = {ox, oy, oz, dx, dy, dz, t_max}, made[9];
    GK_QUERY(ray_of, RAY)(mesh, given, nullptr, made, &face);
    hit = face >= 0, t = made[0], u = made[1], v = made[2], nx = made[3], ny = made[4], nz = made[5];
    x = made[6], y = made[7], z = made[8];
}

GK_FN void adj_ray_query(const MeshHandle& mesh, real, real, real, real dx, real dy, real dz, real, bool hit, real t, int face,
                         real u, real v, real, real, real, real, real, real, real adj_t, real adj_u, real adj_v, real adj_nx,
                         real adj_ny, real adj_nz, real adj_x, real adj_y, real adj_z, real& adj_ox, real& adj_oy, real& adj_oz,
                         real& adj_dx, real& adj_dy, real& adj_dz) {
    adj_ox = 0, adj_oy = 0, adj_oz = 0, adj_dx = 0, adj_dy = 0, adj_dz = 0;
    if (!hit) return;
    real given[15] = {dx, dy, dz, t, u, v, adj_t, adj_u, adj_v, adj_nx, adj_ny, adj_nz, adj_x, adj_y, adj_z}, made[6];
    GK_QUERY(adj_ray_of, ADJ_RAY)(mesh, given, &face, made, nullptr);
    adj_ox = made[0], adj_oy = made[1], adj_oz = made[2], adj_dx = made[3], adj_dy = made[4], adj_dz = made[5];
}

GK_FN void winding_number_query(const MeshHandle& mesh, real x, real y, real z, real& winding) {
    real given[3] = {x, y, z};
    GK_QUERY(winding_number_of, WINDING_NUMBER)(mesh, given, nullptr, &winding, nullptr);
}

GK_FN void adj_winding_number_query(const MeshHandle& mesh, real x, real y, real z, real, real adj_winding, real& adj_x,
                                    real& adj_y, real& adj_z) {
    real given[4] = {x, y, z, adj_winding}, made[3];
    GK_QUERY(adj_winding_number_of, ADJ_WINDING_NUMBER)(mesh, given, nullptr, made, nullptr);
    adj_x = made[0], adj_y = made[1], adj_z = made[2];
}

}  // namespace gk
