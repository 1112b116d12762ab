// print of debug mode.
#pragma once
#include "../core/platform.h"

#if GK_GPU
namespace gk {
template <class... A> GK_FN void print(const char* format, A... values) { ::printf(format, values...); }
}  // namespace gk
#else
extern "C" int printf(const char*, ...);
namespace gk {
template <class... A> GK_FN void print(const char* format, A... values) { ::printf(format, values...); }
}  // namespace gk
#endif
