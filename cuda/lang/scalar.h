// Scalar functions of the kernel language, on float and double.
//
// On the CPU they are our own: without branches, tables and library calls, so that loops of them become vector code, and with
// the same bits on every processor that fuses products. On the GPU they are CUDA's. Errors, in units of the last place, are
// those that tests/lang/test_scalar.py measures.
#pragma once
#include "../core/platform.h"

namespace gkl {

using gk::uint;
using gk::uint64;

// ---- bits

#if GK_GPU
GK_FN uint bits(float x) { return __float_as_uint(x); }
GK_FN uint64 bits(double x) { return (uint64)__double_as_longlong(x); }
GK_FN float of_bits(uint b) { return __uint_as_float(b); }
GK_FN double of_bits(uint64 b) { return __longlong_as_double((long long)b); }
GK_FN float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
GK_FN double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
GK_FN float sqrt(float x) { return ::sqrtf(x); }
GK_FN double sqrt(double x) { return ::sqrt(x); }
GK_FN float floor(float x) { return ::floorf(x); }
GK_FN double floor(double x) { return ::floor(x); }
GK_FN float ceil(float x) { return ::ceilf(x); }
GK_FN double ceil(double x) { return ::ceil(x); }
GK_FN float trunc(float x) { return ::truncf(x); }
GK_FN double trunc(double x) { return ::trunc(x); }
GK_FN float round(float x) { return ::rintf(x); }
GK_FN double round(double x) { return ::rint(x); }
GK_FN float fmod(float a, float b) { return ::fmodf(a, b); }
GK_FN double fmod(double a, double b) { return ::fmod(a, b); }
#else
GK_FN uint bits(float x) {
    uint b;
    __builtin_memcpy(&b, &x, sizeof b);
    return b;
}
GK_FN uint64 bits(double x) {
    uint64 b;
    __builtin_memcpy(&b, &x, sizeof b);
    return b;
}
GK_FN float of_bits(uint b) {
    float x;
    __builtin_memcpy(&x, &b, sizeof x);
    return x;
}
GK_FN double of_bits(uint64 b) {
    double x;
    __builtin_memcpy(&x, &b, sizeof x);
    return x;
}
GK_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
GK_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
GK_FN float sqrt(float x) { return __builtin_sqrtf(x); }
GK_FN double sqrt(double x) { return __builtin_sqrt(x); }
GK_FN float floor(float x) { return __builtin_floorf(x); }
GK_FN double floor(double x) { return __builtin_floor(x); }
GK_FN float ceil(float x) { return __builtin_ceilf(x); }
GK_FN double ceil(double x) { return __builtin_ceil(x); }
GK_FN float trunc(float x) { return __builtin_truncf(x); }
GK_FN double trunc(double x) { return __builtin_trunc(x); }
// Halves go to the even neighbour.
GK_FN float round(float x) { return __builtin_rintf(x); }
GK_FN double round(double x) { return __builtin_rint(x); }
// Exact for all arguments, which takes a loop: this one is the library's, and no vector code.
GK_FN float fmod(float a, float b) { return __builtin_fmodf(a, b); }
GK_FN double fmod(double a, double b) { return __builtin_fmod(a, b); }
#endif

GK_FN float abs(float x) { return of_bits(bits(x) & 0x7fffffffu); }
GK_FN double abs(double x) { return of_bits(bits(x) & ~(1ull << 63)); }
GK_FN float copysign(float x, float s) { return of_bits((bits(x) & 0x7fffffffu) | (bits(s) & 0x80000000u)); }
GK_FN double copysign(double x, double s) { return of_bits((bits(x) & ~(1ull << 63)) | (bits(s) & 1ull << 63)); }
template <class T> GK_FN T infinity();
template <> GK_FN float infinity<float>() { return of_bits(0x7f800000u); }
template <> GK_FN double infinity<double>() { return of_bits(0x7ffull << 52); }
template <class T> GK_FN T nan();
template <> GK_FN float nan<float>() { return of_bits(0x7fc00000u); }
template <> GK_FN double nan<double>() { return of_bits(0x7ff8ull << 48); }
// By the bits: these hold under every flag of the compiler.
GK_FN bool isnan(float x) { return (bits(x) & 0x7fffffffu) > 0x7f800000u; }
GK_FN bool isnan(double x) { return (bits(x) & ~(1ull << 63)) > 0x7ffull << 52; }
GK_FN bool isfinite(float x) { return (bits(x) & 0x7fffffffu) < 0x7f800000u; }
GK_FN bool isfinite(double x) { return (bits(x) & ~(1ull << 63)) < 0x7ffull << 52; }
GK_FN bool isinf(float x) { return (bits(x) & 0x7fffffffu) == 0x7f800000u; }
GK_FN bool isinf(double x) { return (bits(x) & ~(1ull << 63)) == 0x7ffull << 52; }

// ---- any numbers, integers included

template <class T> GK_FN T abs(T x) { return x < T(0) ? T(-x) : x; }
template <class T> GK_FN T min(T a, T b) { return a < b ? a : b; }
template <class T> GK_FN T max(T a, T b) { return a > b ? a : b; }
template <class T> GK_FN T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); }
template <class T> GK_FN T sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }
template <class T> GK_FN T step(T edge, T x) { return x < edge ? T(0) : T(1); }
template <class T> GK_FN T lerp(T a, T b, T t) { return a + (b - a) * t; }
template <class T> GK_FN T smoothstep(T lo, T hi, T x) {
    T t = clamp((x - lo) / (hi - lo), T(0), T(1));
    return t * t * (T(3) - T(2) * t);
}
template <class T> GK_FN T rsqrt(T x) { return T(1) / sqrt(x); }

// Python's quotient and remainder: rounded down, the remainder with the sign of the divisor.
template <class T> GK_FN T floordiv(T a, T b) {
    T q = a / b;
    return q * b != a && (a < T(0)) != (b < T(0)) ? q - T(1) : q;
}
template <class T> GK_FN T mod(T a, T b) {
    T r = a % b;
    return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}
template <class T> GK_FN T real_mod(T a, T b) {
    T r = fmod(a, b);
    return r == T(0) ? copysign(T(0), b) : (r < T(0)) != (b < T(0)) ? r + b : r;
}
GK_FN float mod(float a, float b) { return real_mod(a, b); }
GK_FN double mod(double a, double b) { return real_mod(a, b); }
template <class T> GK_FN T real_floordiv(T a, T b) {
    T q = round((a - mod(a, b)) / b);
    return b == T(0) ? a / b : q;
}
GK_FN float floordiv(float a, float b) { return real_floordiv(a, b); }
GK_FN double floordiv(double a, double b) { return real_floordiv(a, b); }

}  // namespace gkl

#if GK_GPU
#include "scalar_gpu.h"
#else
#include "scalar_cpu.h"
#endif
