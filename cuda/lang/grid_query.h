// Samples of a grid between its points, as kernels of one's own read them, and the adjoint.
#pragma once
#include "../implicit/interpolate.h"
#include "kernel.h"

namespace gk {

// A grid as kernels take it, by value.
struct GridHandle {
    const real* values;  // (nx, ny, nz)
    double* grad;        // of the same shape, or null where nobody asks for it
    int nx, ny, nz;
    double sx, sy, sz, ox, oy, oz;
};

GK_FN Samples samples_of(const GridHandle& g) { return {g.values, g.nx, g.ny, g.nz, g.sx, g.sy, g.sz, g.ox, g.oy, g.oz}; }

// A place that is not finite has no value: NaN.
template <int TAPS>
GK_FN void sample_grid(const GridHandle& grid, real x, real y, real z, real& value, real& gx, real& gy, real& gz) {
    if (!(x - x + (y - y) + (z - z) == 0)) {
        value = gx = gy = gz = real(infinity() - infinity());
        return;
    }
    const double p[3] = {x, y, z};
    Samples s = samples_of(grid);
    Jet jet = interpolate<TAPS, false>(s, stencil_at<TAPS>(s, p, 0));
    value = jet.value, gx = jet.gradient.x, gy = jet.gradient.y, gz = jet.gradient.z;
}

template <int TAPS>
GK_FN void adj_sample_grid(const GridHandle& grid, real x, real y, real z, real adj_value, Vec3 adj_gradient, real& adj_x,
                           real& adj_y, real& adj_z) {
    adj_x = adj_y = adj_z = 0;
    if (!(x - x + (y - y) + (z - z) == 0)) return;
    const double p[3] = {x, y, z};
    Samples s = samples_of(grid);
    Stencil<TAPS> t = stencil_at<TAPS>(s, p, 0);
    Vec3 g = adj_interpolate(s, t, adj_value, adj_gradient);
    adj_x = g.x, adj_y = g.y, adj_z = g.z;
    if (!grid.grad) return;
    double sums[TAPS * TAPS * TAPS] = {};
    add_taps(t, adj_value, adj_gradient, sums);
    for (int i = 0; i < TAPS; ++i)
        for (int j = 0; j < TAPS; ++j)
            for (int k = 0; k < TAPS; ++k) atomic_add(grid.grad + tap_place(s, t, i, j, k), sums[(i * TAPS + j) * TAPS + k]);
}

GK_FN void grid_sample(const GridHandle& grid, real x, real y, real z, real& value, real& gx, real& gy, real& gz) {
    sample_grid<2>(grid, x, y, z, value, gx, gy, gz);
}
GK_FN void adj_grid_sample(const GridHandle& grid, real x, real y, real z, real, real, real, real, real adj_value, real adj_gx,
                           real adj_gy, real adj_gz, real& adj_x, real& adj_y, real& adj_z) {
    adj_sample_grid<2>(grid, x, y, z, adj_value, {adj_gx, adj_gy, adj_gz}, adj_x, adj_y, adj_z);
}
GK_FN void grid_sample_cubic(const GridHandle& grid, real x, real y, real z, real& value, real& gx, real& gy, real& gz) {
    sample_grid<4>(grid, x, y, z, value, gx, gy, gz);
}
GK_FN void adj_grid_sample_cubic(const GridHandle& grid, real x, real y, real z, real, real, real, real, real adj_value,
                                 real adj_gx, real adj_gy, real adj_gz, real& adj_x, real& adj_y, real& adj_z) {
    adj_sample_grid<4>(grid, x, y, z, adj_value, {adj_gx, adj_gy, adj_gz}, adj_x, adj_y, adj_z);
}

}  // namespace gk
