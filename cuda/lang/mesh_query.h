// Queries of a mesh for one thread, and their adjoints.
#pragma once
#include "../implicit/sign.h"
#include "../spatial/closest_hit.h"
#include "../spatial/ray_adjoint.h"
#include "kernel.h"
#include "mesh_handle.h"

namespace gk {

GK_FN Bvh bvh_of(const MeshHandle& m) {
    return {m.nodes, m.packets, m.frames, m.moments, {m.center[0], m.center[1], m.center[2]}, m.scale};
}
GK_FN Pseudonormals pseudonormals_of(const MeshHandle& m) {
    return {m.welded, m.normals_of_faces, m.normals_of_edges, m.normals_of_vertices};
}

GK_FN bool is_finite(const real* p) { return p[0] - p[0] == 0 && p[1] - p[1] == 0 && p[2] - p[2] == 0; }

template <class T> GK_FN void add_to_vertex(const MeshHandle& mesh, int vertex, Vec<T> g) {
    double* to = mesh.grad + 3 * (uint64)vertex;
    if (g.x != 0) atomic_add(to, (double)g.x);
    if (g.y != 0) atomic_add(to + 1, (double)g.y);
    if (g.z != 0) atomic_add(to + 2, (double)g.z);
}

// The nearest point of the mesh, if it is within `farthest`.
struct Found {
    Query query;
    Vec3 weights, point, away;  // point in the world, away in the tree's coordinates
    real length, distance;      // in the tree's unit, in the world's
    int face, feature;          // face is -1 if there is none
};

GK_FN Found nearest_within(const MeshHandle& mesh, const Bvh& bvh, const real* p, real farthest) {
    const real none = real(infinity());
    Found r = {{{0, 0, 0}, 1, no_triangle()}, {0, 0, 0}, {none, none, none}, {0, 0, 0}, none, none, -1, -1};
    if (!mesh.face_count || !is_finite(p) || !(farthest >= 0)) return r;
    Located at = locate(bvh, p, 0);
    r.query.p = at.p, r.query.factor = at.factor;
    // Wider than all roundings: what is found decides.
    double reach = farthest / (at.factor * bvh.scale) * (1 + 1e-5) + 64 * EPSILON;
    if (reach * reach < INFINITE) r.query.best.distance2 = real(reach * reach);
    nearest_triangle(bvh, at.p, r.query.best);
    if (r.query.best.packet < 0) return r;
    Closest closest = closest_of(bvh, &r.query, 0, 1);
    Rows<11> lanes;
    lanes.set(0, closest.point.x), lanes.set(1, closest.point.y), lanes.set(2, closest.point.z);
    lanes.set(3, closest.at.b0), lanes.set(4, closest.at.b1), lanes.set(5, closest.at.b2);
    lanes.set(6, closest.at.away.x), lanes.set(7, closest.at.away.y), lanes.set(8, closest.at.away.z);
    lanes.set(9, closest.at.feature), lanes.set(10, closest.distance);
    real distance = world_distance(bvh, r.query, lanes.at[10][0]);
    if (!(distance <= farthest)) return r;
    r.point = to_world(bvh, {lanes.at[0][0], lanes.at[1][0], lanes.at[2][0]});
    r.weights = {lanes.at[3][0], lanes.at[4][0], lanes.at[5][0]};
    r.away = {lanes.at[6][0], lanes.at[7][0], lanes.at[8][0]};
    r.length = lanes.at[10][0], r.distance = distance;
    r.face = face_of(bvh, r.query), r.feature = int(lanes.at[9][0]);
    return r;
}

// made: weights, point, distance. found: face, feature.
GK_FN void write_found(const Found& r, real distance, real* made, int* found) {
    set_row(made, 0, r.weights), set_row(made, 1, r.point);
    made[6] = distance;
    found[0] = r.face, found[1] = r.feature;
}

// given: point, greatest distance.
GK_FN void closest_point_of(const MeshHandle& mesh, const real* given, const int*, real* made, int* found) {
    Bvh bvh = bvh_of(mesh);
    Found r = nearest_within(mesh, bvh, given, given[3]);
    write_found(r, r.distance, made, found);
}

// given: point, weights, cotangents of the point and of the distance. known: face, feature. made: cotangent of the point.
GK_FN void adj_closest_point_of(const MeshHandle& mesh, const real* given, const int* known, real* made, int*) {
    Bvh bvh = bvh_of(mesh);
    TriangleGradient<real> g = adj_closest_point(bvh, mesh.vertices, mesh.faces, given, 0, known[0], row(given, 1), known[1],
                                                 row(given, 2), given[9]);
    set_row(made, 0, g.p);
    if (!mesh.grad) return;
    const int* f = mesh.faces + 3 * (uint64)known[0];
    add_to_vertex(mesh, f[0], g.a), add_to_vertex(mesh, f[1], g.b), add_to_vertex(mesh, f[2], g.c);
}

// given: point, greatest distance.
GK_FN void signed_distance_of(const MeshHandle& mesh, const real* given, const int*, real* made, int* found) {
    Bvh bvh = bvh_of(mesh);
    Found r = nearest_within(mesh, bvh, given, given[3]);
    bool inside = false;
    if (r.face >= 0) {
        Known known = nothing_known();
        inside = is_inside(bvh, pseudonormals_of(mesh), r.query, r.length, r.feature, r.away, mesh.sign, mesh.inverted,
                           real(mesh.boundary), known);
    }
    write_found(r, inside ? -r.distance : r.distance, made, found);
}

// given: point, weights, cotangents of the point and of the distance, the distance. known: face, feature. made: cotangent of the
// point.
GK_FN void adj_signed_distance_of(const MeshHandle& mesh, const real* given, const int* known, real* made, int*) {
    Bvh bvh = bvh_of(mesh);
    Vec3 w = row(given, 1);
    TriangleGradient<real> g = adj_closest_point(bvh, mesh.vertices, mesh.faces, given, 0, known[0], w, known[1], row(given, 2), 0);
    Vec3 along = adj_signed_distance(bvh, pseudonormals_of(mesh), mesh.vertices, mesh.faces, given, 0, known[0], w, known[1],
                                     given[10], mesh.sign, given[9]);
    set_row(made, 0, g.p + along);
    if (!mesh.grad) return;
    const int* f = mesh.faces + 3 * (uint64)known[0];
    add_to_vertex(mesh, f[0], g.a - w.x * along), add_to_vertex(mesh, f[1], g.b - w.y * along);
    add_to_vertex(mesh, f[2], g.c - w.z * along);
}

// given: origin, direction, greatest parameter. made: parameter, barycentric coordinates, normal, position. found: face.
GK_FN void ray_of(const MeshHandle& mesh, const real* given, const int*, real* made, int* found) {
    GK_SCRATCH Block scratch;
    Block* block = located(&scratch);
    const real none = real(infinity());
    for (int k = 0; k < 6; ++k) made[k] = 0;
    made[0] = made[6] = made[7] = made[8] = none, found[0] = -1;
    if (!mesh.face_count) return;
    Bvh bvh = bvh_of(mesh);
    Mesh triangles = {mesh.vertices, mesh.faces};
    Rays rays = {given, given + 3, nullptr, nullptr, 0, given[6]};
    Seen best[1];
    int invalid;
    closest_hits(bvh, triangles, rays, CULL_NONE, mesh.face_normals, 0, 1, *block, best, {made, found, made + 1, made + 3}, invalid);
    if (invalid >= 0) {
        made[0] = none, found[0] = -1;
        for (int k = 1; k < 6; ++k) made[k] = 0;
    }
    if (found[0] < 0) return;
    const int* f = mesh.faces + 3 * (uint64)found[0];
    Vec3 a = row(mesh.vertices, f[0]), b = row(mesh.vertices, f[1]), c = row(mesh.vertices, f[2]);
    set_row(made, 2, (1 - made[1] - made[2]) * a + made[1] * b + made[2] * c);
}

// given: direction, parameter, barycentric coordinates, cotangents of the parameter, the barycentric coordinates, the normal and
// the position. known: face. made: cotangents of the origin and of the direction.
GK_FN void adj_ray_of(const MeshHandle& mesh, const real* given, const int* known, real* made, int*) {
    Mesh triangles = {mesh.vertices, mesh.faces};
    HitGradient g = adj_hit(triangles, mesh.scale, known[0], row(given, 0), given[3], given[4], given[5], given[6], given[7],
                            given[8], row(given, 3), row(given, 4));
    set_row(made, 0, to_real(g.origin)), set_row(made, 1, to_real(g.direction));
    if (!mesh.grad) return;
    for (int k = 0; k < 3; ++k) add_to_vertex(mesh, mesh.faces[3 * (uint64)known[0] + k], g.corner[k]);
}

// given: point. made: winding number.
GK_FN void winding_number_of(const MeshHandle& mesh, const real* given, const int*, real* made, int*) {
    made[0] = 0;
    if (!mesh.face_count || !is_finite(given)) return;
    Bvh bvh = bvh_of(mesh);
    const real beta = real(mesh.beta);
    made[0] = winding_number_of(bvh, locate(bvh, given, 0).p, beta * beta);
}

// given: point, cotangent of the winding number. made: cotangent of the point.
GK_FN void adj_winding_number_of(const MeshHandle& mesh, const real* given, const int*, real* made, int*) {
    set_row(made, 0, {0, 0, 0});
    if (!mesh.face_count || !is_finite(given)) return;
    Bvh bvh = bvh_of(mesh);
    const Edges &p = mesh.by_position, &v = mesh.by_index;
    set_row(made, 0, adj_winding_point(bvh, p.count, mesh.vertices, p.ends, p.multiplicity, given, 0, given[3]));
    for (int e = 0; mesh.grad && e < v.count; ++e) {
        EdgeEnds g = adj_winding_edge(bvh, mesh.vertices, v.ends, v.multiplicity, e, given, 0, given[3]);
        add_to_vertex(mesh, v.ends[2 * e], g.a), add_to_vertex(mesh, v.ends[2 * e + 1], g.b);
    }
}

}  // namespace gk
