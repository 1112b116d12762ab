// Random numbers that depend on nothing but their place: the same on every machine, in any order.
#pragma once
#include "math.h"

namespace gk {

// A permutation of the 32-bit numbers that looks random (Wellons, 2018: the hash of least bias that he found).
GK_FN uint hashed(uint x) {
    x ^= x >> 16, x *= 0x7feb352du;
    x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ x >> 16;
}
GK_FN uint hashed(uint x, uint y) { return hashed(x ^ hashed(y + 0x9e3779b9u)); }

GK_FN uint reversed_bits(uint x) {
    x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
    x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
    x = (x & 0x0f0f0f0fu) << 4 | (x >> 4 & 0x0f0f0f0fu);
    x = (x & 0x00ff00ffu) << 8 | (x >> 8 & 0x00ff00ffu);
    return x << 16 | x >> 16;
}

// Owen's scrambling of the bits, from the highest down (Burley, 2020, section 4).
GK_FN uint owen_scrambled(uint x, uint seed) {
    x = reversed_bits(x);
    x += seed;
    x ^= x * 0x6c50b47cu;
    x ^= x * 0xb82f1e52u;
    x ^= x * 0xc7afe638u;
    x ^= x * 0x8d22f6e6u;
    return reversed_bits(x);
}

// The second dimension of Sobol's sequence; the first is reversed_bits. Its matrix is Pascal's triangle modulo 2, which is four
// copies of itself at half the size, one of them zero: five steps instead of one for each bit.
GK_FN uint sobol(uint x) {
    x ^= x >> 1 & 0x55555555u;
    x ^= x >> 2 & 0x33333333u;
    x ^= x >> 4 & 0x0f0f0f0fu;
    x ^= x >> 8 & 0x00ff00ffu;
    x ^= x >> 16;
    return reversed_bits(x);
}

// (Converted as a signed number, for which every instruction set has an instruction on lanes.)
GK_FN real unit_interval(uint x) { return IS_FLOAT ? real(int(x >> 8)) * real(0x1p-24) : real(x) * real(0x1p-32); }

struct Random2 {
    real x, y;
};

// A point of the unit square. The points of one stream with index 0, 1, 2, ... are evenly spread; streams are independent.
GK_FN Random2 random2(uint stream, uint index) {
    uint i = owen_scrambled(index, hashed(stream, 1));
    return {unit_interval(owen_scrambled(reversed_bits(i), hashed(stream, 2))),
            unit_interval(owen_scrambled(sobol(i), hashed(stream, 3)))};
}

}  // namespace gk
