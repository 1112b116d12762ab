// A triangle and a point: area, solid angle, closest point. Each function's adjoint stands under it.
#pragma once
#include "../core/vec.h"

namespace gk {

// Which part of a triangle is closest: the inside, edge k (from corner k to corner k + 1), or corner k.
enum Feature { FACE = 0, EDGE_0 = 1, EDGE_1 = 2, EDGE_2 = 3, CORNER_0 = 4, CORNER_1 = 5, CORNER_2 = 6 };

template <class T> struct TrianglePoint {
    T b0, b1, b2;  // barycentric coordinates
    T feature;     // a Feature
    Vec<T> away;   // from the closest point to p: more exact than their difference, and 0 on the triangle
};

// The parameter, 0 to 1, of the point of segment a + s e closest to the end of r from a. A segment of no length is a.
template <class T> GK_FN T closest_on_segment(Vec<T> e, Vec<T> r) {
    return clamp(dot(e, r) / max(dot(e, e), constant<T>(TINY)), constant<T>(0), constant<T>(1));
}

// From the point s e of a segment to p, given p relative to both ends: measured from the nearer one.
template <class T> GK_FN Vec<T> from_segment(Vec<T> e, Vec<T> from_first, Vec<T> from_last, T s) {
    auto near_last = s > constant<T>(0.5);
    T k = select(near_last, s - constant<T>(1), s);
    return select(near_last, from_last, from_first) - k * e;
}

// The point of a triangle's outline that is nearest to p, on the edge e from one corner to the next.
template <class T> struct EdgePoint {
    Vec<T> e, opposite;  // the edge, and the way from its first corner to the third
    Vec<T> away;         // from the point to p
    T at, edge;          // parameter along the edge; number of the edge, 0 1 2
};
template <class T> GK_FN EdgePoint<T> nearest_edge_point(Vec<T> p, Vec<T> a, Vec<T> b, Vec<T> c) {
    Vec<T> ab = b - a, bc = c - b, ca = a - c, ap = p - a, bp = p - b, cp = p - c;
    T s = closest_on_segment(ab, ap), t = closest_on_segment(bc, bp), u = closest_on_segment(ca, cp);
    Vec<T> r0 = from_segment(ab, ap, bp, s), r1 = from_segment(bc, bp, cp, t), r2 = from_segment(ca, cp, ap, u);
    T e0 = dot(r0, r0), e1 = dot(r1, r1), e2 = dot(r2, r2);
    auto second = e1 < e0, third = e2 < min(e0, e1);
    return {select(third, ca, select(second, bc, ab)), select(third, -bc, select(second, -ab, -ca)),
            select(third, r2, select(second, r1, r0)), select(third, u, select(second, t, s)),
            select(third, constant<T>(2), select(second, constant<T>(1), constant<T>(0)))};
}

// The part of r along the normal n. Taken of the way from the nearest edge point: it can only be shorter, so a sliver, whose
// normal is uncertain, is still no farther than its edges.
template <class T> GK_FN Vec<T> along_normal(Vec<T> n, Vec<T> r) {
    return (dot(n, r) / max(dot(n, n), constant<T>(TINY))) * n;
}

// Closest point of the triangle (a, b, c) to p: its projection where that falls inside, else the nearest point of the three
// edges. A triangle without area is its edges. Ties go to the lower edge. No branches: T may be lanes.
template <class T> GK_FN TrianglePoint<T> closest_on_triangle(Vec<T> p, Vec<T> a, Vec<T> b, Vec<T> c) {
    const T zero = constant<T>(0), one = constant<T>(1);
    EdgePoint<T> k = nearest_edge_point(p, a, b, c);

    // The foot of p in the plane, reached from the edge by a step in the plane: the weight of the opposite corner, then the
    // parameter along the edge. Short steps keep their digits on slivers.
    Vec<T> n = exact_cross(b - a, c - a), up = along_normal(n, k.away), step = k.away - up;
    T weight = dot(n, cross(k.e, step)) / max(dot(n, n), constant<T>(TINY));
    T along = k.at + dot(step - weight * k.opposite, k.e) / max(dot(k.e, k.e), constant<T>(TINY));
    T rest = one - weight - along;
    auto inside = (weight > zero) & (along > zero) & (rest > zero);

    TrianglePoint<T> x;
    T first = select(inside, rest, one - k.at), last = select(inside, along, k.at), third = select(inside, weight, zero);
    auto on_1 = k.edge > constant<T>(0.5), on_2 = k.edge > constant<T>(1.5);
    x.b0 = select(on_2, last, select(on_1, third, first));
    x.b1 = select(on_2, third, select(on_1, first, last));
    x.b2 = select(on_2, first, select(on_1, last, third));
    T first_corner = constant<T>(CORNER_0) + k.edge;
    T last_corner = select(on_2, constant<T>(CORNER_0), first_corner + one);
    T outline = select(k.at <= zero, first_corner, select(k.at >= one, last_corner, constant<T>(EDGE_0) + k.edge));
    x.feature = select(inside, constant<T>(FACE), outline);
    x.away = select(inside, up, k.away);
    return x;
}

// The same, given the barycentric coordinates and the feature: fills in `away`.
GK_FN TrianglePoint<real> known_on_triangle(Vec3 p, Vec3 a, Vec3 b, Vec3 c, Vec3 weights, int feature) {
    TrianglePoint<real> x = {weights.x, weights.y, weights.z, real(feature), {0, 0, 0}};
    if (feature == FACE) x.away = along_normal(exact_cross(b - a, c - a), nearest_edge_point(p, a, b, c).away);
    else if (feature == EDGE_0) x.away = from_segment(b - a, p - a, p - b, x.b1);
    else if (feature == EDGE_1) x.away = from_segment(c - b, p - b, p - c, x.b2);
    else if (feature == EDGE_2) x.away = from_segment(a - c, p - c, p - a, x.b0);
    else x.away = p - (feature == CORNER_0 ? a : feature == CORNER_1 ? b : c);
    return x;
}

template <class T> struct TriangleGradient { Vec<T> a, b, c, p; };

// Given the cotangent g of the closest point x = b0 a + b1 b + b2 c, the cotangents of a, b, c and p.
//
// While the feature stays the same x is a projection on a plane or on a line, or a corner; this is its derivative. Only
// differences of points enter, so it does not matter where the origin is.
GK_FN TriangleGradient<real> adj_closest_on_triangle(Vec3 a, Vec3 b, Vec3 c, TrianglePoint<real> x, Vec3 g) {
    const Vec3 r = x.away;
    TriangleGradient<real> adj = {x.b0 * g, x.b1 * g, x.b2 * g, {0, 0, 0}};
    int feature = int(x.feature);
    if (feature == FACE) {
        // The part of g in the plane is E lam, with E = (b - a, c - a) and lam = (E'E)^-1 E'g.
        Vec3 e1 = b - a, e2 = c - a, n = exact_cross(e1, e2);
        real e11 = dot(e1, e1), e12 = dot(e1, e2), e22 = dot(e2, e2), g1 = dot(e1, g), g2 = dot(e2, g);
        real scale = 1 / dot(n, n);
        real lam1 = (e22 * g1 - e12 * g2) * scale, lam2 = (e11 * g2 - e12 * g1) * scale;
        adj.p = lam1 * e1 + lam2 * e2;
        Vec3 normal = g - adj.p;
        adj.a = x.b0 * normal - (lam1 + lam2) * r;
        adj.b = x.b1 * normal + lam1 * r;
        adj.c = x.b2 * normal + lam2 * r;
    } else if (feature <= EDGE_2) {
        Vec3 e = feature == EDGE_0 ? b - a : feature == EDGE_1 ? c - b : a - c;
        real lam = dot(e, g) / dot(e, e);
        adj.p = lam * e;
        Vec3 normal = g - adj.p;
        adj.a = x.b0 * normal, adj.b = x.b1 * normal, adj.c = x.b2 * normal;
        Vec3& first = feature == EDGE_0 ? adj.a : feature == EDGE_1 ? adj.b : adj.c;
        Vec3& last = feature == EDGE_0 ? adj.b : feature == EDGE_1 ? adj.c : adj.a;
        first += -lam * r;
        last += lam * r;
    }
    return adj;
}

}  // namespace gk
