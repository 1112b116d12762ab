// A triangle and a point: area, solid angle, closest point. Each function's adjoint stands under it.
#pragma once
#include "../core/vec.h"

namespace gk {

// Which part of a triangle is closest: the inside, edge k (from corner k to corner k + 1), or corner k.
enum Feature { FACE = 0, EDGE_0 = 1, EDGE_1 = 2, EDGE_2 = 3, CORNER_0 = 4, CORNER_1 = 5, CORNER_2 = 6 };

template <class T> struct TrianglePoint {
    T b0, b1, b2;  // barycentric coordinates
    int feature;
};

// The point of segment a + s e, 0 <= s <= 1, closest to the end of r (from a). A segment of no length is its point a.
template <class T> GK_FN T closest_on_segment(Vec<T> e, Vec<T> r) {
    T ee = dot(e, e);
    T s = ee > T(0) ? dot(e, r) / ee : T(0);
    return min(max(s, T(0)), T(1));
}

// Closest point of the triangle (a, b, c) to p, by Voronoi region (Ericson, Real-Time Collision Detection, 5.1.5). A
// triangle without area is its longest extent: the best of its three edges. Ties go to the lower corner, then edge.
template <class T> GK_FN TrianglePoint<T> closest_on_triangle(Vec<T> p, Vec<T> a, Vec<T> b, Vec<T> c) {
    Vec<T> ab = b - a, ac = c - a, bc = c - b, ap = p - a, bp = p - b, cp = p - c;
    T d1 = dot(ab, ap), d2 = dot(ac, ap);
    if (d1 <= T(0) && d2 <= T(0)) return {T(1), T(0), T(0), CORNER_0};
    T d3 = dot(ab, bp), d4 = dot(ac, bp);
    if (d3 >= T(0) && d4 <= d3) return {T(0), T(1), T(0), CORNER_1};
    T d5 = dot(ab, cp), d6 = dot(ac, cp);
    if (d6 >= T(0) && d5 <= d6) return {T(0), T(0), T(1), CORNER_2};

    // Signed areas about the normal, from cross products: Ericson's d1 d4 - d3 d2 cancels on slivers.
    Vec<T> n = cross(ab, ac);
    T wc = dot(n, cross(ab, ap)), wa = dot(n, cross(bc, bp)), wb = dot(n, cross(ap, ac));
    if (wa > T(0) && wb > T(0) && wc > T(0)) {
        T scale = T(1) / (wa + wb + wc);
        T v = wb * scale, w = wc * scale;
        return {T(1) - v - w, v, w, FACE};
    }

    // Outside, or flat: the nearest of the edges.
    T s = closest_on_segment(ab, ap), t = closest_on_segment(bc, bp), u = closest_on_segment(-ac, cp);
    Vec<T> r0 = ap - s * ab, r1 = bp - t * bc, r2 = cp + u * ac;
    T e0 = dot(r0, r0), e1 = dot(r1, r1), e2 = dot(r2, r2);
    if (e0 <= e1 && e0 <= e2) return {T(1) - s, s, T(0), s <= T(0) ? CORNER_0 : s >= T(1) ? CORNER_1 : EDGE_0};
    if (e1 <= e2) return {T(0), T(1) - t, t, t <= T(0) ? CORNER_1 : t >= T(1) ? CORNER_2 : EDGE_1};
    return {u, T(0), T(1) - u, u <= T(0) ? CORNER_2 : u >= T(1) ? CORNER_0 : EDGE_2};
}

template <class T> struct TriangleGradient { Vec<T> a, b, c, p; };

// Given the cotangent g of the closest point x = b0 a + b1 b + b2 c, the cotangents of a, b, c and p.
//
// The feature is constant, so this is the derivative of a projection on a plane, a line, or of a corner
// (geometry.md, "Closest point with cotangent g").
template <class T>
GK_FN TriangleGradient<T> adj_closest_on_triangle(Vec<T> p, Vec<T> a, Vec<T> b, Vec<T> c, TrianglePoint<T> x, Vec<T> g) {
    Vec<T> zero = {T(0), T(0), T(0)};
    Vec<T> closest = x.b0 * a + x.b1 * b + x.b2 * c;
    Vec<T> r = p - closest;
    TriangleGradient<T> adj = {x.b0 * g, x.b1 * g, x.b2 * g, zero};
    if (x.feature == FACE) {
        // lam = (E'E)^-1 E'g with E = [b - a, c - a]; the tangential part of g is E lam.
        Vec<T> e1 = b - a, e2 = c - a;
        T aa = dot(e1, e1), ab = dot(e1, e2), bb = dot(e2, e2), g1 = dot(e1, g), g2 = dot(e2, g);
        Vec<T> n = cross(e1, e2);
        T scale = T(1) / dot(n, n);
        T lam1 = (bb * g1 - ab * g2) * scale, lam2 = (aa * g2 - ab * g1) * scale;
        Vec<T> tangential = lam1 * e1 + lam2 * e2, normal = g - tangential;
        adj.p = tangential;
        adj.a = x.b0 * normal - (lam1 + lam2) * r;
        adj.b = x.b1 * normal + lam1 * r;
        adj.c = x.b2 * normal + lam2 * r;
    } else if (x.feature <= EDGE_2) {
        Vec<T> e = x.feature == EDGE_0 ? b - a : x.feature == EDGE_1 ? c - b : a - c;
        T lam = dot(e, g) / dot(e, e);
        Vec<T> normal = g - lam * e, shift = lam * r;
        adj.p = lam * e;
        adj.a = x.b0 * normal, adj.b = x.b1 * normal, adj.c = x.b2 * normal;
        Vec<T>& from = x.feature == EDGE_0 ? adj.a : x.feature == EDGE_1 ? adj.b : adj.c;
        Vec<T>& to = x.feature == EDGE_0 ? adj.b : x.feature == EDGE_1 ? adj.c : adj.a;
        from += -shift;
        to += shift;
    }
    return adj;
}

}  // namespace gk
