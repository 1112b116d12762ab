// On which side of a line or a plane a point lies: signs that rounding does not change.
#pragma once
#include "face.h"

namespace gk {

// A number as a sum of two, of about 106 bits (Dekker 1971).
struct Twofold {
    double high, low;
};
GK_FN double rounded(double a) {
#if !GK_GPU
    keep(a);
#endif
    return a;
}
GK_FN Twofold two_sum(double a, double b) {
    double s = rounded(a + b), c = rounded(s - a);
    return {s, (a - rounded(s - c)) + (b - c)};
}
GK_FN Twofold two_product(double a, double b) {
    double p = rounded_product(a, b);
#if GK_GPU
    return {p, __fma_rn(a, b, -p)};
#else
    double sa = rounded(a * 134217729), sb = rounded(b * 134217729);
    double a1 = sa - rounded(sa - a), b1 = sb - rounded(sb - b), a2 = a - a1, b2 = b - b1;
    return {p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2};
#endif
}
GK_FN Twofold operator+(Twofold a, Twofold b) {
    Twofold s = two_sum(a.high, b.high), t = two_sum(a.low, b.low);
    s = two_sum(s.high, s.low + t.high);
    return two_sum(s.high, s.low + t.low);
}
GK_FN Twofold operator-(Twofold a) { return {-a.high, -a.low}; }
GK_FN Twofold operator*(Twofold a, Twofold b) {
    Twofold p = two_product(a.high, b.high);
    return two_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

// Bounds of the rounding, relative to the sum of the sizes of all products: in double (Shewchuk 1997), and in twofold numbers.
// What is below the second counts as zero; of coordinates of 24 bits nothing but zero is.
constexpr double ROUNDING_2 = 3.4e-16, ROUNDING_3 = 7.8e-16, TWOFOLD_ROUNDING = 1e-29;

GK_FN int sign_of(double a, double bound) { return a > bound ? 1 : a < -bound ? -1 : 0; }

// The sign of (a - c) x (b - c): positive if a, b, c turn counter-clockwise.
GK_ONCE int orientation(double ax, double ay, double bx, double by, double cx, double cy) {
    double left = (ax - cx) * (by - cy), right = (ay - cy) * (bx - cx), size = abs(left) + abs(right);
    int sign = sign_of(left - right, ROUNDING_2 * size);
    if (sign || size == 0) return sign;
    Twofold exact = two_sum(ax, -cx) * two_sum(by, -cy) + -(two_sum(ay, -cy) * two_sum(bx, -cx));
    return sign_of(exact.high, TWOFOLD_ROUNDING * size);
}

GK_FN Twofold twofold_minor(double ax, double ay, double bx, double by, double dx, double dy) {
    return two_sum(ax, -dx) * two_sum(by, -dy) + -(two_sum(ay, -dy) * two_sum(bx, -dx));
}

// The side of the plane through a, b and c that d is on: the sign of (a - d) . ((b - d) x (c - d)).
GK_ONCE int orientation(Vec3d a, Vec3d b, Vec3d c, Vec3d d) {
    Vec3d u = a - d, v = b - d, w = c - d;
    double vw1 = v.x * w.y, vw2 = v.y * w.x, wu1 = w.x * u.y, wu2 = w.y * u.x, uv1 = u.x * v.y, uv2 = u.y * v.x;
    double det = u.z * (vw1 - vw2) + v.z * (wu1 - wu2) + w.z * (uv1 - uv2);
    double size = abs(u.z) * (abs(vw1) + abs(vw2)) + abs(v.z) * (abs(wu1) + abs(wu2)) + abs(w.z) * (abs(uv1) + abs(uv2));
    int sign = sign_of(det, ROUNDING_3 * size);
    if (sign || size == 0) return sign;
    Twofold exact = two_sum(a.z, -d.z) * twofold_minor(b.x, b.y, c.x, c.y, d.x, d.y) +
                    two_sum(b.z, -d.z) * twofold_minor(c.x, c.y, a.x, a.y, d.x, d.y) +
                    two_sum(c.z, -d.z) * twofold_minor(a.x, a.y, b.x, b.y, d.x, d.y);
    return sign_of(exact.high, TWOFOLD_ROUNDING * size);
}

// The same of points seen along an axis.
GK_FN int orientation_along(int axis, Vec3d a, Vec3d b, Vec3d c) {
    if (axis == 0) return orientation(a.y, a.z, b.y, b.z, c.y, c.z);
    return axis == 1 ? orientation(a.z, a.x, b.z, b.x, c.z, c.x) : orientation(a.x, a.y, b.x, b.y, c.x, c.y);
}

}  // namespace gk
