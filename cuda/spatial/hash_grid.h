// A grid of cells over points, for all points within a radius of a place.
//
// Points are sorted by their cell, those of a cell by their index. Cells are numbered z fastest, so what a query looks at is a
// few ranges of the sorted points: rows. A grid that would have many more cells than points is folded: along a folded axis cell
// c is kept at c modulo `size`, and the distance tells apart what shares a place.
#pragma once
#include "../core/math.h"

namespace gk {

struct HashGrid {
    const int* start;  // (size[0] size[1] size[2] + 1,) the first sorted point of each kept cell
    const int* order;  // (N,) index of each sorted point
    const real* x;     // (N,) the sorted points
    const real* y;
    const real* z;
    double lower[3];   // corner of cell 0
    double inverse;    // cells a unit of length
    double radius;     // that the cells were made for: the length of their sides
    int extent[3];     // cells along each axis
    int size[3];       // of them, those kept
};

constexpr double MOST_CELLS = 1 << 30;  // along an axis: points beyond share the last one

// The cell of a coordinate, and the first or last one of an interval, which may have none.
GK_FN int cell_along(const HashGrid& grid, int axis, double p) {
    double c = floor((p - grid.lower[axis]) * grid.inverse);
    return int(max(min(c, double(grid.extent[axis] - 1)), 0.0));
}
GK_FN int kept_at(const HashGrid& grid, int axis, int cell) {
    return grid.size[axis] == grid.extent[axis] ? cell : int(uint(cell) % uint(grid.size[axis]));
}
GK_FN int cell_number(const HashGrid& grid, double x, double y, double z) {
    int i = kept_at(grid, 0, cell_along(grid, 0, x)), j = kept_at(grid, 1, cell_along(grid, 1, y));
    return (i * grid.size[1] + j) * grid.size[2] + kept_at(grid, 2, cell_along(grid, 2, z));
}

// The kept cells that a ball meets along an axis: `count` of them from `first` on, going round at the end.
struct Span {
    int first, count;
};
GK_FN Span span_of(const HashGrid& grid, int axis, double p, double radius) {
    // Wider than what rounding moves a point or the bound.
    double reach = radius * (1 + 1e-6), from = (p - reach - grid.lower[axis]) * grid.inverse - 1e-6;
    double to = (p + reach - grid.lower[axis]) * grid.inverse + 1e-6, last = grid.extent[axis] - 1;
    if (!(to >= 0 && from <= to)) return {0, 0};
    int low = int(min(max(floor(from), 0.0), last)), high = int(min(floor(to), last));
    return {kept_at(grid, axis, low), min(high - low + 1, grid.size[axis])};
}

// The rows of a ball, and the sorted points [begin, end) of one. Two rows for each pair of cells on x and y: up to the last
// cell on z, and from the first one again.
struct Ball {
    Span x, y, z;
    GK_FN int rows() const { return z.count ? 2 * x.count * y.count : 0; }
};
GK_FN Ball ball_at(const HashGrid& grid, double x, double y, double z, double radius) {
    return {span_of(grid, 0, x, radius), span_of(grid, 1, y, radius), span_of(grid, 2, z, radius)};
}
struct Row {
    int begin, end;
};
GK_FN Row row_of(const HashGrid& grid, const Ball& ball, int row) {
    int pair = row >> 1, i = ball.x.first + pair / ball.y.count, j = ball.y.first + pair % ball.y.count;
    if (i >= grid.size[0]) i -= grid.size[0];
    if (j >= grid.size[1]) j -= grid.size[1];
    int base = (i * grid.size[1] + j) * grid.size[2], end = ball.z.first + ball.z.count, over = max(end - grid.size[2], 0);
    if (row & 1) return {grid.start[base], grid.start[base + over]};
    return {grid.start[base + ball.z.first], grid.start[base + end - over]};
}

// Whether sorted point k is within the radius of a place. In double: the square of a difference of floats is exact.
GK_FN bool is_near(const HashGrid& grid, int k, double x, double y, double z, double radius) {
    double dx = grid.x[k] - x, dy = grid.y[k] - y, dz = grid.z[k] - z;
    return dx * dx + dy * dy + dz * dz <= radius * radius;
}

}  // namespace gk
