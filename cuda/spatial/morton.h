// Positions along a space-filling curve: points that are near on it are near in space.
#pragma once
#include "../core/vec.h"

namespace gk {

// Spreads the low 21 bits of x to every third bit.
GK_FN uint64 every_third_bit(uint64 x) {
    x = (x | x << 32) & 0x1f00000000ffffull;
    x = (x | x << 16) & 0x1f0000ff0000ffull;
    x = (x | x << 8) & 0x100f00f00f00f00full;
    x = (x | x << 4) & 0x10c30c30c30c30c3ull;
    return (x | x << 2) & 0x1249249249249249ull;
}

// The Morton code of p in a grid of 2^bits cells a side, bits <= 21. Points outside go to the nearest cell.
GK_FN uint64 morton_code(Vec3d p, Vec3d lower, Vec3d cells_per_length, int bits) {
    double top = double((1 << bits) - 1);
    double x = (p.x - lower.x) * cells_per_length.x, y = (p.y - lower.y) * cells_per_length.y;
    double z = (p.z - lower.z) * cells_per_length.z;
    return every_third_bit((uint)(int)min(max(x, 0.0), top)) | every_third_bit((uint)(int)min(max(y, 0.0), top)) << 1 |
           every_third_bit((uint)(int)min(max(z, 0.0), top)) << 2;
}

}  // namespace gk
