// The adjoint of a hit.
#pragma once
#include "../geometry/face.h"
#include "rays.h"

namespace gk {

// What goes back to a ray and to the corners of the face that it hits.
struct HitGradient {
    Vec3d origin, direction, corner[3];
};

// Cotangents of the hit at u and v; `unit` is a length of the order of the mesh's.
//
// With M = [e1 e2 -d], M (u, v, t) = o - a. For cotangents of (u, v, t), y = M^-T (adj_u, adj_v, adj_t) is that of o - a; the others
// follow from it. Where the ray grazes the face, 1 / det is bounded; where it lies in its plane, there is no gradient.
GK_FN HitGradient adj_hit(const Mesh& mesh, double unit, int face, Vec3 direction, real t, real at_u, real at_v, real adj_t, real adj_u,
                          real adj_v, Vec3 adj_normal, Vec3 adj_position) {
    // Lengths in units of the mesh's size and of the direction's: no product leaves the range of the numbers.
    const int* f = mesh.faces + 3 * (uint64)face;
    const double u = at_u, v = at_v;
    Vec3d d = to_double(direction), a = to_double(row(mesh.vertices, f[0]));
    double length_d = power_of_two(largest(d));
    d = {d.x / length_d, d.y / length_d, d.z / length_d};
    Vec3d e1 = (1 / unit) * (to_double(row(mesh.vertices, f[1])) - a), e2 = (1 / unit) * (to_double(row(mesh.vertices, f[2])) - a);
    Vec3d normal = cross(e1, e2);
    double det = -dot(normal, d), least = GRAZING * length(normal) * length(d);
    double inverse = det == 0 ? 0 : 1 / (abs(det) >= least ? det : det < 0 ? -least : least);

    // The position is o + t d.
    Vec3d adj_p = to_double(adj_position);
    double along = adj_t / length_d + dot(adj_p, d);
    Vec3d y = inverse * (adj_u / unit * cross(e2, -d) + adj_v / unit * cross(-d, e1) + along * normal);
    HitGradient g = {y + adj_p, double(t) * (y + adj_p), {(u + v - 1) * y, -u * y, -v * y}};

    Vec3d adj_n = to_double(adj_normal);
    if (adj_n.x != 0 || adj_n.y != 0 || adj_n.z != 0) {
        Face at = face_at(mesh.vertices, mesh.faces, face);
        Vec3d adj_across = adj_normal_of(at, adj_n);
        for (int k = 0; k < 3; ++k) g.corner[k] += (1 / at.unit) * adj_area_vector(at, adj_across, k);
    }
    return g;
}

}  // namespace gk
