// From the corners of faces to the vertices that stand there.
#include "../../core/vec.h"

namespace gk {

// Sums the cotangents of the corners at each vertex, in the order of the faces: corners[offset[v] .. offset[v + 1]) are the
// places 3 face + corner where vertex v stands.
GK_KERNEL sum_corners(int n, const int* offset, const int* corners, const double* adj_corners, real* adj_vertices) {
    GK_EACH(v, n) {
        Vec3d total = {0, 0, 0};
        for (int j = offset[v]; j < offset[v + 1]; ++j) {
            const double* c = adj_corners + 3 * (uint64)corners[j];
            total += Vec3d{c[0], c[1], c[2]};
        }
        set_row(adj_vertices, v, to_real(total));
    }
}

}  // namespace gk
