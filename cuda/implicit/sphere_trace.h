// Where a ray first meets the zero of the trilinear interpolant of a grid, and where it comes closest before that.
//
// Near the zero the ray is followed from cell to cell, and within a cell the interpolant is a cubic of the ray's parameter
// whose roots and minima are found to rounding: nothing is stepped over, whatever the field. Away from it the ray jumps as
// far as the field cannot change sign, given a bound of its slope.
#pragma once
#include "interpolate.h"

namespace gk {

struct Trace {
    double t;        // of the first change of sign; infinite if there is none
    double nearest;  // t of the least local minimum of |field| before it that is below the band; infinite if there is none
    double value;    // the field there
    int cell[3];     // that of the hit
    int low[3];      // that of the nearest point
    int kink;        // the axis across whose face the field has that minimum; -1 within a cell
};

// A cubic on [0, 1].
struct Cubic {
    double a, b, c, d;
    GK_FN double at(double s) const { return a + s * (b + s * (c + s * d)); }
    GK_FN double slope(double s) const { return b + s * (2 * c + s * 3 * d); }
};

// The interpolant along the segment from p to q, both within [0, 1]^3 of a cell, by its four Bezier values: the trilinear
// form takes the coordinates of either end. f holds the cell's corners, x slowest.
struct Bezier {
    double v[4];
};
GK_FN double lerp(double t, double a, double b) { return (1 - t) * a + t * b; }
GK_FN Bezier along(const double* f, const double* p, const double* q) {
    double sum[4] = {0, 0, 0, 0};
    for (int k = 0; k < 2; ++k) {
        double z = k ? q[2] : p[2], line[4];
        for (int i = 0; i < 4; ++i) line[i] = lerp(z, f[2 * i], f[2 * i + 1]);
        for (int j = 0; j < 2; ++j) {
            double y = j ? q[1] : p[1], low = lerp(y, line[0], line[1]), high = lerp(y, line[2], line[3]);
            sum[j + k] += lerp(p[0], low, high);
            sum[j + k + 1] += lerp(q[0], low, high);
        }
    }
    return {{sum[0], sum[1] / 3, sum[2] / 3, sum[3]}};
}
GK_FN Cubic cubic_of(const Bezier& z) {
    const double* v = z.v;
    return {v[0], 3 * (v[1] - v[0]), 3 * (v[0] - 2 * v[1] + v[2]), v[3] - v[0] + 3 * (v[1] - v[2])};
}

// Where the slope is zero within (0, 1), in order; returns how many.
GK_FN int turning_points(const Cubic& f, double* out) {
    double a = 3 * f.d, b = f.c, c = f.b, disc = b * b - a * c;
    if (!(disc > 0)) return 0;
    double q = -(b + (b < 0 ? -sqrt(disc) : sqrt(disc)));
    double r[2] = {a != 0 ? q / a : -1.0, q != 0 ? c / q : -1.0};
    if (r[0] > r[1]) {
        double swap = r[0];
        r[0] = r[1], r[1] = swap;
    }
    int n = 0;
    for (int i = 0; i < 2; ++i)
        if (r[i] > 0 && r[i] < 1) out[n++] = r[i];
    return n;
}

// The root in [lo, hi], where the cubic is monotone and changes sign: Newton's steps, and bisection where they leave it.
GK_FN double root_between(const Cubic& f, double lo, double hi) {
    bool rising = f.at(hi) >= f.at(lo);
    double s = 0.5 * (lo + hi);
    for (int i = 0; i < 60 && hi - lo > 4e-16; ++i) {
        double v = f.at(s), slope = f.slope(s);
        if ((v >= 0) == rising) hi = s;
        else lo = s;
        double next = slope != 0 ? s - v / slope : lo;
        if (!(next > lo && next < hi)) next = 0.5 * (lo + hi);
        if (abs(next - s) <= 1e-16) break;
        s = next;
    }
    return s;
}

// A ray in units of the grid, and the part of it in the grid's box.
struct GridRay {
    double o[3], d[3], inverse[3], first, last;
};
GK_FN GridRay grid_ray(const Samples& s, Vec3d origin, Vec3d direction, double t_min, double t_max) {
    GridRay r = {{(origin.x - s.ox) / s.sx, (origin.y - s.oy) / s.sy, (origin.z - s.oz) / s.sz},
                 {direction.x / s.sx, direction.y / s.sy, direction.z / s.sz}, {0, 0, 0}, t_min, t_max};
    int n[3] = {s.nx, s.ny, s.nz};
    for (int a = 0; a < 3; ++a) {
        double far = n[a] - 1;
        if (r.d[a] == 0) {
            if (!(r.o[a] >= 0 && r.o[a] <= far)) r.last = -infinity();
            continue;
        }
        r.inverse[a] = 1 / r.d[a];
        double low = (0 - r.o[a]) * r.inverse[a], high = (far - r.o[a]) * r.inverse[a];
        if (r.d[a] < 0) {
            double swap = low;
            low = high, high = swap;
        }
        r.first = max(r.first, low);
        r.last = min(r.last, high);
    }
    return r;
}

struct CellWalk {
    const Samples& s;
    const GridRay& r;
    int n[3], cell[3];

