// Scalar functions of both machines, overloaded on float and double.
#pragma once
#include "platform.h"

namespace gk {

constexpr bool IS_FLOAT = sizeof(real) == 4;
constexpr real EPSILON = IS_FLOAT ? real(1.1920929e-7) : real(2.220446049250313e-16);  // distance from 1 to the next number
constexpr real INFINITE = IS_FLOAT ? real(3.4e38) : real(1.7e308);  // a bound that no finite mesh reaches
constexpr real TINY = IS_FLOAT ? real(1e-37) : real(1e-300);        // keeps a quotient finite without changing a sum
constexpr double PI = 3.14159265358979323846;

GK_FN float min(float a, float b) { return a < b ? a : b; }
GK_FN double min(double a, double b) { return a < b ? a : b; }
GK_FN int min(int a, int b) { return a < b ? a : b; }
GK_FN float max(float a, float b) { return a > b ? a : b; }
GK_FN double max(double a, double b) { return a > b ? a : b; }
GK_FN int max(int a, int b) { return a > b ? a : b; }

#if GK_GPU
GK_FN float abs(float a) { return ::fabsf(a); }
GK_FN double abs(double a) { return ::fabs(a); }
GK_FN float sqrt(float a) { return ::sqrtf(a); }
GK_FN double sqrt(double a) { return ::sqrt(a); }
GK_FN float floor(float a) { return ::floorf(a); }
GK_FN double floor(double a) { return ::floor(a); }
GK_FN double atan2(double y, double x) { return ::atan2(y, x); }
GK_FN float sin(float a) { return ::sinf(a); }
GK_FN double sin(double a) { return ::sin(a); }
GK_FN float cos(float a) { return ::cosf(a); }
GK_FN double cos(double a) { return ::cos(a); }
GK_FN float exp(float a) { return ::expf(a); }
GK_FN double exp(double a) { return ::exp(a); }
GK_FN float log(float a) { return ::logf(a); }
GK_FN double log(double a) { return ::log(a); }
GK_FN void prefetch(const void*) {}
GK_FN int lowest_bit(uint a) { return __ffs((int)a) - 1; }
GK_FN int count_bits(uint a) { return __popc(a); }
GK_FN int leading_zeros(uint64 a) { return __clzll((long long)a); }
GK_FN uint64 bits_of(double a) { return (uint64)__double_as_longlong(a); }
GK_FN double double_of(uint64 a) { return __longlong_as_double((long long)a); }
#else
GK_FN float abs(float a) { return __builtin_fabsf(a); }
GK_FN double abs(double a) { return __builtin_fabs(a); }
GK_FN float sqrt(float a) { return __builtin_sqrtf(a); }
GK_FN double sqrt(double a) { return __builtin_sqrt(a); }
GK_FN float floor(float a) { return __builtin_floorf(a); }
GK_FN double floor(double a) { return __builtin_floor(a); }
GK_FN double atan2(double y, double x) { return __builtin_atan2(y, x); }
GK_FN float sin(float a) { return __builtin_sinf(a); }
GK_FN double sin(double a) { return __builtin_sin(a); }
GK_FN float cos(float a) { return __builtin_cosf(a); }
GK_FN double cos(double a) { return __builtin_cos(a); }
GK_FN float exp(float a) { return __builtin_expf(a); }
GK_FN double exp(double a) { return __builtin_exp(a); }
GK_FN float log(float a) { return __builtin_logf(a); }
GK_FN double log(double a) { return __builtin_log(a); }
GK_FN void prefetch(const void* p) { __builtin_prefetch(p); }
GK_FN int lowest_bit(uint a) { return __builtin_ctz(a); }
GK_FN int count_bits(uint a) { return __builtin_popcount(a); }
GK_FN int leading_zeros(uint64 a) { return a ? __builtin_clzll(a) : 64; }
GK_FN uint64 bits_of(double a) {
    uint64 b;
    __builtin_memcpy(&b, &a, sizeof b);
    return b;
}
GK_FN double double_of(uint64 a) {
    double b;
    __builtin_memcpy(&b, &a, sizeof b);
    return b;
}
#endif
GK_FN double infinity() { return double_of(0x7ffull << 52); }
// The greatest power of two not above a > 0, or the least normal number.
GK_FN double power_of_two(double a) { return max(double_of(bits_of(a) & 0x7ffull << 52), 0x1p-1022); }

// Cosine and sine of 2 pi a, for 0 <= a <= 1.
template <class T> struct Turn {
    T cosine, sine;
};
GK_FN Turn<double> turned(double a) { return {cos(2 * PI * a), sin(2 * PI * a)}; }
// By the half angle, of which the series is short, and without a branch.
GK_FN Turn<float> turned(float a) {
    float x = float(PI) * (a - 0.5f), y = x * x;
    float s = x * (1 + y * (-1 / 6.f + y * (1 / 120.f + y * (-1 / 5040.f + y * (1 / 362880.f - y / 39916800.f)))));
    float c = 1 + y * (-0.5f + y * (1 / 24.f + y * (-1 / 720.f + y * (1 / 40320.f + y * (-1 / 3628800.f + y / 479001600.f)))));
    return {2 * s * s - 1, -2 * s * c};
}

// On lanes these choose and compare lane by lane (lanes.h); mathematics written with them serves both.
GK_FN float select(bool m, float a, float b) { return m ? a : b; }
GK_FN double select(bool m, double a, double b) { return m ? a : b; }
template <class T> struct Constant {
    GK_FN static T of(double a) { return T(a); }
};
template <class T> GK_FN T constant(double a) { return Constant<T>::of(a); }

}  // namespace gk
