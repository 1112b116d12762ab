// A camera: from pixels to rays and from points to pixels, each with its adjoint under it. All of it is computed in double.
#pragma once
#include "../core/vec.h"

namespace gk {

struct Camera {
    double pose[12];    // rows of [R | t], which take a point of the world to the camera's axes
    double inverse[9];  // rows of the inverse of R
    double fx;
    double skew;
    double cx;
    double fy;
    double cy;
    double k1;
    double k2;
    double p1;
    double p2;
    double k3;
    double reach;       // square of the radius from which on the lens folds the image back; infinity if it does not
    int orthographic;
    int distorted;
};

// A list of pixels, or, without one, those of a window: cell by cell and row by row, samples x samples in each.
struct Pixels {
    const real* at;
    int left;
    int top;
    int columns;
    int samples;
};

// What many pixels add up to: the cotangents of the camera's numbers.
constexpr int CAMERA_SUMS = 22;
struct CameraSums {
    double pose[12];  // of R and t, or what they follow from
    double fx, skew, cx, fy, cy;
    double k1, k2, p1, p2, k3;
};

// Writes row b of such sums.
GK_FN void put_sums(double* sums, int b, const CameraSums& s) {
    const double rest[10] = {s.fx, s.skew, s.cx, s.fy, s.cy, s.k1, s.k2, s.p1, s.p2, s.k3};
    sums += CAMERA_SUMS * (uint64)b;
    GK_UNROLL for (int k = 0; k < 12; ++k) sums[k] = s.pose[k];
    GK_UNROLL for (int k = 0; k < 10; ++k) sums[12 + k] = rest[k];
}

// A point of the image plane or of the image.
struct Plane {
    double x, y;
};
GK_FN double square(Plane a) { return a.x * a.x + a.y * a.y; }
GK_FN Plane nowhere() { double none = infinity() - infinity(); return {none, none}; }
GK_FN bool is_somewhere(Plane a) { return a.x == a.x; }

// LANES points at once: plain loops over them, which the CPU's compiler turns into vector instructions.
struct PlanePoints {
    double x[LANES], y[LANES];
    GK_FN Plane at(int k) const { return {x[k], y[k]}; }
    GK_FN void set(int k, Plane a) { x[k] = a.x, y[k] = a.y; }
};

// Pixels first to first + LANES - 1 of a list or a window; beyond `end`, of which nothing is written, the last one again.
GK_FN PlanePoints pixels_at(const Pixels& pixels, int first, int end) {
    PlanePoints p;
    if (pixels.at) {
        for (int k = 0; k < LANES; ++k) {
            const real* at = pixels.at + 2 * (uint64)min(first + k, end - 1);
            p.set(k, {at[0], at[1]});
        }
        return p;
    }
    int cell = first, x = 0, y = 0, samples = pixels.samples;
    if (samples > 1) {
        int sample = first % (samples * samples);
        cell = first / (samples * samples), x = sample % samples, y = sample / samples;
    }
    int row = cell / pixels.columns, column = cell - row * pixels.columns;
    double step = 1.0 / samples;
    for (int k = 0; k < LANES; ++k) {
        p.set(k, {pixels.left + column + (x + 0.5) * step, pixels.top + row + (y + 0.5) * step});
        if (++x < samples) continue;
        x = 0;
        if (++y < samples) continue;
        y = 0;
        if (++column < pixels.columns) continue;
        column = 0;
        ++row;
    }
    return p;
}

// One pixel of a window.
GK_FN Plane window_pixel(const Pixels& pixels, int i) {
    int samples = pixels.samples, cell = i / (samples * samples), sample = i - cell * samples * samples;
    int row = cell / pixels.columns, column = cell - row * pixels.columns, y = sample / samples, x = sample - y * samples;
    double step = 1.0 / samples;
    return {pixels.left + column + (x + 0.5) * step, pixels.top + row + (y + 0.5) * step};
}

// ---- the lens (Brown 1966, Conrady 1919; terms and order as in OpenCV)

// Where the lens takes a point, and the derivative, a symmetric matrix.
struct Bent {
    Plane at;
    double xx, xy, yy;
};

GK_FN Bent bent(const Camera& c, Plane p) {
    double r = square(p), radial = 1 + r * (c.k1 + r * (c.k2 + r * c.k3)), slope = c.k1 + r * (2 * c.k2 + r * 3 * c.k3);
    double xy = p.x * p.y, along = c.p1 * p.y + c.p2 * p.x;
    Bent b;
    b.at = {p.x * radial + 2 * c.p1 * xy + c.p2 * (r + 2 * p.x * p.x), p.y * radial + c.p1 * (r + 2 * p.y * p.y) + 2 * c.p2 * xy};
    b.xx = radial + 2 * p.x * p.x * slope + 2 * along + 4 * c.p2 * p.x;
    b.xy = 2 * xy * slope + 2 * (c.p1 * p.x + c.p2 * p.y);
    b.yy = radial + 2 * p.y * p.y * slope + 2 * along + 4 * c.p1 * p.y;
    return b;
}

// Whether the lens turns the image over at p: its image is another point's, too.
GK_FN bool is_folded(const Camera& c, Plane p, const Bent& b) {
    return !(square(p) < c.reach && b.xx * b.yy - b.xy * b.xy > 0);
}

// The inverse of the derivative, applied.
GK_FN Plane unbent(const Bent& b, Plane a) {
    double det = b.xx * b.yy - b.xy * b.xy;
    return {(b.yy * a.x - b.xy * a.y) / det, (b.xx * a.y - b.xy * a.x) / det};
}

// Adds what the cotangent of the image of p gives to those of the lens.
GK_FN void adj_lens(Plane p, Plane adj, CameraSums& s) {
    double r = square(p), along = p.x * adj.x + p.y * adj.y, xy = 2 * p.x * p.y;
    s.k1 += r * along;
    s.k2 += r * r * along;
    s.k3 += r * r * r * along;
    s.p1 += xy * adj.x + (r + 2 * p.y * p.y) * adj.y;
    s.p2 += (r + 2 * p.x * p.x) * adj.x + xy * adj.y;
}

// The point that the lens takes to `target`: Newton's method, its steps halved until they lead nearer and stay on this side
// of the fold. Where there is none, nowhere.
GK_FN Plane unbent_point(const Camera& c, Plane target) {
    Plane p = target;
    double far = square(p);
    if (!(far < c.reach)) {
        double scale = sqrt(0.8 * c.reach / far);
        p = {scale * p.x, scale * p.y};
    }
    Bent b = bent(c, p);
    if (is_folded(c, p, b)) {
        p = {0, 0};
        b = bent(c, p);
    }
    Plane off = {target.x - b.at.x, target.y - b.at.y};
    for (int k = 0; k < 50; ++k) {
        if (square(off) == 0) return p;
        Plane step = unbent(b, off);
        // The next step would be the square of this one: below the last digit.
        if (square(step) <= 1e-18 * square(p)) return {p.x + step.x, p.y + step.y};
        bool nearer = false;
        for (int half = 0; half < 12 && !nearer; ++half) {
            Plane next = {p.x + step.x, p.y + step.y};
            Bent there = bent(c, next);
            Plane left = {target.x - there.at.x, target.y - there.at.y};
            nearer = square(left) < square(off) && !is_folded(c, next, there);
            if (nearer) p = next, b = there, off = left;
            step = {0.5 * step.x, 0.5 * step.y};
        }
        if (!nearer) break;
    }
    return nowhere();
}

// The same of LANES points. A few of Newton's steps with no look at where they lead are enough for nearly all; each lane does
// the same whatever is in the others, so that a point has the same bits in any company.
GK_FN PlanePoints unbent_points(const Camera& c, const PlanePoints& target) {
    if (LANES == 1) {
        PlanePoints one;
        one.set(0, unbent_point(c, target.at(0)));
        return one;
    }
    PlanePoints p = target;
    double moved[LANES], det[LANES];
    for (int step = 0; step < 5; ++step)
        for (int k = 0; k < LANES; ++k) {
            Bent b = bent(c, p.at(k));
            Plane move = unbent(b, {target.x[k] - b.at.x, target.y[k] - b.at.y});
            p.x[k] += move.x;
            p.y[k] += move.y;
            moved[k] = square(move);
            det[k] = b.xx * b.yy - b.xy * b.xy;
        }
    for (int k = 0; k < LANES; ++k) {
        double r = square(p.at(k));
        if (!(moved[k] <= 1e-18 * r && r < c.reach && det[k] > 0)) p.set(k, unbent_point(c, target.at(k)));
    }
    return p;
}

// ---- pixel to ray

// Points of the image plane that are seen at pixels, before and behind the lens.
struct Sight {
    PlanePoints bent, at;
};

GK_FN Sight seen_at(const Camera& c, const PlanePoints& pixels) {
    Sight s;
    for (int k = 0; k < LANES; ++k) {
        s.bent.y[k] = (pixels.y[k] - c.cy) / c.fy;
        s.bent.x[k] = (pixels.x[k] - c.cx - c.skew * s.bent.y[k]) / c.fx;
    }
    s.at = c.distorted ? unbent_points(c, s.bent) : s.bent;
    return s;
}

// Given the cotangent of a point of the plane, that of the pixel; adds to those of K and the lens.
GK_FN Plane adj_seen_at(const Camera& c, Plane before, Plane at, Plane adj, CameraSums& sums) {
    if (c.distorted) {
        adj = unbent(bent(c, at), adj);
        adj_lens(at, {-adj.x, -adj.y}, sums);
    }
    Plane g = {adj.x / c.fx, 0};
    g.y = (adj.y - c.skew * g.x) / c.fy;
    sums.fx -= g.x * before.x;
    sums.skew -= g.x * before.y;
    sums.cx -= g.x;
    sums.fy -= g.y * before.y;
    sums.cy -= g.y;
    return g;
}

GK_FN Vec3d to_world(const Camera& c, double x, double y, double z) {
    const double* a = c.inverse;
    return {a[0] * x + a[1] * y + a[2] * z, a[3] * x + a[4] * y + a[5] * z, a[6] * x + a[7] * y + a[8] * z};
}
GK_FN Vec3d adj_to_world(const Camera& c, Vec3d adj) {
    const double* a = c.inverse;
    return {a[0] * adj.x + a[3] * adj.y + a[6] * adj.z, a[1] * adj.x + a[4] * adj.y + a[7] * adj.z,
            a[2] * adj.x + a[5] * adj.y + a[8] * adj.z};
}

struct CameraRay {
    Vec3d origin, direction;
};

// A direction's part along the camera's z axis is one.
GK_FN CameraRay ray_through(const Camera& c, Plane p) {
    const double* m = c.pose;
    if (c.orthographic) return {to_world(c, p.x - m[3], p.y - m[7], -m[11]), to_world(c, 0, 0, 1)};
    return {to_world(c, -m[3], -m[7], -m[11]), to_world(c, p.x, p.y, 1)};
}

// Adds v (x, y, 1) to the rows of a matrix whose fourth column is left alone, and w to that column.
GK_FN void add_outer(double* pose, Vec3d v, double x, double y, double z, Vec3d w) {
    double row[3] = {v.x, v.y, v.z}, last[3] = {w.x, w.y, w.z};
    GK_UNROLL for (int k = 0; k < 3; ++k) {
        pose[4 * k] += row[k] * x;
        pose[4 * k + 1] += row[k] * y;
        pose[4 * k + 2] += row[k] * z;
        pose[4 * k + 3] += last[k];
    }
}

// Given the cotangents of the ray, that of the pixel. Of the pose it adds up what depends on the pixel: the outer product of
// (x, y, 1) and the cotangent that it slants, and the other cotangent.
GK_FN Plane adj_ray_through(const Camera& c, Plane before, Plane at, Vec3d adj_origin, Vec3d adj_direction, CameraSums& sums) {
    Vec3d slanted = c.orthographic ? adj_origin : adj_direction, other = c.orthographic ? adj_direction : adj_origin;
    if (!is_somewhere(at)) {
        add_outer(sums.pose, {0, 0, 0}, 0, 0, 0, other);
        return {0, 0};
    }
    add_outer(sums.pose, slanted, at.x, at.y, 1, other);
    Vec3d adj = adj_to_world(c, slanted);
    return adj_seen_at(c, before, at, {adj.x, adj.y}, sums);
}

// ---- point to pixel

GK_FN Vec3d to_camera(const Camera& c, Vec3d p) {
    const double* m = c.pose;
    return {m[0] * p.x + m[1] * p.y + m[2] * p.z + m[3], m[4] * p.x + m[5] * p.y + m[6] * p.z + m[7],
            m[8] * p.x + m[9] * p.y + m[10] * p.z + m[11]};
}

// The point of the image plane on which p, in the camera's axes, is seen; nowhere behind a pinhole and beyond the fold.
GK_FN Plane onto_plane(const Camera& c, Vec3d p) {
    if (!c.orthographic && !(p.z > 0)) return nowhere();
    double near = c.orthographic ? 1 : 1 / p.z;
    Plane at = {near * p.x, near * p.y};
    return c.distorted && is_folded(c, at, bent(c, at)) ? nowhere() : at;
}

GK_FN Plane pixel_of(const Camera& c, Plane at) {
    Plane p = c.distorted ? bent(c, at).at : at;
    return {c.fx * p.x + c.skew * p.y + c.cx, c.fy * p.y + c.cy};
}

// Given the cotangent of the pixel, that of the point of the plane; adds to those of K and the lens.
GK_FN Plane adj_pixel_of(const Camera& c, Plane at, Plane adj, CameraSums& sums) {
    Bent b = {at, 1, 0, 1};
    if (c.distorted) b = bent(c, at);
    sums.fx += adj.x * b.at.x;
    sums.skew += adj.x * b.at.y;
    sums.cx += adj.x;
    sums.fy += adj.y * b.at.y;
    sums.cy += adj.y;
    Plane g = {c.fx * adj.x, c.skew * adj.x + c.fy * adj.y};
    if (!c.distorted) return g;
    adj_lens(at, g, sums);
    return {b.xx * g.x + b.xy * g.y, b.xy * g.x + b.yy * g.y};
}

// Given the cotangents of pixel and depth, that of the point; adds to those of the camera. A point that has no pixel only
// has a depth.
GK_FN Vec3d adj_projected(const Camera& c, Vec3d point, Plane adj_pixel, double adj_depth, CameraSums& sums) {
    Vec3d p = to_camera(c, point), adj = {0, 0, adj_depth};
    Plane at = onto_plane(c, p);
    if (is_somewhere(at)) {
        Plane g = adj_pixel_of(c, at, adj_pixel, sums);
        double near = c.orthographic ? 1 : 1 / p.z;
        adj.x = near * g.x;
        adj.y = near * g.y;
        if (!c.orthographic) adj.z -= near * (g.x * at.x + g.y * at.y);
    }
    add_outer(sums.pose, adj, point.x, point.y, point.z, adj);
    const double* m = c.pose;
    return {m[0] * adj.x + m[4] * adj.y + m[8] * adj.z, m[1] * adj.x + m[5] * adj.y + m[9] * adj.z,
            m[2] * adj.x + m[6] * adj.y + m[10] * adj.z};
}

}  // namespace gk
