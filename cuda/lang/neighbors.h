// The neighbours of a place in a hash grid, as loops of kernels take them: rows of candidates, and a test of each.
#pragma once
#include "../spatial/hash_grid.h"

namespace gk {

// The ball about a place: how many rows it has, and what tells them apart. A place that is not finite has none, nor has a radius
// that is not positive.
GK_FN void neighbor_ball(const HashGrid& grid, real x, real y, real z, real radius, int& rows, int& x_first, int& x_count,
                         int& y_first, int& y_count, int& z_first, int& z_count) {
    Ball ball = ball_at(grid, x, y, z, radius);
    rows = radius > 0 ? ball.rows() : 0;
    x_first = ball.x.first, x_count = ball.x.count, y_first = ball.y.first, y_count = ball.y.count;
    z_first = ball.z.first, z_count = ball.z.count;
}

// The candidates of a row: the sorted points [begin, end).
GK_FN void neighbor_row(const HashGrid& grid, int row, int x_first, int x_count, int y_first, int y_count, int z_first,
                        int z_count, int& begin, int& end) {
    Row candidates = row_of(grid, {{x_first, x_count}, {y_first, y_count}, {z_first, z_count}}, row);
    begin = candidates.begin, end = candidates.end;
}

// Whether a candidate is within the radius. In the build's precision first; where that leaves a doubt, exactly.
GK_FN void neighbor_test(const HashGrid& grid, int k, real x, real y, real z, real radius, bool& near) {
    const real square = radius * radius, least = square * real(1 - 1e-6), most = square * real(1 + 1e-6);
    real dx = grid.x[k] - x, dy = grid.y[k] - y, dz = grid.z[k] - z, d = dx * dx + dy * dy + dz * dz;
    near = d < least;
    // (Squares below the range of float lose digits.)
    if (!(near | (d > most)) | (square < (IS_FLOAT ? real(1e-30) : real(1e-280)))) near = is_near(grid, k, x, y, z, radius);
}

// The index of a candidate among the grid's points.
GK_FN void neighbor_index(const HashGrid& grid, int k, int& index) { index = grid.order[k]; }

}  // namespace gk
