// Interpolation between the samples of a regular grid, by two samples an axis (linear) or four (cubic convolution with
// a = -1/2, Keys 1981: it goes through the samples and its first derivatives are continuous).
#pragma once
#include "../core/vec.h"

namespace gk {

struct Samples {
    const real* values;
    int nx, ny, nz;
    double sx, sy, sz, ox, oy, oz;
};

// Weights of TAPS samples from `first` on, and their first and second derivatives in world units.
template <int TAPS> struct Taps {
    int first, cell;
    real w[TAPS], d[TAPS], dd[TAPS];
};

// Outside the grid the nearest point of its box counts, so nothing changes along that axis. Beyond the border cubic
// interpolation takes samples that continue the last two in a line: their weights go to those two.
template <int TAPS> GK_FN Taps<TAPS> taps_at(double place, double spacing, double origin, int n) {
    Taps<TAPS> r;
    double u = (place - origin) / spacing, inside = clamp(u, 0.0, double(n - 1));
    r.cell = clamp(int(inside), 0, max(n - 2, 0));
    real t = real(inside - r.cell), h = real(1 / spacing), slope = u == inside && n > 1 ? h : real(0);
    if constexpr (TAPS == 2) {
        r.first = r.cell;
        r.w[0] = 1 - t, r.w[1] = t;
        r.d[0] = -1, r.d[1] = 1;
        r.dd[0] = r.dd[1] = 0;
    } else {
        r.first = r.cell - 1;
        r.w[0] = t * (real(-0.5) + t * (1 - real(0.5) * t)), r.w[3] = t * t * (real(-0.5) + real(0.5) * t);
        r.w[1] = 1 + t * t * (real(-2.5) + real(1.5) * t), r.w[2] = t * (real(0.5) + t * (2 - real(1.5) * t));
        r.d[0] = real(-0.5) + t * (2 - real(1.5) * t), r.d[3] = t * (real(-1) + real(1.5) * t);
        r.d[1] = t * (real(-5) + real(4.5) * t), r.d[2] = real(0.5) + t * (4 - real(4.5) * t);
        r.dd[0] = 2 - 3 * t, r.dd[1] = real(-5) + 9 * t, r.dd[2] = 4 - 9 * t, r.dd[3] = real(-1) + 3 * t;
        real* all[3] = {r.w, r.d, r.dd};
        for (real* a : all) {
            if (r.cell == 0) a[1] += 2 * a[0], a[2] -= a[0], a[0] = 0;
            if (r.cell >= n - 2) a[2] += 2 * a[3], a[1] -= a[3], a[3] = 0;
        }
    }
    for (int i = 0; i < TAPS; ++i) r.d[i] *= slope, r.dd[i] *= slope * slope;
    return r;
}

template <int TAPS> struct Stencil {
    Taps<TAPS> x, y, z;
};
template <int TAPS> GK_FN Stencil<TAPS> stencil_at(const Samples& s, const double* points, int i) {
    const double* p = points + 3 * (uint64)i;
    return {taps_at<TAPS>(p[0], s.sx, s.ox, s.nx), taps_at<TAPS>(p[1], s.sy, s.oy, s.ny), taps_at<TAPS>(p[2], s.sz, s.oz, s.nz)};
}
// Where tap (i, j, k) is; taps without weight may lie outside and read the border instead.
template <int TAPS> GK_FN uint64 tap_place(const Samples& s, const Stencil<TAPS>& t, int i, int j, int k) {
    int x = clamp(t.x.first + i, 0, s.nx - 1), y = clamp(t.y.first + j, 0, s.ny - 1), z = clamp(t.z.first + k, 0, s.nz - 1);
    return ((uint64)x * s.ny + y) * s.nz + z;
}

// Value, gradient, and second derivatives xx, yy, zz, xy, xz, yz.
struct Jet {
    real value;
    Vec3 gradient;
    Vec3 straight, mixed;
};
template <int TAPS, bool SECOND> GK_FN Jet interpolate(const Samples& s, const Stencil<TAPS>& t) {
    Jet r = {};
    for (int i = 0; i < TAPS; ++i) {
        real w = 0, y = 0, z = 0, yy = 0, zz = 0, yz = 0;
        for (int j = 0; j < TAPS; ++j) {
            real line = 0, dline = 0, ddline = 0;
            for (int k = 0; k < TAPS; ++k) {
                real v = s.values[tap_place(s, t, i, j, k)];
                line += t.z.w[k] * v;
                dline += t.z.d[k] * v;
                if constexpr (SECOND) ddline += t.z.dd[k] * v;
            }
            w += t.y.w[j] * line, y += t.y.d[j] * line, z += t.y.w[j] * dline;
            if constexpr (SECOND) yy += t.y.dd[j] * line, zz += t.y.w[j] * ddline, yz += t.y.d[j] * dline;
        }
        r.value += t.x.w[i] * w;
        r.gradient += Vec3{t.x.d[i] * w, t.x.w[i] * y, t.x.w[i] * z};
        if constexpr (SECOND) {
            r.straight += Vec3{t.x.dd[i] * w, t.x.w[i] * yy, t.x.w[i] * zz};
            r.mixed += Vec3{t.x.d[i] * y, t.x.d[i] * z, t.x.w[i] * yz};
        }
    }
    return r;
}

// The cotangent of the point from those of the value and of the gradient.
template <int TAPS> GK_FN Vec3 adj_interpolate(const Samples& s, const Stencil<TAPS>& t, real adj_value, Vec3 g) {
    Jet jet = interpolate<TAPS, true>(s, t);
    Vec3 turn = {jet.straight.x * g.x + jet.mixed.x * g.y + jet.mixed.y * g.z,
                 jet.mixed.x * g.x + jet.straight.y * g.y + jet.mixed.z * g.z,
                 jet.mixed.y * g.x + jet.mixed.z * g.y + jet.straight.z * g.z};
    return adj_value * jet.gradient + turn;
}

// Adds those of the samples to their sums.
template <int TAPS> GK_FN void add_taps(const Stencil<TAPS>& t, real a, Vec3 g, double* sums) {
    for (int i = 0; i < TAPS; ++i)
        for (int j = 0; j < TAPS; ++j) {
            real w = t.x.w[i] * t.y.w[j], flat = a * w + g.x * t.x.d[i] * t.y.w[j] + g.y * t.x.w[i] * t.y.d[j];
            for (int k = 0; k < TAPS; ++k) sums[(i * TAPS + j) * TAPS + k] += flat * t.z.w[k] + g.z * w * t.z.d[k];
        }
}

}  // namespace gk
