// Elementary functions of the GPU: those of CUDA. An angle has a sine as long as it has one on the CPU.
#pragma once

namespace gkl {

#define GK_SCALAR(NAME)                                      \
    GK_FN float NAME(float x) { return ::NAME##f(x); }  \
    GK_FN double NAME(double x) { return ::NAME(x); }
GK_SCALAR(asin) GK_SCALAR(acos) GK_SCALAR(atan) GK_SCALAR(exp) GK_SCALAR(exp2) GK_SCALAR(log) GK_SCALAR(log2) GK_SCALAR(log10)
GK_SCALAR(sinh) GK_SCALAR(cosh) GK_SCALAR(tanh)
#undef GK_SCALAR

constexpr double LAST_ANGLE = 35184372088832.0;  // 2^45, see scalar_cpu.h
#define GK_ANGLE(NAME)                                                                                                      \
    GK_FN float NAME(float x) { return abs(x) < float(LAST_ANGLE) ? ::NAME##f(x) : nan<float>(); }            \
    GK_FN double NAME(double x) { return abs(x) < LAST_ANGLE ? ::NAME(x) : nan<double>(); }
GK_ANGLE(sin) GK_ANGLE(cos) GK_ANGLE(tan)
#undef GK_ANGLE

GK_FN float atan2(float y, float x) { return ::atan2f(y, x); }
GK_FN double atan2(double y, double x) { return ::atan2(y, x); }
GK_FN float pow(float x, float y) { return ::powf(x, y); }
GK_FN double pow(double x, double y) { return ::pow(x, y); }

}  // namespace gkl
