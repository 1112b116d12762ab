// An edge as a camera sees it: where its line crosses from pixel to pixel, and what is before it.
#pragma once
#include "../spatial/ray_walk.h"
#include "camera.h"

namespace gk {

// A rectangle of the film.
struct Bounds {
    double left, top, right, bottom;
    GK_FN bool hold(Plane p) const { return p.x >= left && p.x < right && p.y >= top && p.y < bottom; }
};

struct Edge {
    Vec3d a, step;
    GK_FN Vec3 at(double t) const { return to_real(a + t * step); }
};
GK_FN Edge edge_of(const real* vertices, const int* ends, int i) {
    Vec3d a = to_double(row(vertices, ends[2 * (uint64)i])), b = to_double(row(vertices, ends[2 * (uint64)i + 1]));
    return {a, b - a};
}

GK_FN Plane projected(const Camera& c, Vec3 p) { return pixel_of(c, onto_plane(c, to_camera(c, to_double(p)))); }
GK_FN Plane origin_if_nowhere(Plane p) { return {p.x == p.x ? p.x : 0, p.y == p.y ? p.y : 0}; }

// The part of an edge in front of the camera and within bounds, as a straight line of the film.
struct Line {
    double t0, t1;      // the part in front of the camera
    double near, far;   // depths there
    double low, high;   // the part of that within the bounds, as shares of the line on the film; equal for none
    Plane begin, step;  // of that part
    int parallel;

    // From a share of the part to the edge: perspective shortens what is far.
    GK_FN double weight(double s) const {
        s = low + s * (high - low);
        double inner = parallel ? s : s * near / (far + s * (near - far));
        return t0 + inner * (t1 - t0);
    }
};

// Shares of a line, from low to high, within least and most of one axis.
GK_FN void clip(double start, double step, double least, double most, double& low, double& high) {
    if (abs(step) < 1e-12) {
        if (start < least || start > most) high = 0;
        return;
    }
    double one = (least - start) / step, other = (most - start) / step;
    low = max(low, min(one, other)), high = min(high, max(one, other));
}

// `least` is the depth at which edges are cut off before a pinhole.
GK_FN Line line_of(const Camera& c, const Edge& e, double least, const Bounds& bounds) {
    Line l = {0, 1, 1, 1, 0, 0, {0, 0}, {0, 0}, c.orthographic};
    if (!c.orthographic) {
        double a = to_camera(c, e.a).z - least, b = to_camera(c, e.a + e.step).z - least;
        double cut = a / (a == b ? 1 : a - b);
        if (a < 0) l.t0 = b > 0 ? cut : 1;
        if (b < 0) l.t1 = max(l.t0, a > 0 ? cut : 0);
    }
    Vec3 from = e.at(l.t0), to = e.at(l.t1);
    l.near = to_camera(c, to_double(from)).z, l.far = to_camera(c, to_double(to)).z;
    Plane first = origin_if_nowhere(projected(c, from)), last = origin_if_nowhere(projected(c, to));
    Plane step = {last.x - first.x, last.y - first.y};
    if (!(l.t1 > l.t0)) return l;
    l.high = 1;
    clip(first.x, step.x, bounds.left, bounds.right, l.low, l.high);
    clip(first.y, step.y, bounds.top, bounds.bottom, l.low, l.high);
    if (!(l.high > l.low)) l.high = l.low;
    l.begin = {first.x + l.low * step.x, first.y + l.low * step.y};
    l.step = {(l.high - l.low) * step.x, (l.high - l.low) * step.y};
    return l;
}

// Whole numbers that a line passes on one axis, one after the other.
struct PixelCrossings {
    double begin, step, number, by;
    int left;

    GK_FN PixelCrossings(double from, double length) : begin(from), step(length) {
        double low = floor(min(from, from + length)), high = floor(max(from, from + length));
        left = int(high - low);
        by = length < 0 ? -1 : 1, number = length < 0 ? high : low + 1;
    }
    // The share of the line at the next; 1 beyond the last.
    GK_FN double next() const { return left > 0 ? (number - begin) / step : 1; }
    GK_FN void pass() { number += by, --left; }
};

// Hands the pieces of a line between pixels' borders to visit(from, to), shares of it.
template <class Visit> GK_FN void each_piece(const Line& l, const Visit& visit) {
    if (!(l.high > l.low)) return;
    PixelCrossings x(l.begin.x, l.step.x), y(l.begin.y, l.step.y);
    double from = 0;
    while (x.left > 0 || y.left > 0) {
        double to_x = x.next(), to_y = y.next(), to = min(to_x, to_y);
        if (x.left > 0 && to_x <= to) x.pass();
        else if (y.left > 0) y.pass();
        else x.pass();
        if (to > from && to < 1) visit(from, to), from = to;
    }
    if (from < 1) visit(from, 1.0);
}

// ---- what is before an edge

// Where it is seen from: a place, or the vector to a place beyond the scene from which parallel rays come.
struct Eye {
    Vec3d at;
    double before;  // share of the way to the eye that is not looked at
    int parallel;
};

struct FindHider {
    static constexpr bool ONCE = false, TOGETHER = false, ANY_ORDER = false;
    const Bvh& bvh;
    const Mesh& mesh;
    const Rays& rays;
    Block& block;
    int* hider;
    int cull;

