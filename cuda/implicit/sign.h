// The sign of the distance to a mesh, four ways.
#pragma once
#include "../spatial/closest_point.h"
#include "../spatial/crossings.h"
#include "../spatial/winding_number.h"

namespace gk {

enum Sign { UNSIGNED = 0, PSEUDONORMAL = 1, WINDING = 2, PARITY = 3 };

// What the pseudonormal sign reads (Baerentzen and Aanaes 2005): normals by feature.
struct Pseudonormals {
    const int* faces;            // (F, 3) with equal positions made one
    const real* face_normals;    // (F, 3)
    const real* edge_normals;    // (F, 3, 3): of the edge from corner k to corner k + 1, the sum of its two faces' normals
    const real* vertex_normals;  // weighted by the angle of each face
};

GK_FN Vec3 pseudonormal(const Pseudonormals& normals, int face, int feature) {
    if (feature == FACE) return row(normals.face_normals, face);
    if (feature <= EDGE_2) return row(normals.edge_normals, 3 * face + feature - EDGE_0);
    return row(normals.vertex_normals, normals.faces[3 * (uint64)face + feature - CORNER_0]);
}

// Accuracies of the winding number: a cluster is far beyond BETA times its radius, and then the expansion is wrong by less
// than ERROR. Measured on nine meshes near the surface: at most 0.10, 0.014 and 0.001.
constexpr int ACCURACIES = 3;
GK_FN double beta_of(int accuracy) { return accuracy == 0 ? 1.25 : accuracy == 1 ? 2.0 : 4.0; }
GK_FN double error_of(int accuracy) { return accuracy == 0 ? 0.2 : accuracy == 1 ? 0.03 : 0.0; }

// A point whose winding number is known to be more than `margin` from one half, and the empty ball around it.
struct Known {
    Vec3 p;
    real radius, margin;
    bool inside;
};

GK_FN Known nothing_known() { return {{0, 0, 0}, -1, 0, false}; }

// Whether the winding number at p exceeds one half, where the nearest surface is `radius` away.
//
// No surface lies in the ball around a known point, so in it the winding number only changes by what the mesh's boundary
// makes it: by at most its length / (4 pi distance^2) a unit of length (Biot and Savart), which is `boundary` / distance^2.
// Within that bound the known sign holds; for a closed mesh that is the whole ball. Else ever finer evaluations, until one
// is clear.
GK_FN bool wound(const Bvh& bvh, Vec3 p, real radius, real boundary, Known& known) {
    real moved = length(p - known.p), left = known.radius * real(1 - 1e-4) - moved;
    if (left > 0 && boundary * moved < known.margin * left * left) return known.inside;
    for (int accuracy = 0;; ++accuracy) {
        real beta = real(beta_of(accuracy)), error = real(error_of(accuracy));
        real over = winding_number_of(bvh, p, beta * beta) - real(0.5);
        if (abs(over) > error || accuracy == ACCURACIES - 1) {
            known = {p, radius, abs(over) - error, over > 0};
            return known.inside;
        }
    }
}

// Whether a point is inside, by a sign method, of whose nearest triangle the distance, the feature and the vector from the closest
// point are known.
GK_FN bool is_inside(const Bvh& bvh, const Pseudonormals& normals, const Query& query, real distance, int feature, Vec3 away,
                     int sign, int inverted, real boundary, Known& known) {
    // Far away all faces are equally near, to rounding, and the normal of the one found says nothing.
    if (sign == PSEUDONORMAL && outside_box(bvh, query.p)) return inverted;
    if (sign == PSEUDONORMAL) return dot(pseudonormal(normals, face_of(bvh, query), feature), away) < 0;
    if (sign == WINDING) return wound(bvh, query.p, distance, boundary, known);
    return sign == PARITY && odd_crossings(bvh, query.p);
}

// The cotangent of point i from that of its signed distance; the corners of its face get their weights of the opposite. The
// distance moves along the direction to the closest point, away from the surface or towards it by its sign; on the surface, along
// the pseudonormal, if there is one.
GK_FN Vec3 adj_signed_distance(const Bvh& bvh, const Pseudonormals& normals, const real* vertices, const int* faces,
                               const real* points, int i, int face, Vec3 weights, int feature, real distance, int sign,
                               real adj_distance) {
    Vec3 away = known_point(bvh, vertices, faces, points, i, face, weights, feature).at.away;
    if (dot(away, away) > 0) return (distance < 0 ? -adj_distance : adj_distance) * normalized(away);
    if (sign != UNSIGNED) return adj_distance * normalized(pseudonormal(normals, face, feature));
    return {0, 0, 0};
}

}  // namespace gk
