// The hash grid: its build, and the neighbours of places.
#include "../../core/vec.h"
#include "../../spatial/hash_grid.h"

namespace gk {

GK_KERNEL hash_grid_cells(int n, HashGrid grid, const real* points, uint64* keys) {
    GK_EACH(i, n) {
        Vec3 p = row(points, i);
        keys[i] = (uint64)cell_number(grid, p.x, p.y, p.z);
    }
}

// The points in sorted order, and where each cell begins: point k is the first of all cells after that of the point before it.
GK_KERNEL hash_grid_sort(int n, int cells, const uint64* keys, const int* order, const real* points, int* start, real* sorted) {
    GK_EACH(k, n) {
        Vec3 p = row(points, order[k]);
        sorted[k] = p.x, sorted[n + (uint64)k] = p.y, sorted[2 * (uint64)n + k] = p.z;
        int cell = (int)keys[order[k]], before = k ? (int)keys[order[k - 1]] : -1;
        for (int c = before + 1; c <= cell; ++c) start[c] = k;
        if (k == n - 1)
            for (int c = cell + 1; c <= cells; ++c) start[c] = n;
    }
}

constexpr int BATCH = 64;  // candidates at a time

// Calls take(near, begin, end) for batches of candidates: near[k - begin] says whether sorted point k is a neighbour.
template <class Take> GK_FN void visit_batches(const HashGrid& grid, Vec3 p, double radius, const Take& take) {
    Ball ball = ball_at(grid, p.x, p.y, p.z, radius);
    const double x = p.x, y = p.y, z = p.z;
    for (int r = 0; r < ball.rows(); ++r) {
        Row candidates = row_of(grid, ball, r);
        for (int begin = candidates.begin; begin < candidates.end; begin += BATCH) {
            unsigned char near[BATCH];
            int end = min(begin + BATCH, candidates.end);
            for (int k = begin; k < end; ++k) near[k - begin] = is_near(grid, k, x, y, z, radius);
            take(near, begin, end);
        }
    }
}

GK_KERNEL count_neighbors_fwd(int n, HashGrid grid, const real* points, const int* order, double radius, int* count) {
    GK_EACH(i, n) {
        int total = 0;
        visit_batches(grid, row(points, order[i]), radius, [&](const unsigned char* near, int begin, int end) {
            for (int k = 0; k < end - begin; ++k) total += near[k];
        });
        count[order[i]] = total;
    }
}

// Writes the neighbours of point i from offset[i] on.
GK_KERNEL list_neighbors_fwd(int n, HashGrid grid, const real* points, const int* order, double radius, const uint64* offset,
                             int* indices) {
    GK_EACH(i, n) {
        int* out = indices + offset[order[i]];
        visit_batches(grid, row(points, order[i]), radius, [&](const unsigned char* near, int begin, int end) {
            // Write to the end of the list and move only the end that counts: no branch to mispredict.
            int found[BATCH + 1], count = 0;
            for (int k = begin; k < end; ++k) found[count] = grid.order[k], count += near[k - begin];
            for (int k = 0; k < count; ++k) out[k] = found[k];
            out += count;
        });
    }
}

}  // namespace gk
