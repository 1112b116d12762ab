// What every program of the kernel language stands on: how it is launched, its arrays, atomics, and checks.
#pragma once
#include "../core/platform.h"

namespace gk {

struct Error {
    int flag, site;
    long long index, length;
    int thread;
};

struct Launch {
    int dim[3];
    int grain;
    Error* errors;
};

struct Array {
    void* data;
    void* grad;
    long long shape[4];
    long long stride[4];  // in bytes; gradients are contiguous
};

template <class T> GK_FN T read(const unsigned char* bytes) { return *reinterpret_cast<const T*>(bytes); }
template <class T> GK_FN T& at(void* bytes, long long offset) { return *reinterpret_cast<T*>((char*)bytes + offset); }

// How often a loop over range(lower, upper, step) runs.
template <class T> GK_FN T trips(T lower, T upper, T step) {
    if (step > 0) return upper > lower ? (T)((upper - lower - 1) / step + 1) : 0;
    return upper < lower ? (T)((lower - upper - 1) / (0 - step) + 1) : 0;
}

// Shifts by the width of the type or more are taken modulo the width, as processors do.
template <class T> GK_FN T shift_left(T a, T n) { return (T)(a << (n & (T)(8 * sizeof(T) - 1))); }
template <class T> GK_FN T shift_right(T a, T n) { return (T)(a >> (n & (T)(8 * sizeof(T) - 1))); }

#if GK_GPU
GK_FN float infinity(float) { return __int_as_float(0x7f800000); }
GK_FN double infinity(double) { return __longlong_as_double(0x7ff0000000000000ll); }
#else
GK_FN float infinity(float) { return __builtin_inff(); }
GK_FN double infinity(double) { return __builtin_inf(); }
#endif

// ---- half precision: only stored

typedef unsigned short half;

#if GK_GPU
GK_FN float widened(half h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
GK_FN half narrowed(float f) {
    half h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
#else
GK_FN float widened(half h) {
    uint sign = (uint)(h & 0x8000u) << 16, magnitude = h & 0x7fffu, b = magnitude << 13;
    float f;
    if (magnitude >= 0x7c00u) b |= 0x7f800000u;
    else b += 112u << 23;
    if (magnitude < 0x0400u) {
        f = (float)magnitude * 0x1p-24f;
        __builtin_memcpy(&b, &f, sizeof b);
    }
    b |= sign;
    __builtin_memcpy(&f, &b, sizeof f);
    return f;
}
GK_FN half narrowed(float f) {
    uint b;
    __builtin_memcpy(&b, &f, sizeof b);
    uint sign = b >> 16 & 0x8000u, magnitude = b & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (half)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (half)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
        // Rounded to a multiple of 2^-24 by the addition.
        float m, big = 0.5f;
        __builtin_memcpy(&m, &magnitude, sizeof m);
        m += big;
        __builtin_memcpy(&b, &m, sizeof b);
        return (half)(sign | (b - 0x3f000000u));
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (half)(sign | ((magnitude - 0x38000000u) >> 13));
}
#endif

// ---- atomics; each gives what was there before

#if GK_GPU
template <class T> GK_FN T atomic_add(T* p, T v) { return ::atomicAdd(p, v); }
GK_FN long long atomic_add(long long* p, long long v) { return (long long)::atomicAdd((uint64*)p, (uint64)v); }
template <class T> GK_FN T atomic_sub(T* p, T v) { return atomic_add(p, (T)(0 - v)); }
template <class T> GK_FN T atomic_exch(T* p, T v) { return ::atomicExch(p, v); }
GK_FN double atomic_exch(double* p, double v) {
    return __longlong_as_double((long long)::atomicExch((uint64*)p, (uint64)__double_as_longlong(v)));
}
GK_FN long long atomic_exch(long long* p, long long v) { return (long long)::atomicExch((uint64*)p, (uint64)v); }
template <class T> GK_FN T atomic_cas(T* p, T expected, T v) { return ::atomicCAS(p, expected, v); }
GK_FN long long atomic_cas(long long* p, long long expected, long long v) {
    return (long long)::atomicCAS((uint64*)p, (uint64)expected, (uint64)v);
}
template <class T> GK_FN T atomic_min(T* p, T v) { return ::atomicMin(p, v); }
template <class T> GK_FN T atomic_max(T* p, T v) { return ::atomicMax(p, v); }
template <bool LESS> GK_FN float atomic_choose(float* p, float v) {
    int old = __float_as_int(*p), seen;
    do {
        seen = old;
        float now = __int_as_float(seen);
        if (LESS ? !(v < now) : !(v > now)) break;
        old = ::atomicCAS((int*)p, seen, __float_as_int(v));
    } while (old != seen);
    return __int_as_float(old);
}
template <bool LESS> GK_FN double atomic_choose(double* p, double v) {
    uint64 old = (uint64)__double_as_longlong(*p), seen;
    do {
        seen = old;
        double now = __longlong_as_double((long long)seen);
        if (LESS ? !(v < now) : !(v > now)) break;
        old = ::atomicCAS((uint64*)p, seen, (uint64)__double_as_longlong(v));
    } while (old != seen);
    return __longlong_as_double((long long)old);
}
GK_FN float atomic_min(float* p, float v) { return atomic_choose<true>(p, v); }
GK_FN float atomic_max(float* p, float v) { return atomic_choose<false>(p, v); }
GK_FN double atomic_min(double* p, double v) { return atomic_choose<true>(p, v); }
GK_FN double atomic_max(double* p, double v) { return atomic_choose<false>(p, v); }
#else
template <class T, class F> GK_FN T atomic_update(T* p, const F& next) {
    T old, made;
    __atomic_load(p, &old, __ATOMIC_RELAXED);
    do made = next(old);
    while (!__atomic_compare_exchange(p, &old, &made, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
template <class T> GK_FN T atomic_add(T* p, T v) {
    return atomic_update(p, [v](T old) { return (T)(old + v); });
}
template <class T> GK_FN T atomic_sub(T* p, T v) {
    return atomic_update(p, [v](T old) { return (T)(old - v); });
}
template <class T> GK_FN T atomic_min(T* p, T v) {
    return atomic_update(p, [v](T old) { return v < old ? v : old; });
}
template <class T> GK_FN T atomic_max(T* p, T v) {
    return atomic_update(p, [v](T old) { return v > old ? v : old; });
}
template <class T> GK_FN T atomic_exch(T* p, T v) {
    return atomic_update(p, [v](T) { return v; });
}
template <class T> GK_FN T atomic_cas(T* p, T expected, T v) {
    return atomic_update(p, [=](T old) { return old == expected ? v : old; });
}
#endif

// ---- checks of debug mode: the first failure of a launch is kept

GK_FN void fail(const Launch& launch, int site, long long index, long long length, int thread) {
    Error* e = launch.errors;
#if GK_GPU
    if (::atomicCAS(&e->flag, 0, 1) != 0) return;
#else
    int clear = 0;
    if (!__atomic_compare_exchange_n(&e->flag, &clear, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
#endif
    e->site = site, e->index = index, e->length = length, e->thread = thread;
}
GK_FN bool outside(const Launch& launch, int site, long long index, long long length, int thread) {
    if (index >= 0 && index < length) return false;
    fail(launch, site, index, length, thread);
    return true;
}

}  // namespace gk
