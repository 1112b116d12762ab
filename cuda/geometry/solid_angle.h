// The solid angle of a triangle, and what of it depends on its edges.
#pragma once
#include "../core/vec.h"

namespace gk {

GK_FN double arctangent2(double y, double x) { return atan2(y, x); }

#if GK_GPU
GK_FN float arctangent2(float y, float x) { return ::atan2f(y, x); }
#else
// atan2 on lanes: a minimax polynomial on [0, 1], then the octant. float: error 1e-7. double: library calls.
template <class V> GK_FN V arctangent2(V y, V x) {
    const V zero = constant<V>(0);
    if constexpr (!IS_FLOAT) {
        alignas(64) real a[LANES], b[LANES];
        store(a, y), store(b, x);
        for (int i = 0; i < LANES; ++i) a[i] = atan2(a[i], b[i]);
        return load(a);
    } else {
        V ax = abs(x), ay = abs(y);
        V a = min(ax, ay) / max(max(ax, ay), constant<V>(TINY)), s = a * a;
        V r = s * real(-0.0040540580) + real(0.0218612288);
        r = r * s + real(-0.0559098861);
        r = r * s + real(0.0964200441);
        r = r * s + real(-0.1390853351);
        r = r * s + real(0.1994653599);
        r = r * s + real(-0.3332985605);
        r = (r * s + real(0.9999993329)) * a;
        r = select(ay > ax, real(PI / 2) - r, r);
        r = select(x < zero, real(PI) - r, r);
        return select(y < zero, -r, r);
    }
}
#endif

// The solid angle of the triangle with corners a, b, c seen from the origin, positive when it is seen from behind: 4 pi inside
// a closed mesh. 0 in the plane of the triangle, on it included (Van Oosterom and Strackee 1983).
template <class T> GK_FN T solid_angle(Vec<T> a, Vec<T> b, Vec<T> c) {
    T la = length(a), lb = length(b), lc = length(c);
    T y = dot(a, cross(b, c));
    T x = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb;
    T angle = constant<T>(2) * arctangent2(y, x);
    return select(y != constant<T>(0), angle, constant<T>(0));
}

struct EdgeGradient { Vec3 a, b; };

// How the solid angle of a surface, seen from the origin, grows when the ends of its boundary edge a to b move.
//
// The field r / |r|^3 has no sources, so moving a surface changes its solid angle only by what its boundary sweeps: for an
// edge e with displacement linear from a to b that is the integral of (e x r) / |r|^3, in closed form. Edges between
// two faces cancel, which leaves a closed surface with no gradient at all. Seen from on the edge there is none: zero.
GK_FN EdgeGradient adj_solid_angle(Vec3 a, Vec3 b) {
    real la = length(a), lb = length(b);
    real s = la * lb + dot(a, b);
    Vec3 n = cross(b - a, a);
    // In line with the edge n is 0 but the quotient is not defined between its ends.
    bool defined = s > EPSILON * la * lb && la > 0 && lb > 0;
    real wa = defined ? 1 / (la * s) : 0, wb = defined ? 1 / (lb * s) : 0;
    return {wa * n, wb * n};
}

}  // namespace gk
