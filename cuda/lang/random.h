// Random numbers of the kernel language: functions of a seed and a counter alone, the same on every machine, in any order.
#pragma once
#include "scalar.h"

namespace gkl {

// 64 bits that look random: the mixing of splitmix64 (Steele, Lea and Flood 2014) on the two as one number.
GK_FN uint64 random_word(uint seed, uint counter) {
    uint64 x = ((uint64)seed << 32 | counter) * 0x9e3779b97f4a7c15ull + 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
GK_FN uint random_bits(uint seed, uint counter) { return (uint)(random_word(seed, counter) >> 32); }
// Multiples of 2^-24 and of 2^-53 in [0, 1).
GK_FN float random_uniform(uint seed, uint counter) { return (float)(int)(random_word(seed, counter) >> 40) * 0x1p-24f; }
GK_FN double random_uniform_d(uint seed, uint counter) { return (double)(long long)(random_word(seed, counter) >> 11) * 0x1p-53; }

}  // namespace gkl
