// The axis-aligned box of points.
#include "../../core/vec.h"

namespace gk {

// Boxes of blocks of `block` points, (n, 2, 3); the caller takes the box of the boxes.
GK_KERNEL point_bounds_fwd(int n, int block, int count, const real* points, real* bounds) {
    GK_EACH(b, n) {
        Vec3 lower = {INFINITE, INFINITE, INFINITE}, upper = -lower;
        int begin = b * block, end = min(begin + block, count);
        for (int i = begin; i < end; ++i) {
            Vec3 p = row(points, i);
            lower = min(lower, p);
            upper = max(upper, p);
        }
        set_row(bounds, 2 * b, lower);
        set_row(bounds, 2 * b + 1, upper);
    }
}

// The gradient of each of the six bounds goes to the one point that attains it: at (2, 3) is the lowest such index.
GK_KERNEL point_bounds_adj(int n, const int* at, const real* adj_bounds, real* adj_points) {
    GK_EACH(i, n) {
        for (int k = 0; k < 6; ++k)
            if (at[k] == i) adj_points[3 * (uint64)i + k % 3] += adj_bounds[k];
    }
}

}  // namespace gk
