// Elementary functions for the CPU: minimax polynomials after a reduction of the argument, no branches.
#pragma once

namespace gkl {

// Polynomials by their coefficients from the lowest on.
template <class T, class... C> GK_FN T poly(T x, double first, C... rest) {
    if constexpr (sizeof...(C) == 0) return T(first);
    else return fma(poly(x, rest...), x, T(first));
}
// 2^n for an exponent of a normal number.
template <class T> GK_FN T power2(int n);
template <> GK_FN float power2<float>(int n) { return of_bits((uint)(n + 127) << 23); }
template <> GK_FN double power2<double>(int n) { return of_bits((uint64)(uint)(n + 1023) << 52); }
// x 2^n in two steps: no exponent of a result is out of reach.
template <class T> GK_FN T scale2(T x, int n) {
    int half = n >> 1;
    return x * power2<T>(half) * power2<T>(n - half);
}

// ---- sine and cosine

// An angle less quadrant times pi / 2, as a number and a correction to it.
template <class T> struct Turn {
    T r, low;
    int quadrant;
};

// From here on an angle has no sine: the next float is 4 million away, the next double 0.008.
constexpr double LAST_ANGLE = 35184372088832.0;  // 2^45

// pi / 2 in three doubles. The first step is exact: the quotient has at most 45 bits, and the rest lies below 1.
GK_FN Turn<double> turn(double x) {
    const double P1 = 0x1.921fb54442d18p+0, P2 = 0x1.1a62633145c07p-54, P3 = -0x1.f1976b7ed8fbcp-110;
    double q = round(x * 0.63661977236758134308);
    double first = fma(-q, P1, x), second = q * P2, r = first - second;
    // What the product and the difference lost in rounding (Knuth 1969, 4.2.2).
    double taken = r - first, low = (first - (r - taken)) - (second + taken) - fma(q, P2, -second);
    low = fma(-q, P3, low);
    r = abs(x) < LAST_ANGLE ? r : nan<double>();
    return {r, low, (int)(q - 4 * round(q * 0.25))};
}
GK_FN Turn<float> turn(float x) {
    double d = x, q = round(d * 0.63661977236758134308);
    double r = fma(-q, 0x1.1a62633145c07p-54, fma(-q, 0x1.921fb54442d18p+0, d));
    float f = abs(x) < float(LAST_ANGLE) ? float(r) : nan<float>();
    return {f, 0, (int)(q - 4 * round(q * 0.25))};
}

GK_FN float sin_of(Turn<float> t) {
    float z = t.r * t.r;
    return fma(t.r * z, poly(z, -0.166666667, 0.00833333185, -0.000198400747, 2.72483668e-6), t.r);
}
GK_FN double sin_of(Turn<double> t) {
    double z = t.r * t.r;
    double p = poly(z, -0.16666666666666667, 0.0083333333333333314, -0.00019841269841264942, 2.7557319219243802e-6,
                       -2.5052106199405445e-8, 1.6058526395022022e-10, -7.5863899582042847e-13);
    return t.r + fma(t.r * z, p, fma(-0.5 * z, t.low, t.low));
}
GK_FN float cos_of(Turn<float> t) {
    float z = t.r * t.r, one = fma(-0.5f, z, 1.0f), lost = fma(-0.5f, z, 1.0f - one);
    return one + fma(z * z, poly(z, 0.0416666646, -0.00138882971, 2.45466555e-5), lost);
}
GK_FN double cos_of(Turn<double> t) {
    double z = t.r * t.r, one = fma(-0.5, z, 1.0), lost = fma(-0.5, z, 1.0 - one);
    double p = poly(z, 0.041666666666666665, -0.0013888888888887359, 2.4801587298707778e-5, -2.755731724176732e-7,
                       2.0876140039594269e-9, -1.1382184802496203e-11);
    return one + fma(z * z, p, fma(-t.r, t.low, lost));
}
template <class T> GK_FN T sin_t(T x) {
    Turn<T> t = turn(x);
    T s = sin_of(t), c = cos_of(t), r = t.quadrant & 1 ? c : s;
    r = t.quadrant & 2 ? -r : r;
    return x == T(0) ? x : r;
}
template <class T> GK_FN T cos_t(T x) {
    Turn<T> t = turn(x);
    T s = sin_of(t), c = cos_of(t), r = t.quadrant & 1 ? s : c;
    return (t.quadrant + 1) & 2 ? -r : r;
}
template <class T> GK_FN T tan_t(T x) {
    Turn<T> t = turn(x);
    T s = sin_of(t), c = cos_of(t);
    bool odd = t.quadrant & 1;
    T r = (odd ? -c : s) / (odd ? s : c);
    return x == T(0) ? x : r;
}
GK_FN float sin(float x) { return sin_t(x); }
GK_FN double sin(double x) { return sin_t(x); }
GK_FN float cos(float x) { return cos_t(x); }
GK_FN double cos(double x) { return cos_t(x); }
GK_FN float tan(float x) { return tan_t(x); }
GK_FN double tan(double x) { return tan_t(x); }

// ---- exponentials

// e^r - 1 for |r| <= ln(2) / 2.
GK_FN float small_expm1(float r) {
    return fma(r * r, poly(r, 0.500000001, 0.166666667, 0.0416664642, 0.00833331084, 0.00139337307, 0.000198910805), r);
}
GK_FN double small_expm1(double r) {
    double p = poly(r, 0.5, 0.16666666666666671, 0.04166666666666667, 0.0083333333333260831, 0.0013888888888883711,
                       0.00019841269875002279, 2.4801587325677462e-5, 2.7557255170000887e-6, 2.755727347871858e-7,
                       2.5105312729622102e-8, 2.0914755325893202e-9);
    return fma(r * r, p, r);
}

// x = n ln(2) + r. Beyond the least and the greatest the power is zero or infinite in any case.
template <class T> struct Power {
    T r;
    int n;
};
template <class T> GK_FN T within(T x, T least, T greatest) {
    x = x < least ? least : x;
    return x > greatest ? greatest : x;
}
GK_FN Power<float> split_exp(float x) {
    x = within(x, -104.0f, 89.5f);
    float n = round(x * 1.44269504f);
    return {fma(-n, 0x1.7f7d1cp-20f, fma(-n, 0x1.62e4p-1f, x)), (int)n};
}
GK_FN Power<double> split_exp(double x) {
    x = within(x, -746.0, 711.0);
    double n = round(x * 1.4426950408889634074);
    return {fma(-n, -0x1.718432a1b0e26p-35, fma(-n, 0x1.62e42ff000000p-1, x)), (int)n};
}
GK_FN Power<float> split_exp2(float x) {
    x = within(x, -151.0f, 129.0f);
    float n = round(x);
    return {(x - n) * 0.693147181f, (int)n};
}
GK_FN Power<double> split_exp2(double x) {
    x = within(x, -1077.0, 1025.0);
    double n = round(x);
    return {(x - n) * 0.6931471805599453094, (int)n};
}
template <class T> GK_FN T power_of(Power<T> p) { return scale2(T(1) + small_expm1(p.r), p.n); }

GK_FN float exp(float x) { return power_of(split_exp(x)); }
GK_FN double exp(double x) { return power_of(split_exp(x)); }
GK_FN float exp2(float x) { return power_of(split_exp2(x)); }
GK_FN double exp2(double x) { return power_of(split_exp2(x)); }

// (e^x - 1) / 2 for x >= 0: in range as long as the hyperbolic sine is.
template <class T> GK_FN T half_expm1(T x) {
    Power<T> p = split_exp(x);
    T back = scale2(T(1), -p.n);
    return scale2(small_expm1(p.r) + (T(1) - back), p.n - 1);
}
template <class T> GK_FN T sinh_t(T x) {
    T h = half_expm1(abs(x)), rest = h < T(1e30) ? h / (T(2) * h + T(1)) : T(0.5);
    return copysign(h + rest, x);
}
template <class T> GK_FN T cosh_t(T x) {
    Power<T> p = split_exp(abs(x));
    T c = scale2(T(1) + small_expm1(p.r), p.n - 1);
    return c + T(0.25) / c;
}
template <class T> GK_FN T tanh_t(T x) {
    T a = abs(x), h = half_expm1(T(2) * (a > T(20) ? T(20) : a));
    return copysign(h / (h + T(1)), x);
}
GK_FN float sinh(float x) { return sinh_t(x); }
GK_FN double sinh(double x) { return sinh_t(x); }
GK_FN float cosh(float x) { return cosh_t(x); }
GK_FN double cosh(double x) { return cosh_t(x); }
GK_FN float tanh(float x) { return tanh_t(x); }
GK_FN double tanh(double x) { return tanh_t(x); }

// ---- logarithms

// x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2).
template <class T> struct Scaled {
    T k, f;
};
GK_FN Scaled<float> split_log(float x) {
    bool small = x < 0x1p-126f;
    uint b = bits(small ? x * 0x1p23f : x) + (0x3f800000u - 0x3f3504f3u);
    int k = (int)(b >> 23) - (small ? 150 : 127);
    return {(float)k, of_bits((b & 0x7fffffu) + 0x3f3504f3u) - 1};
}
GK_FN Scaled<double> split_log(double x) {
    const uint64 ROOT = 0x3fe6a09e667f3bcdull;
    bool small = x < 0x1p-1022;
    uint64 b = bits(small ? x * 0x1p52 : x) + ((0x3ffull << 52) - ROOT);
    int k = (int)(uint)(b >> 52) - (small ? 1075 : 1023);
    return {(double)k, of_bits((b & ((1ull << 52) - 1)) + ROOT) - 1};
}
// ln(1 + f) - f.
GK_FN float log1p_tail(float f) {
    float p = poly(f, 0.333333312, -0.24999997, 0.200007157, -0.166678023, 0.142490576, -0.124256873, 0.116854199, -0.114797338,
                      0.0697161147);
    return fma(f * f * f, p, -0.5f * f * f);
}
GK_FN double log1p_tail(double f) {
    double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
    double p = z * poly(z, 0.66666666666666666, 0.40000000000000877, 0.28571428570803612, 0.22222222391713917,
                           0.18181795640132906, 0.15386239702814658, 0.13268773138656885, 0.13086626147840102);
    return s * (half + p) - half;
}
// What a logarithm is where it is no number.
template <class T> GK_FN T log_range(T x, T r) {
    r = x < infinity<T>() ? r : x;
    return x > T(0) ? r : x == T(0) ? -infinity<T>() : nan<T>();
}
GK_FN float log(float x) {
    Scaled<float> s = split_log(x);
    float tail = fma(s.k, 0x1.7f7d1cp-20f, log1p_tail(s.f));
    return log_range(x, fma(s.k, 0x1.62e4p-1f, s.f + tail));
}
GK_FN double log(double x) {
    Scaled<double> s = split_log(x);
    double tail = fma(s.k, -0x1.718432a1b0e26p-35, log1p_tail(s.f));
    return log_range(x, fma(s.k, 0x1.62e42ff000000p-1, s.f + tail));
}
// In two parts of 1 / ln(2) or 1 / ln(10): a single product would be a rounding off.
GK_FN float log2(float x) {
    Scaled<float> s = split_log(x);
    float tail = log1p_tail(s.f), r = fma(s.f, 1.44269502f, fma(s.f, 1.92596303e-8f, tail * 1.44269502f));
    return log_range(x, s.k + r);
}
GK_FN double log2(double x) {
    Scaled<double> s = split_log(x);
    double tail = log1p_tail(s.f);
    double r = fma(s.f, 0x1.71547652b82fep+0, fma(s.f, 0x1.777d0ffda0d24p-56, tail * 0x1.71547652b82fep+0));
    return log_range(x, s.k + r);
}
template <class T> GK_FN T log10_t(T x) {
    Scaled<T> s = split_log(x);
    T tail = log1p_tail(s.f) * T(0.4342944819032518277), r = fma(s.f, T(0.4342944819032518277), tail);
    return log_range(x, fma(s.k, T(0.3010299956639811952), r));
}
GK_FN float log10(float x) { return log10_t(x); }
GK_FN double log10(double x) { return log10_t(x); }

// ---- powers

// The logarithm to base 2 of x > 0 as a sum of two doubles, good to 2^-62: 2^1000 asks for that.
struct Sum {
    double high, low;
};
GK_FN Sum long_log2(double x) {
    const double A1 = 0x1.71547652b82fep+1, A2 = 0x1.777d0ffda0d24p-55, B1 = 0x1.ec709dc3a03fdp-1, B2 = 0x1.d27f05548af0cp-55;
    Scaled<double> v = split_log(x);
    // s = f / (2 + f), and its cube, in two parts each.
    double d = 2 + v.f, dl = v.f - (d - 2), s = v.f / d, sl = fma(-s, dl, fma(-s, d, v.f)) / d;
    double z = s * s, zl = fma(s, s, -z) + 2 * s * sl, c = s * z, cl = fma(s, z, -c) + fma(s, zl, sl * z);
    double tail = c * z * poly(z, 0.57707801635558536, 0.41219858311114386, 0.32059889796715968, 0.26230819146702117,
                                  0.22195278870596163, 0.19238055945712836, 0.16888546717402389, 0.16912787582324892);
    double a = A1 * s, al = fma(A1, s, -a) + fma(A1, sl, A2 * s);
    double b = B1 * c, bl = fma(B1, c, -b) + fma(B1, cl, B2 * c) + tail;
    double t = a + b, tl = (a - t) + b + al + bl, high = v.k + t, low = (v.k - high) + t + tl;
    return {high, low};
}
GK_FN double positive_power(double x, double y) {
    Sum l = long_log2(x);
    l.high = log_range(x, l.high);
    double p = y * l.high, low = fma(y, l.high, -p) + y * l.low;
    double at = within(p, -1100.0, 1100.0), n = round(at);
    double rest = (at - n) + (at == p ? low : 0.0);
    return scale2(1 + small_expm1(rest * 0.6931471805599453094), (int)n);
}
GK_FN double positive_power(float x, float y) {
    return exp2(within((double)y * log2((double)x), -1100.0, 1100.0));
}
template <class T> GK_FN T pow_t(T x, T y) {
    T a = abs(x), r = T(positive_power(a, y)), half = y * T(0.5);
    bool whole = trunc(y) == y, odd = whole & (trunc(half) != half), same = y == y;
    r = ((a == T(1)) & same) ? T(1) : r;
    r = odd ? copysign(r, x) : r;
    r = ((x < T(0)) & (a < infinity<T>()) & !whole) ? nan<T>() : r;
    return ((y == T(0)) | (x == T(1))) ? T(1) : r;
}
GK_FN float pow(float x, float y) { return pow_t(x, y); }
GK_FN double pow(double x, double y) { return pow_t(x, y); }

// ---- inverse functions

constexpr double HALF_PI = 1.5707963267948966, HALF_PI_LOW = 6.123233995736766e-17;

// The arctangent of t, |t| <= tan(pi / 8), less t.
GK_FN float atan_tail(float t) {
    float z = t * t;
    return t * z * poly(z, -0.333333318, 0.199995405, -0.142639556, 0.107437315, -0.0645192821);
}
GK_FN double atan_tail(double t) {
    double z = t * t;
    return t * z * poly(z, -0.33333333333333333, 0.19999999999999992, -0.14285714285711519, 0.11111111110754729,
                           -0.090909090670099901, 0.076923067360001735, -0.066666420200551662, 0.058819252531928636,
                           -0.052580415542977796, 0.04719395030027433, -0.04104436265755082, 0.030635704112969497,
                           -0.013918229291024428);
}
// The arctangent of up / down, both >= 0, not both 0.
template <class T> GK_FN T atan_of(T up, T down) {
    bool steep = up > T(2.414213562373095) * down, flat = up <= T(0.4142135623730951) * down;
    T num = steep ? -down : flat ? up : up - down, den = steep ? up : flat ? down : up + down, t = num / den;
    T tail = atan_tail(t), eighth = steep ? T(2) : flat ? T(0) : T(1);
    T high = eighth * T(0.78539816339744831);
    T low = eighth * T(sizeof(T) == 4 ? 0.78539816339744831 - double(T(0.78539816339744831)) : HALF_PI_LOW / 2);
    return high + (t + (tail + low));
}
template <class T> GK_FN T atan_t(T x) {
    T a = abs(x);
    a = a > T(1e30) ? T(1e30) : a;
    return copysign(atan_of(a, T(1)), x);
}
template <class T> GK_FN T atan2_t(T y, T x) {
    // Powers of two keep the sums from overflow and the quotient's digits from underflow.
    T ax = abs(x), ay = abs(y), large = ay < ax ? ax : ay;
    T unit = large > T(1e30) ? T(0.0625) : large < T(1e-30) ? T(0x1p60) : T(1);
    T up = isinf(ay) ? T(1) : isinf(ax) ? T(0) : ay * unit, down = isinf(ax) ? T(1) : isinf(ay) ? T(0) : ax * unit;
    down = large == T(0) ? T(1) : down;
    T r = atan_of(up, down);
    bool left = bits(x) >> (8 * sizeof(T) - 1);
    T half = T(HALF_PI), low = T(sizeof(T) == 4 ? HALF_PI - double(half) : HALF_PI_LOW);
    r = left ? T(2) * half - (r - T(2) * low) : r;
    r = isnan(y) ? y : copysign(r, y);
    return isnan(x) ? x : r;
}
GK_FN float asin_tail(float z) { return z * poly(z, 0.166666663, 0.0750009454, 0.0445994015, 0.0311006627, 0.0171492384, 0.0336908472); }
GK_FN double asin_tail(double z) {
    return z * poly(z, 0.16666666666666667, 0.075000000000001178, 0.044642857142551893, 0.03038194447553234,
                       0.022372157443507222, 0.017352816540325495, 0.01396378001220357, 0.011566459612121669,
                       0.009621842970100281, 0.0093195607947674463, 0.0030448799094556774, 0.019554513336123379,
                       -0.019241671746743041, 0.02961201126495512);
}
// For |x| <= 1/2 the series; else half the angle: asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2)).
template <class T> struct Arc {
    T root, tail;  // the arcsine of the root is root + tail
    bool near_one;
};
template <class T> GK_FN Arc<T> arc(T a) {
    bool near_one = a > T(0.5);
    T z = near_one ? T(0.5) * (T(1) - a) : a * a, root = near_one ? sqrt(z) : a;
    // What rounding took from the root.
    T lost = near_one && root > T(0) ? fma(-root, root, z) / (T(2) * root) : T(0);
    return {root, fma(root, asin_tail(z), lost), near_one};
}
template <class T> GK_FN T asin_t(T x) {
    Arc<T> found = arc(abs(x));
    T half = T(HALF_PI), low = T(sizeof(T) == 4 ? HALF_PI - double(half) : HALF_PI_LOW);
    T far = half - (T(2) * found.root + (T(2) * found.tail - low));
    return copysign(found.near_one ? far : found.root + found.tail, x);
}
template <class T> GK_FN T acos_t(T x) {
    Arc<T> found = arc(abs(x));
    T half = T(HALF_PI), low = T(sizeof(T) == 4 ? HALF_PI - double(half) : HALF_PI_LOW);
    T twice = T(2) * (found.root + found.tail), signed_root = copysign(found.root, x), signed_tail = copysign(found.tail, x);
    T near = x < T(0) ? T(2) * half - (T(2) * found.root + (T(2) * found.tail - T(2) * low)) : twice;
    return found.near_one ? near : half - (signed_root + (signed_tail - low));
}
GK_FN float atan(float x) { return atan_t(x); }
GK_FN double atan(double x) { return atan_t(x); }
GK_FN float atan2(float y, float x) { return atan2_t(y, x); }
GK_FN double atan2(double y, double x) { return atan2_t(y, x); }
GK_FN float asin(float x) { return asin_t(x); }
GK_FN double asin(double x) { return asin_t(x); }
GK_FN float acos(float x) { return acos_t(x); }
GK_FN double acos(double x) { return acos_t(x); }

}  // namespace gkl
