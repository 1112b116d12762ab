// Textures: pyramids of levels, each half as large as the one before, bilinear within a level and linear between two.
#pragma once
#include "../core/vec.h"

namespace gk {

enum Wrap { REPEAT, CLAMP, MIRROR };

// A pyramid. Level 0 has width x height texels; row 0 is on top, where v is 1.
struct Pyramid {
    int width, height, levels, wrap_u, wrap_v;
};

// One level: its size, and where its texels and cells begin. A cell is the square between four texel centres; there is one more
// along each side than there are texels.
struct Level {
    int width, height, texels, cells;
};
GK_FN Level level_of(const Pyramid& p, int k) {
    Level l = {p.width, p.height, 0, 0};
    for (; k > 0; --k) {
        l.texels += l.width * l.height, l.cells += (l.width + 1) * (l.height + 1);
        l.width = max(l.width / 2, 1), l.height = max(l.height / 2, 1);
    }
    return l;
}

// A coordinate among the texels of one axis: between two of them, how far beyond the first, and its derivative.
struct Between {
    int cell, low, high;
    real t, slope;
};
GK_FN Between between(real x, int size, int wrap) {
    Between b;
    real period = wrap == REPEAT ? real(1) : real(2);
    b.slope = real(size);
    if (wrap == CLAMP) {
        if (!(x >= 0 && x <= 1)) b.slope = 0;
        x = min(max(x, real(0)), real(1));
    } else {
        x -= period * floor(x / period);
        if (x > 1) x = 2 - x, b.slope = -b.slope;  // only where it is mirrored
    }
    real at = x * real(size) - real(0.5), below = floor(at);
    b.t = at - below;
    // What is not a number becomes a texel all the same.
    int first = min(max(int(below), -1), size - 1);
    if (wrap == REPEAT) {
        b.low = first < 0 ? size - 1 : first;
        b.high = b.low + 1 == size ? 0 : b.low + 1;
        b.cell = b.low;
    } else {
        b.low = max(first, 0), b.high = min(first + 1, size - 1), b.cell = first + 1;
    }
    return b;
}

// The two levels of a lookup and the weight of the second.
struct Blend {
    int first;
    real second;
};
GK_FN Blend blend_of(const Pyramid& p, real level) {
    level = min(max(level, real(0)), real(p.levels - 1));
    int first = min(max(int(level), 0), max(p.levels - 2, 0));
    return {first, level - real(first)};
}

struct Place {
    Level level;
    Between u, v;
};
GK_FN Place place_of(const Pyramid& p, int k, real u, real v) {
    Level l = level_of(p, k);
    return {l, between(u, l.width, p.wrap_u), between(1 - v, l.height, p.wrap_v)};
}
GK_FN int cell_of(const Place& p) { return p.level.cells + p.v.cell * (p.level.width + 1) + p.u.cell; }

// The four texels around a place, of one channel.
struct Four {
    real a, b, c, d;
};
GK_FN Four four(const real* texels, int channels, int c, const Place& p) {
    const real* level = texels + channels * (uint64)p.level.texels + c;
    uint64 top = (uint64)p.v.low * p.level.width, bottom = (uint64)p.v.high * p.level.width;
    return {level[channels * (top + p.u.low)], level[channels * (top + p.u.high)], level[channels * (bottom + p.u.low)],
            level[channels * (bottom + p.u.high)]};
}

}  // namespace gk
