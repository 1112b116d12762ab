// Eight numbers at once: GCC and Clang vector registers on the CPU, one number on the GPU, where eight threads do better
// than one thread with eight registers. Both have the same operators, so the mathematics of a packet is written once.
#pragma once
#include "math.h"

namespace gk {

#if GK_GPU

typedef real Lanes;
typedef double DoubleLanes;
typedef bool Mask;

GK_FN Lanes splat(real a) { return a; }
GK_FN Lanes load(const real* p) { return *p; }
GK_FN DoubleLanes load_double(const real* p) { return *p; }
GK_FN DoubleLanes splat_double(double a) { return a; }
GK_FN void store_double(double* p, DoubleLanes a) { *p = a; }
GK_FN void store(real* p, Lanes a) { *p = a; }
GK_FN uint bits(Mask m) { return m; }
GK_FN Lanes load_any(const real* p) { return *p; }
GK_FN Mask mask_of(uint bits) { return bits != 0; }
GK_FN real least(Lanes a) { return a; }
GK_FN real sum(Lanes a) { return a; }

#else

// The widest register of the instruction set; a wider Lanes is a pair of narrower ones. 64-byte registers gained nothing
// (0.96 to 1.02 times the speed of 32-byte ones), so AVX-512 machines run the AVX2 build.
#if defined(__AVX__) && !defined(GK_PORTABLE)
constexpr int REGISTER = 32;
#else
constexpr int REGISTER = 16;
#endif

template <class T, int N> struct Register {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
    typedef decltype(type{} < type{}) mask;
};

typedef Register<real, REGISTER / sizeof(real)> Widest;

template <class H> struct Pair { H lo, hi; };

template <class T, int N, bool FITS = (N * sizeof(T) <= REGISTER)> struct LanesOf {
    typedef Pair<typename LanesOf<T, N / 2>::type> type;
    typedef Pair<typename LanesOf<T, N / 2>::mask> mask;
};
template <class T, int N> struct LanesOf<T, N, true> {
    typedef typename Register<T, N>::type type;
    typedef typename Register<T, N>::mask mask;
};

typedef LanesOf<real, WIDTH>::type Lanes;
typedef LanesOf<real, WIDTH>::mask Mask;
typedef LanesOf<double, WIDTH>::type DoubleLanes;

// A pair does to both halves what a register does.
#define GK_PAIR(OP)                                                                                              \
    template <class H> GK_FN auto operator OP(Pair<H> a, Pair<H> b)->Pair<decltype(a.lo OP b.lo)> {              \
        return {a.lo OP b.lo, a.hi OP b.hi};                                                                     \
    }                                                                                                            \
    template <class H> GK_FN auto operator OP(Pair<H> a, real b)->Pair<decltype(a.lo OP b)> {                    \
        return {a.lo OP b, a.hi OP b};                                                                           \
    }                                                                                                            \
    template <class H> GK_FN auto operator OP(real a, Pair<H> b)->Pair<decltype(a OP b.lo)> {                    \
        return {a OP b.lo, a OP b.hi};                                                                           \
    }
GK_PAIR(+) GK_PAIR(-) GK_PAIR(*) GK_PAIR(/) GK_PAIR(<) GK_PAIR(<=) GK_PAIR(>) GK_PAIR(>=) GK_PAIR(!=)
#undef GK_PAIR
template <class H> GK_FN Pair<H> operator-(Pair<H> a) { return {-a.lo, -a.hi}; }
template <class H> GK_FN Pair<H> operator~(Pair<H> a) { return {~a.lo, ~a.hi}; }
template <class H> GK_FN Pair<H> operator&(Pair<H> a, Pair<H> b) { return {a.lo & b.lo, a.hi & b.hi}; }
template <class H> GK_FN Pair<H> operator|(Pair<H> a, Pair<H> b) { return {a.lo | b.lo, a.hi | b.hi}; }

// What the vector extensions lack: minimum, maximum, square root and the sign bits of a mask. x86 has an instruction for
// each; elsewhere the compiler finds its own.
#define GK_X86(T, N, SUFFIX)                                                                                     \
    GK_FN Register<T, N>::type min(Register<T, N>::type a, Register<T, N>::type b) {                             \
        return __builtin_ia32_min##SUFFIX(a, b);                                                                 \
    }                                                                                                            \
    GK_FN Register<T, N>::type max(Register<T, N>::type a, Register<T, N>::type b) {                             \
        return __builtin_ia32_max##SUFFIX(a, b);                                                                 \
    }                                                                                                            \
    GK_FN Register<T, N>::type sqrt(Register<T, N>::type a) { return __builtin_ia32_sqrt##SUFFIX(a); }           \
    GK_FN uint bits(Register<T, N>::mask m) { return (uint)__builtin_ia32_movmsk##SUFFIX((Register<T, N>::type)m); }
#if defined(__AVX__) && !defined(GK_PORTABLE)
GK_X86(float, 8, ps256)
GK_X86(double, 4, pd256)
#endif
#if defined(__SSE2__) && !defined(GK_PORTABLE)
GK_X86(float, 4, ps)
GK_X86(double, 2, pd)
#else
GK_FN Widest::type min(Widest::type a, Widest::type b) { return a < b ? a : b; }
GK_FN Widest::type max(Widest::type a, Widest::type b) { return a > b ? a : b; }
GK_FN Widest::type sqrt(Widest::type a) {
    for (int i = 0; i < int(REGISTER / sizeof(real)); ++i) a[i] = sqrt(real(a[i]));
    return a;
}
GK_FN uint bits(Widest::mask m) {
    uint r = 0;
    for (int i = 0; i < int(REGISTER / sizeof(real)); ++i) r |= (uint)(m[i] & 1) << i;
    return r;
}
#endif
#undef GK_X86
template <class H> GK_FN Pair<H> min(Pair<H> a, Pair<H> b) { return {min(a.lo, b.lo), min(a.hi, b.hi)}; }
template <class H> GK_FN Pair<H> max(Pair<H> a, Pair<H> b) { return {max(a.lo, b.lo), max(a.hi, b.hi)}; }
template <class H> GK_FN Pair<H> sqrt(Pair<H> a) { return {sqrt(a.lo), sqrt(a.hi)}; }
template <class H> GK_FN uint bits(Pair<H> m) { return bits(m.lo) | bits(m.hi) << (sizeof(H) / sizeof(real)); }

GK_FN Widest::type select(Widest::mask m, Widest::type a, Widest::type b) { return m ? a : b; }
template <class M, class H> GK_FN Pair<H> select(Pair<M> m, Pair<H> a, Pair<H> b) {
    return {select(m.lo, a.lo, b.lo), select(m.hi, a.hi, b.hi)};
}

template <class V> GK_FN void splat_to(V& r, real a) { r = V{} + a; }
template <class H> GK_FN void splat_to(Pair<H>& r, real a) { splat_to(r.lo, a); splat_to(r.hi, a); }
GK_FN Lanes splat(real a) { Lanes r; splat_to(r, a); return r; }
template <> struct Constant<Lanes> {
    GK_FN static Lanes of(double a) { return splat(real(a)); }
};

// The mask that has these bits.
template <class M> GK_FN void mask_to(M& m, uint bits) {
    M bit;
    for (int i = 0; i < int(REGISTER / sizeof(real)); ++i) bit[i] = 1 << i;
    m = ((M{} + int(bits)) & bit) != 0;
}
template <class H> GK_FN void mask_to(Pair<H>& m, uint bits) { mask_to(m.lo, bits), mask_to(m.hi, bits >> sizeof(H) / sizeof(real)); }
GK_FN Mask mask_of(uint bits) { Mask m; mask_to(m, bits); return m; }

// Packets and nodes are aligned to 64 bytes, so are their rows.
GK_FN Lanes load(const real* p) { return *(const Lanes*)__builtin_assume_aligned(p, WIDTH * sizeof(real)); }
GK_FN void store(real* p, Lanes a) { *(Lanes*)__builtin_assume_aligned(p, WIDTH * sizeof(real)) = a; }
// The same from any address.
GK_FN Lanes load_any(const real* p) {
    Lanes r;
    __builtin_memcpy(&r, p, sizeof r);
    return r;
}

// The same numbers in double. What is computed with them has no scalars and no masks.
GK_FN DoubleLanes load_double(const real* p) {
    alignas(64) double wide[WIDTH];
    for (int i = 0; i < WIDTH; ++i) wide[i] = p[i];
    return *(const DoubleLanes*)wide;
}
GK_FN DoubleLanes splat_double(double a) {
    alignas(64) double wide[WIDTH];
    for (int i = 0; i < WIDTH; ++i) wide[i] = a;
    return *(const DoubleLanes*)wide;
}
GK_FN void store_double(double* p, DoubleLanes a) { *(DoubleLanes*)__builtin_assume_aligned(p, WIDTH * sizeof(double)) = a; }

// Fold the halves until a scalar is left: the same order of operations in every build.
template <class H> GK_FN real least(Pair<H> a);
template <class H> GK_FN real sum(Pair<H> a);
template <class V> GK_FN real least(V a) {
    constexpr int N = sizeof(V) / sizeof(real);
    if constexpr (N == 2) {
        return min(real(a[0]), real(a[1]));
    } else {
        typename Register<real, N / 2>::type h[2];
        __builtin_memcpy(h, &a, sizeof a);
        if constexpr (N == 4) return min(min(real(h[0][0]), real(h[1][0])), min(real(h[0][1]), real(h[1][1])));
        else return least(min(h[0], h[1]));
    }
}
template <class H> GK_FN real least(Pair<H> a) { return least(min(a.lo, a.hi)); }
template <class V> GK_FN real sum(V a) {
    constexpr int N = sizeof(V) / sizeof(real);
    real r[N];
    __builtin_memcpy(r, &a, sizeof a);
    for (int width = N / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) r[i] += r[i + width];
    return r[0];
}
template <class H> GK_FN real sum(Pair<H> a) { return sum(a.lo + a.hi); }

GK_FN Lanes abs(Lanes a) { return max(a, -a); }

#endif

// Which of LANES numbers are equal to another.
GK_FN uint equal_bits(const int* p, int a) {
    uint r = 0;
    for (int i = 0; i < LANES; ++i) r |= uint(p[i] == a) << i;
    return r;
}

// N registers that can be read lane by lane.
template <int N> struct Rows {
    alignas(64) real at[N][LANES];
    GK_FN void set(int row, Lanes a) { store(at[row], a); }
};

template <class T> GK_FN T clamp(T a, T lo, T hi) { return min(max(a, lo), hi); }

// a b - c d to its last digits, and so with the right sign (Kahan): no ray passes between two triangles that share an edge.
// The compiler would fuse one product and not the other: the empty statements keep it from that.
#if GK_GPU
GK_FN float difference_of_products(float a, float b, float c, float d) {
    float w = __fmul_rn(c, d);
    return __fadd_rn(__fmaf_rn(a, b, -w), __fmaf_rn(-c, d, w));
}
GK_FN double difference_of_products(double a, double b, double c, double d) {
    double w = __dmul_rn(c, d);
    return __dadd_rn(__fma_rn(a, b, -w), __fma_rn(-c, d, w));
}
#else
#if defined(__x86_64__) && !defined(GK_PORTABLE)
template <class V> GK_FN void keep(V& a) { asm("" : "+x"(a)); }
#else
template <class V> GK_FN void keep(V& a) { asm("" : "+m"(a)); }
#endif
template <class H> GK_FN void keep(Pair<H>& a) { keep(a.lo); keep(a.hi); }
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
template <class V> GK_FN V difference_of_products(V a, V b, V c, V d) {
    V w = c * d, c2 = c;
    keep(w);
    keep(c2);
    return (w - c2 * d) + (a * b - w);
}
#else
// What the rounding of p = a b has lost (Dekker 1971).
GK_FN float times_split(float a) { return a * 4097; }
GK_FN double times_split(double a) { return a * 134217729; }
template <class V> GK_FN V times_split(V a) { return a * real(IS_FLOAT ? 4097 : 134217729); }
template <class V> GK_FN V lost(V a, V b, V p) {
    V sa = times_split(a), sb = times_split(b), a1 = sa - (sa - a), b1 = sb - (sb - b), a2 = a - a1, b2 = b - b1;
    return ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2;
}
template <class V> GK_FN V difference_of_products(V a, V b, V c, V d) {
    V p = a * b, q = c * d;
    return (p - q) + (lost(a, b, p) - lost(c, d, q));
}
#endif
#endif

}  // namespace gk
