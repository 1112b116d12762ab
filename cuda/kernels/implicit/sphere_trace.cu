// Rays to the zero of a sampled field, and their adjoint.
#include "../../implicit/sphere_trace.h"

namespace gk {

// Each item is a row of cells: the square of the field's greatest slope in it; infinite beside a sample that is not finite.
GK_KERNEL steepest_slopes(int n, const real* values, int ny, int nz, double sx, double sy, double sz, double* out) {
    GK_EACH(row, n) {
        int i = row / (ny - 1), j = row % (ny - 1);
        const real* v[4];
        for (int c = 0; c < 4; ++c) v[c] = values + ((uint64)(i + (c >> 1)) * ny + j + (c & 1)) * nz;
        double most = 0;
        bool finite = true;
        double before[4];
        for (int k = 0; k < nz; ++k) {
            double now[4], x = 0, y = 0, z = 0;
            for (int c = 0; c < 4; ++c) now[c] = v[c][k];
            double sum = now[0] + now[1] + now[2] + now[3];
            finite = finite && sum - sum == 0;
            if (k > 0) {
                for (int c = 0; c < 4; ++c) z = max(z, abs(now[c] - before[c]));
                for (int c = 0; c < 2; ++c) {
                    x = max(x, max(abs(now[c + 2] - now[c]), abs(before[c + 2] - before[c])));
                    y = max(y, max(abs(now[2 * c + 1] - now[2 * c]), abs(before[2 * c + 1] - before[2 * c])));
                }
                most = max(most, x * x / (sx * sx) + y * y / (sy * sy) + z * z / (sz * sz));
            }
            for (int c = 0; c < 4; ++c) before[c] = now[c];
        }
        out[row] = finite ? most : infinity();
    }
}

// The interpolant in the cell of a hit, whatever rounding makes of the point.
GK_FN Taps<2> taps_in(int cell, double place, double spacing, double origin) {
    Taps<2> r;
    real t = real(clamp((place - origin) / spacing - cell, 0.0, 1.0)), h = real(1 / spacing);
    r.first = r.cell = cell;
    r.w[0] = 1 - t, r.w[1] = t;
    r.d[0] = -h, r.d[1] = h;
    r.dd[0] = r.dd[1] = 0;
    return r;
}
GK_FN Jet linear_jet(const Samples& s, const int* cell, Vec3d p) {
    Stencil<2> t = {taps_in(cell[0], p.x, s.sx, s.ox), taps_in(cell[1], p.y, s.sy, s.oy), taps_in(cell[2], p.z, s.sz, s.oz)};
    return interpolate<2, true>(s, t);
}
GK_FN Jet cubic_jet(const Samples& s, Vec3d p) {
    Stencil<4> t = {taps_at<4>(p.x, s.sx, s.ox, s.nx), taps_at<4>(p.y, s.sy, s.oy, s.ny), taps_at<4>(p.z, s.sz, s.oz, s.nz)};
    return interpolate<4, true>(s, t);
}
// The point within the grid's box, which rounding may have left.
GK_FN void set_place(const Samples& s, double* out, Vec3d p) {
    out[0] = clamp(p.x, s.ox, s.ox + s.sx * (s.nx - 1));
    out[1] = clamp(p.y, s.oy, s.oy + s.sy * (s.ny - 1));
    out[2] = clamp(p.z, s.oz, s.oz + s.sz * (s.nz - 1));
}

struct FoundRay {
    Vec3d origin, direction;
    Trace trace;
    GK_FN Vec3d at(double t) const { return origin + t * direction; }
};
GK_FN FoundRay find_ray(const Samples& s, const real* origins, const real* directions, int i, double t_min, double t_max,
                        double slope, double band) {
    FoundRay r;
    r.origin = to_double(row(origins, i)), r.direction = to_double(row(directions, i));
    GridRay ray = grid_ray(s, r.origin, r.direction, t_min, t_max);
    double speed = length(r.direction);
    if (!(speed > 0 && speed < infinity())) ray.last = -infinity();
    r.trace = trace_ray(s, ray, speed, slope, band);
    return r;
}

GK_KERNEL sphere_trace_fwd(int n, const real* values, int nx, int ny, int nz, double sx, double sy, double sz, double ox,
                           double oy, double oz, const real* origins, const real* directions, double t_min, double t_max,
                           double slope, double band, int cubic, real* t, real* position, real* normal, real* distance,
                           real* nearest) {
    Samples s = {values, nx, ny, nz, sx, sy, sz, ox, oy, oz};
    GK_EACH(i, n) {
        FoundRay r = find_ray(s, origins, directions, i, t_min, t_max, slope, band);
        bool hit = r.trace.t < infinity();
        real none = real(infinity());
        Vec3 p = {none, none, none}, m = {0, 0, 0};
        if (hit) {
            Vec3d at = r.at(r.trace.t);
            p = to_real(at);
            m = normalized((cubic ? cubic_jet(s, at) : linear_jet(s, r.trace.cell, at)).gradient);
        }
        t[i] = real(r.trace.t);
        set_row(position, i, p);
        set_row(normal, i, m);
        bool close = r.trace.nearest < infinity();
        distance[i] = close ? real(r.trace.value) : none;
        nearest[i] = real(r.trace.nearest);
    }
}

constexpr double GRAZING = 1e-4;  // the least cosine between ray and normal that derivatives are taken with

// The cotangents of the rays, and for each of them two points, of the hit and the nearest one, with cotangents of the field's
// value and gradient there. What is not there gets zeros at the grid's origin.
GK_KERNEL sphere_trace_adj(int n, const real* values, int nx, int ny, int nz, double sx, double sy, double sz, double ox,
                           double oy, double oz, const real* origins, const real* directions, double t_min, double t_max,
                           double slope, double band, int cubic, const real* adj_t, const real* adj_position,
                           const real* adj_normal, const real* adj_distance, real* adj_origins, real* adj_directions,
                           double* points, real* adj_value, real* adj_gradient) {
    Samples s = {values, nx, ny, nz, sx, sy, sz, ox, oy, oz};
    GK_EACH(i, n) {
        Vec3d to_origin = {0, 0, 0}, to_direction = {0, 0, 0};
        double* place = points + 6 * (uint64)i;
        place[0] = place[3] = ox, place[1] = place[4] = oy, place[2] = place[5] = oz;
        adj_value[2 * (uint64)i] = adj_value[2 * (uint64)i + 1] = 0;
        set_row(adj_gradient, i, {0, 0, 0});
        Vec3d at = to_double(row(adj_position, i)), an = to_double(row(adj_normal, i));
        bool wanted = adj_t[i] != 0 || at.x != 0 || at.y != 0 || at.z != 0 || an.x != 0 || an.y != 0 || an.z != 0;
        if (wanted || adj_distance[i] != 0) {
            FoundRay r = find_ray(s, origins, directions, i, t_min, t_max, slope, band);
            double t = r.trace.t;
            if (wanted && t < infinity()) {
                Vec3d p = r.at(t);
                set_place(s, place, p);
                Jet jet = linear_jet(s, r.trace.cell, p), bend = cubic ? cubic_jet(s, p) : jet;
                Vec3d g = to_double(adj_normalized(bend.gradient, to_real(an))), grad = to_double(jet.gradient);
                Vec3d u = to_double(bend.straight), m = to_double(bend.mixed);
                at += Vec3d{u.x * g.x + m.x * g.y + m.y * g.z, m.x * g.x + u.y * g.y + m.z * g.z,
                            m.y * g.x + m.z * g.y + u.z * g.z};
                double across = dot(grad, r.direction), least = GRAZING * length(grad) * length(r.direction);
                if (abs(across) < least) across = across < 0 ? -least : least;
                double send = across != 0 ? (adj_t[i] + dot(at, r.direction)) / across : 0.0;
                to_origin = at - send * grad;
                to_direction = t * to_origin;
                adj_value[2 * (uint64)i] = real(-send);
                set_row(adj_gradient, i, to_real(g));
            }
            t = r.trace.nearest;
            if (adj_distance[i] != 0 && t < infinity()) {
                Vec3d p = r.at(t);
                set_place(s, place + 3, p);
                double g[3], d[3] = {r.direction.x, r.direction.y, r.direction.z};
                Vec3d grad = to_double(linear_jet(s, r.trace.low, p).gradient);
                g[0] = grad.x, g[1] = grad.y, g[2] = grad.z;
                // A minimum on a face of the cells stays there.
                if (r.trace.kink >= 0) g[r.trace.kink] -= dot(grad, r.direction) / d[r.trace.kink];
                Vec3d send = double(adj_distance[i]) * Vec3d{g[0], g[1], g[2]};
                to_origin += send;
                to_direction += t * send;
                adj_value[2 * (uint64)i + 1] = adj_distance[i];
            }
        }
        set_row(adj_origins, i, to_real(to_origin));
        set_row(adj_directions, i, to_real(to_direction));
    }
}

}  // namespace gk