    GK_FN double place(int a, double t) const { return clamp(r.o[a] + t * r.d[a], 0.0, double(n[a] - 1)); }
    GK_FN void find(double t) {
        for (int a = 0; a < 3; ++a) cell[a] = clamp(int(place(a, t)), 0, n[a] - 2);
    }
    // When the ray leaves the cell, and by which axis.
    GK_FN double exit(int& axis) const {
        double out = infinity();
        axis = -1;
        for (int a = 0; a < 3; ++a) {
            if (r.d[a] == 0) continue;
            double t = (cell[a] + (r.d[a] > 0) - r.o[a]) * r.inverse[a];
            if (t < out) out = t, axis = a;
        }
        return out;
    }
    GK_FN void corners(double* f) const {
        const real* v = s.values + ((uint64)cell[0] * s.ny + cell[1]) * s.nz + cell[2];
        for (int c = 0; c < 8; ++c) f[c] = v[((uint64)(c >> 2) * s.ny + (c >> 1 & 1)) * s.nz + (c & 1)];
    }
    GK_FN void within(double t, double* p) const {
        for (int a = 0; a < 3; ++a) p[a] = clamp(place(a, t) - cell[a], 0.0, 1.0);
    }
    GK_FN bool step(int axis) {
        cell[axis] += r.d[axis] > 0 ? 1 : -1;
        return cell[axis] >= 0 && cell[axis] <= n[axis] - 2;
    }
};

// slope: a bound of the field's, infinite for none; band: what |field| at the nearest point has to be below.
GK_FN Trace trace_ray(const Samples& s, const GridRay& r, double speed, double slope, double band) {
    Trace out = {infinity(), infinity(), 0, {0, 0, 0}, {0, 0, 0}, -1};
    if (!(r.first <= r.last) || min(min(s.nx, s.ny), s.nz) < 2) return out;
    CellWalk w = {s, r, {s.nx, s.ny, s.nz}, {0, 0, 0}};
    double t = r.first, reach = 0.99 / (slope * speed), best = band;
    double back = t, careful = -infinity();
    bool known = false, inside = false, falling = false, jumped = false;
    int crossed = -1;
    w.find(t);
    while (true) {
        int axis;
        double leaves = w.exit(axis), until = min(leaves, r.last);
        double f[8], p[3], q[3];
        w.corners(f);
        w.within(t, p);
        double now = lerp(p[0], lerp(p[1], lerp(p[2], f[0], f[1]), lerp(p[2], f[2], f[3])),
                          lerp(p[1], lerp(p[2], f[4], f[5]), lerp(p[2], f[6], f[7])));
        // A jump over a change of sign: the slope is steeper than its bound. The way is gone again cell by cell.
        if (jumped && (now < 0) != inside) {
            careful = t, t = back, jumped = false;
            w.find(t);
            continue;
        }
        // How far nothing can happen: the field keeps its sign, and stays above what counts as close.
        double free = (abs(now) - best) * reach;
        if (known && free > 0 && t + free > until && t >= careful) {
            back = t, t += free, jumped = true, falling = false;
            if (!(t <= r.last)) return out;
            w.find(t);
            continue;
        }
        jumped = false;
        until = max(until, t);
        // The interpolant lies between the corners. (Not so if one is not a number: then this is false.)
        bool idle = known && (now < 0) == inside;
        for (int c = 0; c < 8; ++c) idle = idle && (inside ? -f[c] : f[c]) >= best && f[c] != 0;
        Bezier z;
        double sum = 0;
        if (!idle) {
            w.within(until, q);
            z = along(f, p, q);
            sum = z.v[0] + z.v[1] + z.v[2] + z.v[3];
        }
        if (idle) {
            falling = false;
        } else if (sum - sum == 0) {
            if (!known) inside = z.v[0] < 0, known = true;
            double length = until - t;
            // The cell before ended on the other side by a rounding.
            if ((z.v[0] < 0) != inside) {
                out.t = t;
                for (int a = 0; a < 3; ++a) out.cell[a] = w.cell[a];
                return out;
            }
            double least = min(min(abs(z.v[0]), abs(z.v[1])), min(abs(z.v[2]), abs(z.v[3])));
            bool changes = (z.v[1] < 0) != inside || (z.v[2] < 0) != inside || (z.v[3] < 0) != inside;
            Cubic c = cubic_of(z);
            double sign = inside ? -1 : 1, starts = sign * c.b, ends = sign * c.slope(1);
            if (changes || least < best) {
                double turn[4] = {0, 0, 0, 0};
                int m = turning_points(c, turn + 1) + 1;
                turn[m] = 1;
                if (falling && starts > 0 && abs(z.v[0]) < best) {
                    best = abs(z.v[0]), out.nearest = t, out.value = z.v[0], out.kink = crossed;
                    for (int a = 0; a < 3; ++a) out.low[a] = w.cell[a];
                }
                for (int i = 1; i <= m; ++i) {
                    double v = i == m ? z.v[3] : c.at(turn[i]);
                    if ((v < 0) != inside) {
                        out.t = t + length * root_between(c, turn[i - 1], turn[i]);
                        for (int a = 0; a < 3; ++a) out.cell[a] = w.cell[a];
                        return out;
                    }
                    if (i < m && abs(v) < best && sign * (2 * c.c + 6 * c.d * turn[i]) > 0) {
                        best = abs(v), out.nearest = t + length * turn[i], out.value = v, out.kink = -1;
                        for (int a = 0; a < 3; ++a) out.low[a] = w.cell[a];
                    }
                }
            }
            falling = length > 0 ? ends < 0 : falling;
        } else {
            // Beside a sample that is not finite there is no surface, and what follows starts anew.
            known = false, falling = false;
        }
        if (axis < 0 || leaves >= r.last || !w.step(axis)) return out;
        crossed = axis;
        t = until;
    }
}

}  // namespace gk
