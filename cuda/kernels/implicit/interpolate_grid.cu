// Value and gradient of a sampled field between its samples, and their adjoint.
#include "../../implicit/interpolate.h"

namespace gk {

template <int TAPS> GK_FN void interpolate_point(const Samples& s, const double* points, int i, real* value, real* gradient) {
    Jet jet = interpolate<TAPS, false>(s, stencil_at<TAPS>(s, points, i));
    value[i] = jet.value;
    set_row(gradient, i, jet.gradient);
}

GK_KERNEL interpolate_grid_fwd(int n, const real* values, int nx, int ny, int nz, double sx, double sy, double sz, double ox,
                               double oy, double oz, int taps, const double* points, real* value, real* gradient) {
    Samples s = {values, nx, ny, nz, sx, sy, sz, ox, oy, oz};
    GK_EACH(i, n) {
        if (taps == 2) interpolate_point<2>(s, points, i, value, gradient);
        else interpolate_point<4>(s, points, i, value, gradient);
    }
}

template <int TAPS> GK_FN void adj_interpolate_point(const Samples& s, const double* points, int i, real adj_value, Vec3 g, real* adj_points) {
    set_row(adj_points, i, adj_interpolate(s, stencil_at<TAPS>(s, points, i), adj_value, g));
}

// The cotangents of the points.
GK_KERNEL interpolate_grid_points_adj(int n, const real* values, int nx, int ny, int nz, double sx, double sy, double sz,
                                      double ox, double oy, double oz, int taps, const double* points, const real* adj_value,
                                      const real* adj_gradient, real* adj_points) {
    Samples s = {values, nx, ny, nz, sx, sy, sz, ox, oy, oz};
    GK_EACH(i, n) {
        if (taps == 2) adj_interpolate_point<2>(s, points, i, adj_value[i], row(adj_gradient, i), adj_points);
        else adj_interpolate_point<4>(s, points, i, adj_value[i], row(adj_gradient, i), adj_points);
    }
}

template <int TAPS> GK_FN uint64 cell_key(const Samples& s, const double* points, int i) {
    Stencil<TAPS> t = stencil_at<TAPS>(s, points, i);
    uint64 kind = (t.x.cell % TAPS * TAPS + t.y.cell % TAPS) * TAPS + t.z.cell % TAPS;
    return (kind * s.nx + t.x.cell) * s.ny * s.nz + (uint64)t.y.cell * s.nz + t.z.cell;
}

// Numbers of the points' cells, first by kind: cells of one kind share no samples.
GK_KERNEL interpolation_cells(int n, int nx, int ny, int nz, double sx, double sy, double sz, double ox, double oy, double oz,
                              int taps, const double* points, uint64* keys) {
    Samples s = {nullptr, nx, ny, nz, sx, sy, sz, ox, oy, oz};
    GK_EACH(i, n) keys[i] = taps == 2 ? cell_key<2>(s, points, i) : cell_key<4>(s, points, i);
}

// Sums the points [begin, end) of the order, all of one cell, and adds the sums to the samples around it.
template <int TAPS>
GK_FN void add_cell(const Samples& s, const double* points, const int* order, int begin, int end, const real* adj_value,
                    const real* adj_gradient, real* adj_values) {
    double sums[TAPS * TAPS * TAPS] = {};
    for (int at = begin; at < end; ++at) {
        int p = order[at];
        add_taps(stencil_at<TAPS>(s, points, p), adj_value[p], row(adj_gradient, p), sums);
    }
    Stencil<TAPS> t = stencil_at<TAPS>(s, points, order[begin]);
    for (int i = 0; i < TAPS; ++i)
        for (int j = 0; j < TAPS; ++j)
            for (int k = 0; k < TAPS; ++k) adj_values[tap_place(s, t, i, j, k)] += real(sums[(i * TAPS + j) * TAPS + k]);
}

// The cotangents of the samples: each item is a cell of one kind, start[first + i] its first point in the order.
GK_KERNEL interpolate_grid_values_adj(int n, int first, int nx, int ny, int nz, double sx, double sy, double sz, double ox,
                                      double oy, double oz, int taps, const double* points, const int* order, const int* start,
                                      const real* adj_value, const real* adj_gradient, real* adj_values) {
    Samples s = {nullptr, nx, ny, nz, sx, sy, sz, ox, oy, oz};
    GK_EACH(i, n) {
        int begin = start[first + i], end = start[first + i + 1];
        if (taps == 2) add_cell<2>(s, points, order, begin, end, adj_value, adj_gradient, adj_values);
        else add_cell<4>(s, points, order, begin, end, adj_value, adj_gradient, adj_values);
    }
}

}  // namespace gk
