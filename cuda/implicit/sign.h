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

}  // namespace gk
