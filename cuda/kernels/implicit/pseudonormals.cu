// Normals of edges for the sign of distance.
#include "../../core/vec.h"

namespace gk {

// The sum of the normals of the two faces at each edge, (F, 3, 3): edge k runs from corner k to corner k + 1. twin holds the
// opposite half-edge 3 face + edge, or -1 where there is not just one: then it is the one face's normal.
GK_KERNEL edge_pseudonormals(int n, const real* face_normals, const int* twin, real* edge_normals) {
    GK_EACH(f, n) {
        Vec3 own = row(face_normals, f);
        for (int e = 3 * f; e < 3 * f + 3; ++e) set_row(edge_normals, e, twin[e] >= 0 ? own + row(face_normals, twin[e] / 3) : own);
    }
}

}  // namespace gk