    GK_FN void operator()(int i, const Seen& seen, real& last) const {
        if (hider[i] < 0 && in_range(bvh, mesh, rays, i, block.first(i), block.end(i), seen)) hider[i] = seen.face, last = NOWHERE;
    }
};

// The ray that tells what is before a point.
GK_FN void ray_to(const Eye& eye, Vec3 x, real* origin, real* direction) {
    Vec3 from = to_real(eye.at);
    set_row(origin, 0, eye.parallel ? x : from);
    set_row(direction, 0, eye.parallel ? from : x - from);
}

// A face before each of m points, or -1: any, from the eye on.
GK_FN void find_hiders(const Bvh& bvh, const Mesh& mesh, const Eye& eye, const real* origins, const real* directions, int m, Block& block, int* hider) {
    Rays rays = {origins, directions, nullptr, nullptr, eye.parallel ? eye.before : 0, eye.parallel ? 1 : 1 - eye.before};
    for (int i = 0; i < m; ++i) hider[i] = -1;
    FindHider find = {bvh, mesh, rays, block, hider, CULL_NONE};
    walk_rays(bvh, rays, 0, m, block, find);
}

GK_ONCE int hider_of(const Bvh& bvh, const Mesh& mesh, const Eye& eye, Vec3 x, Block& block) {
    real origin[3], direction[3];
    int hider;
    ray_to(eye, x, origin, direction);
    find_hiders(bvh, mesh, eye, origin, direction, 1, block, &hider);
    return hider;
}

// Where along an edge, from a place that a face hides towards another, the face ends that is before it, or comes too near to the edge
// to count. The answer is whether that is known: exactly, by the plane through eye and edge.
GK_FN bool end_of_hider(const Mesh& mesh, const Eye& eye, const Edge& edge, int face, double from, double towards, double& end) {
    const Vec3d start = edge.a + from * edge.step, way = eye.parallel ? eye.at : eye.at - start;
    const Vec3d normal = cross(way, edge.step), outwards = cross(edge.step, normal);
    Vec3d corner[3], border[2];
    double side[3];
    for (int k = 0; k < 3; ++k) {
        corner[k] = to_double(row(mesh.vertices, mesh.faces[3 * (uint64)face + k])) - start;
        side[k] = dot(corner[k], normal);
    }
    int found = 0;
    for (int k = 0; k < 3; ++k) {
        const int j = k == 2 ? 0 : k + 1;
        if ((side[k] < 0) != (side[j] < 0)) border[found++ & 1] = corner[k] + side[k] / (side[k] - side[j]) * (corner[j] - corner[k]);
    }
    if (found != 2) return false;
    // How much of the way from the edge to the eye is before a point: linear in it.
    double passed[2];
    for (int k = 0; k < 2; ++k) passed[k] = dot(border[k], outwards) / dot(way, outwards);
    if (!(max(passed[0], passed[1]) > eye.before && max(passed[0], passed[1]) <= 1)) return false;
    for (int k = 0; k < 2; ++k)
        if (passed[k] < eye.before) border[k] = border[k] + (eye.before - passed[k]) / (passed[1 - k] - passed[k]) * (border[1 - k] - border[k]);
    const double sign = towards > from ? 1 : -1;
    for (int k = 0; k < 2; ++k) {
        Vec3d along = eye.parallel ? way : border[k] - way;
        double at = from + dot(cross(border[k], along), normal) / dot(cross(edge.step, along), normal);
        if (k == 0 || sign * at > sign * end) end = at;
    }
    return sign * end > sign * from && sign * end < sign * towards;
}

// The place on an edge between a hidden one, and the face that hides it, and one that is seen, at which the one becomes the other.
GK_ONCE double hidden_until(const Bvh& bvh, const Mesh& mesh, const Eye& eye, const Edge& edge, double hidden, int hider, double seen, Block& block) {
    constexpr int FOLLOWED = 8, LOOKS = 16;
    const double least = (seen - hidden) / (IS_FLOAT ? 1 << 10 : 1 << 14);
    // Faces follow one another; past the end of one nothing is hidden, or another face hides. What rounding decides is passed over.
    double step = 4 * least;
    for (int look = 0; look < FOLLOWED + LOOKS && abs(seen - hidden) > abs(least); ++look) {
        double end = hidden, middle = 0.5 * (hidden + seen);
        bool follows = look < FOLLOWED && end_of_hider(mesh, eye, edge, hider, hidden, seen, end);
        double next = end + step;
        follows = follows && abs(next - hidden) < abs(seen - hidden);
        if (!follows) {
            next = abs(step) < abs(middle - hidden) ? hidden + step : middle;
            step = 4 * step;
        }
        int face = hider_of(bvh, mesh, eye, edge.at(next), block);
        if (face < 0) {
            if (follows) return end;
            seen = next, step = seen - hidden;
        } else {
            if (follows) step = 4 * least;
            hidden = next, hider = face;
        }
    }
    return 0.5 * (hidden + seen);
}

}  // namespace gk
