// The axis-aligned box of points.
#include "../../core/vec.h"

namespace gk {

// Row b of bounds becomes the box of the points in block b, of `count` in all.
template <class Point> GK_FN void set_bounds(real* bounds, int b, int block, int count, const Point& point) {
    Vec3 lower = {INFINITE, INFINITE, INFINITE}, upper = -lower;
    for (int i = b * block, end = min(i + block, count); i < end; ++i) {
        Vec3 p = point(i);
        lower = min(lower, p);
        upper = max(upper, p);
    }
    set_row(bounds, 2 * b, lower);
    set_row(bounds, 2 * b + 1, upper);
}

// Boxes of blocks of `block` points named by index, (n, 2, 3); the caller takes the box of the boxes.
GK_KERNEL indexed_bounds(int n, int block, int count, const real* points, const int* index, real* bounds) {
    GK_EACH(b, n) { set_bounds(bounds, b, block, count, [&](int i) { return row(points, index[i]); }); }
}

// The same for all points.
GK_KERNEL point_bounds_fwd(int n, int block, int count, const real* points, real* bounds) {
    GK_EACH(b, n) { set_bounds(bounds, b, block, count, [&](int i) { return row(points, i); }); }
}

// The gradient of each of the six bounds goes to the one point that attains it: at (2, 3) is the lowest such index.
GK_KERNEL point_bounds_adj(int n, const int* at, const real* adj_bounds, real* adj_points) {
    GK_EACH(i, n) {
        for (int k = 0; k < 6; ++k)
            if (at[k] == i) adj_points[3 * (uint64)i + k % 3] += adj_bounds[k];
    }
}

}  // namespace gk
