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

// A winding number that was evaluated, and the empty ball around its point.
struct Known {
    Vec3 p;
    real radius, winding;
};

// The expansion is wrong by less than this, by measure, for children beyond COARSE and for the default beta of 2.
constexpr double COARSE = 1.25, COARSE_ERROR = 0.2, FINE_ERROR = 0.01;

// Whether the winding number at p exceeds one half.
//
// No surface lies in the ball around a known point, so in it the winding number only changes by what the mesh's boundary,
// of length 4 pi times `boundary`, makes it: at most boundary / distance^2 a unit of length. Within that bound the known
// sign holds; for a closed mesh that is the whole ball. Else a coarse evaluation, if it is clear, or a fine one.
GK_FN bool wound(const Bvh& bvh, Vec3 p, real radius, real beta2, real boundary, Known& known) {
    real moved = length(p - known.p), left = known.radius - moved;
    if (left > 0 && boundary * moved < (abs(known.winding - real(0.5)) - real(FINE_ERROR)) * left * left) return known.winding > real(0.5);
    real w = winding_number_of(bvh, p, real(COARSE * COARSE));
    bool clear = abs(w - real(0.5)) > real(COARSE_ERROR);
    if (!clear) w = winding_number_of(bvh, p, beta2);
    // What is left of a coarse value's margin is what may be relied on.
    known = {p, radius, clear ? w - (w > real(0.5) ? real(COARSE_ERROR) : real(-COARSE_ERROR)) : w};
    return w > real(0.5);
}

}  // namespace gk
