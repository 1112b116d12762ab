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

// Closest point of the triangle (a, b, c) to p: its projection where that falls inside, else the nearest point of the three
// edges. A triangle without area is its edges. Ties go to the lower edge. No branches: T may be lanes.
template <class T> GK_FN TrianglePoint<T> closest_on_triangle(Vec<T> p, Vec<T> a, Vec<T> b, Vec<T> c) {
    const T zero = constant<T>(0), one = constant<T>(1);
    Vec<T> ab = b - a, bc = c - b, ca = a - c, ap = p - a, bp = p - b, cp = p - c;
    Vec<T> n = cross(ab, -ca);
    T wc = dot(n, cross(ab, ap)), wa = dot(n, cross(bc, bp)), wb = dot(n, cross(ca, cp));
    auto inside = (wa > zero) & (wb > zero) & (wc > zero);

    T s = closest_on_segment(ab, ap), t = closest_on_segment(bc, bp), u = closest_on_segment(ca, cp);
    Vec<T> r0 = from_segment(ab, ap, bp, s), r1 = from_segment(bc, bp, cp, t), r2 = from_segment(ca, cp, ap, u);
    T e0 = dot(r0, r0), e1 = dot(r1, r1), e2 = dot(r2, r2);
    auto second = e1 < e0;
    T e = min(e0, e1);
    auto third = e2 < e;

    // The edge's parameter, then its corners.
    T at = select(third, u, select(second, t, s));
    T from = one - at;
    TrianglePoint<T> x;
    x.b0 = select(third, at, select(second, zero, from));
    x.b1 = select(third, zero, select(second, from, at));
    x.b2 = select(third, from, select(second, at, zero));
    T edge = select(third, constant<T>(EDGE_2), select(second, constant<T>(EDGE_1), constant<T>(EDGE_0)));
    T first_corner = edge + constant<T>(CORNER_0 - EDGE_0);
    T last_corner = select(third, constant<T>(CORNER_0), first_corner + one);
    x.feature = select(at <= zero, first_corner, select(at >= one, last_corner, edge));

    T scale = one / select(inside, wa + wb + wc, one);
    T v = wb * scale, w = wc * scale;
    x.b0 = select(inside, one - v - w, x.b0);
    x.b1 = select(inside, v, x.b1);
    x.b2 = select(inside, w, x.b2);
    x.feature = select(inside, constant<T>(FACE), x.feature);
    Vec<T> from_plane = (dot(n, ap) / max(dot(n, n), constant<T>(TINY))) * n;
    x.away = select(inside, from_plane, select(third, r2, select(second, r1, r0)));
    return x;
}

// The same, given the barycentric coordinates and the feature: fills in `away`.
GK_FN TrianglePoint<real> known_on_triangle(Vec3 p, Vec3 a, Vec3 b, Vec3 c, Vec3 weights, int feature) {
    TrianglePoint<real> x = {weights.x, weights.y, weights.z, real(feature), {0, 0, 0}};
    Vec3 n = cross(b - a, c - a);
    if (feature == FACE) x.away = (dot(n, p - a) / max(dot(n, n), TINY)) * n;
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
        Vec3 e1 = b - a, e2 = c - a, n = cross(e1, e2);
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
