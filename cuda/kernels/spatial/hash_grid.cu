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

// Which of the sorted points [begin, end) are near: near[k - begin]. In single precision first, twice as many at a time; only
// where that leaves a doubt, which is rare, all of the batch again in double.
GK_FN void find_near(const HashGrid& grid, int begin, int end, Vec3 p, double radius, int* near) {
    const real square = real(radius * radius), least = square * real(1 - 1e-6), most = square * real(1 + 1e-6);
    const real *x = grid.x + begin, *y = grid.y + begin, *z = grid.z + begin;
    int doubtful = 0;
    for (int k = 0; k < end - begin; ++k) {
        real dx = x[k] - p.x, dy = y[k] - p.y, dz = z[k] - p.z, d = dx * dx + dy * dy + dz * dz;
        near[k] = d <= square;
        doubtful |= (d >= least) & (d <= most);
    }
    // (Squares below the range of float lose digits.)
    if (doubtful | (square < (IS_FLOAT ? real(1e-30) : real(1e-280))))
        for (int k = 0; k < end - begin; ++k) near[k] = is_near(grid, begin + k, p.x, p.y, p.z, radius);
}

// Calls take(near, begin, end) for batches of candidates.
template <class Take> GK_FN void visit_batches(const HashGrid& grid, Vec3 p, double radius, const Take& take) {
    Ball ball = ball_at(grid, p.x, p.y, p.z, radius);
    for (int r = 0; r < ball.rows(); ++r) {
        Row candidates = row_of(grid, ball, r);
        for (int begin = candidates.begin; begin < candidates.end; begin += BATCH) {
            int near[BATCH], end = min(begin + BATCH, candidates.end);
            find_near(grid, begin, end, p, radius, near);
            take(near, begin, end);
        }
    }
}

GK_KERNEL count_neighbors_fwd(int n, HashGrid grid, const real* points, const int* order, double radius, int* count) {
    GK_EACH(i, n) {
        int total = 0;
        visit_batches(grid, row(points, order[i]), radius, [&](const int* near, int begin, int end) {
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
        visit_batches(grid, row(points, order[i]), radius, [&](const int* near, int begin, int end) {
            // Write to the end of the list and move only the end that counts: no branch to mispredict.
            int found[BATCH + 1], count = 0;
            for (int k = begin; k < end; ++k) found[count] = grid.order[k], count += near[k - begin];
            for (int k = 0; k < count; ++k) out[k] = found[k];
            out += count;
        });
    }
}

}  // namespace gk
