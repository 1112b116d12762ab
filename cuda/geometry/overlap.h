// Whether two triangles have points in common, touching included, by signs of orientations alone.
#pragma once
#include "orientation.h"

namespace gk {

struct Corners {
    Vec3d at[3];
    int axis;  // along which it is seen largest; -1 of a triangle without area, which is not looked into
};

GK_ONCE Corners corners_of(Vec3d a, Vec3d b, Vec3d c) {
    Corners t = {{a, b, c}, -1};
    Vec3d n = cross(b - a, c - a);
    int order[3] = {0, 1, 2};
    if (abs(n.y) > abs(n.x)) order[0] = 1, order[1] = 0;
    if (abs(n.z) > max(abs(n.x), abs(n.y))) order[2] = order[0], order[0] = 2;
    for (int k = 0; k < 3 && t.axis < 0; ++k)
        if (orientation_along(order[k], a, b, c)) t.axis = order[k];
    return t;
}

GK_FN bool spans_meet(double a, double b, double p, double q) { return max(a, b) >= min(p, q) && max(p, q) >= min(a, b); }

// Segments in one plane, seen along an axis.
GK_FN bool segments_meet(int axis, Vec3d a, Vec3d b, Vec3d p, Vec3d q) {
    int o1 = orientation_along(axis, a, b, p), o2 = orientation_along(axis, a, b, q);
    int o3 = orientation_along(axis, p, q, a), o4 = orientation_along(axis, p, q, b);
    if (o1 || o2 || o3 || o4) return o1 * o2 <= 0 && o3 * o4 <= 0;
    return spans_meet(a.x, b.x, p.x, q.x) && spans_meet(a.y, b.y, p.y, q.y) && spans_meet(a.z, b.z, p.z, q.z);
}

// The segment from p to q and a triangle, given the sides of its plane on which p and q are.
GK_ONCE bool segment_meets(const Corners& t, Vec3d p, Vec3d q, int p_side, int q_side) {
    if (t.axis < 0 || p_side * q_side > 0) return false;
    const Vec3d &a = t.at[0], &b = t.at[1], &c = t.at[2];
    if (p_side || q_side) {
        int x = orientation(p, q, a, b), y = orientation(p, q, b, c), z = orientation(p, q, c, a);
        return !((x > 0 || y > 0 || z > 0) && (x < 0 || y < 0 || z < 0));
    }
    int x = orientation_along(t.axis, a, b, p), y = orientation_along(t.axis, b, c, p), z = orientation_along(t.axis, c, a, p);
    if ((x >= 0 && y >= 0 && z >= 0) || (x <= 0 && y <= 0 && z <= 0)) return true;
    return segments_meet(t.axis, a, b, p, q) || segments_meet(t.axis, b, c, p, q) || segments_meet(t.axis, c, a, p, q);
}

GK_FN int side_of(const Corners& t, Vec3d p) { return orientation(t.at[0], t.at[1], t.at[2], p); }

// Edges k to k + 1 of one, of which `which` says the bits, and the other triangle.
GK_ONCE bool edges_meet(const Corners& one, const Corners& other, int which) {
    if (other.axis < 0) return false;
    int side[3];
    for (int k = 0; k < 3; ++k) side[k] = side_of(other, one.at[k]);
    if (side[0] == side[1] && side[1] == side[2] && side[0]) return false;
    for (int k = 0; k < 3; ++k) {
        int m = k == 2 ? 0 : k + 1;
        if (which >> k & 1 && segment_meets(other, one.at[k], one.at[m], side[k], side[m])) return true;
    }
    return false;
}

// Whether triangles overlap beyond the corners they share. i and j are the numbers of their corners' points; shared becomes the
// number of those in common. Of triangles that share one, the edges opposite to it decide; those that share an edge overlap
// if they lie in one plane on the same side of it; those that share all always.
GK_FN bool triangles_overlap(const Corners& one, const Corners& other, const int* i, const int* j, int& shared) {
    int common_i = 0, common_j = 0;
    shared = 0;
    for (int k = 0; k < 3; ++k)
        for (int m = 0; m < 3; ++m)
            if (i[k] == j[m]) common_i |= 1 << k, common_j |= 1 << m, ++shared;
    if (shared == 0) return edges_meet(one, other, 7) || edges_meet(other, one, 7);
    if (shared == 1) {
        // The edge opposite to corner k starts at corner k + 1.
        const int opposite[5] = {0, 2, 4, 0, 1};
        return edges_meet(one, other, opposite[common_i]) || edges_meet(other, one, opposite[common_j]);
    }
    if (one.axis < 0 || other.axis < 0) return false;
    if (shared == 3) return true;
    int k = common_i == 3 ? 2 : common_i == 5 ? 1 : 0, m = common_j == 3 ? 2 : common_j == 5 ? 1 : 0;
    Vec3d a = one.at[(k + 1) % 3], b = one.at[(k + 2) % 3];
    if (side_of(one, other.at[m])) return false;
    return orientation_along(one.axis, a, b, one.at[k]) * orientation_along(one.axis, a, b, other.at[m]) > 0;
}

}  // namespace gk
