// Lookups in a texture. Item i of the first two is a place (u, v), v upwards, and a level; there are none of the latter in a
// texture of one level.
#include "../../render/texture.h"

namespace gk {

GK_KERNEL texture_fwd(int n, int width, int height, int levels, int channels, int wrap_u, int wrap_v, const real* texels,
                      const real* uv, const real* level, real* out) {
    const Pyramid pyramid = {width, height, levels, wrap_u, wrap_v};
    GK_EACH(i, n) {
        real* to = out + channels * (uint64)i;
        Blend blend = blend_of(pyramid, levels > 1 ? level[i] : real(0));
        for (int c = 0; c < channels; ++c) to[c] = 0;
        for (int k = 0; k < (levels > 1 ? 2 : 1); ++k) {
            real weight = k ? blend.second : 1 - blend.second;
            if (weight == 0) continue;
            Place p = place_of(pyramid, blend.first + k, uv[2 * (uint64)i], uv[2 * (uint64)i + 1]);
            for (int c = 0; c < channels; ++c) {
                Four f = four(texels, channels, c, p);
                real top = f.a + p.u.t * (f.b - f.a), bottom = f.c + p.u.t * (f.d - f.c);
                to[c] += weight * (top + p.v.t * (bottom - top));
            }
        }
    }
}

// Cotangents of the places; the level is fixed. `cells` gets the one or two cells of each item, by which texel_adj finds it.
GK_KERNEL texture_adj(int n, int width, int height, int levels, int channels, int wrap_u, int wrap_v, const real* texels,
                      const real* uv, const real* level, const real* adj_out, real* adj_uv, int* cells) {
    const Pyramid pyramid = {width, height, levels, wrap_u, wrap_v};
    const int each = levels > 1 ? 2 : 1;
    GK_EACH(i, n) {
        const real* adj = adj_out + channels * (uint64)i;
        Blend blend = blend_of(pyramid, levels > 1 ? level[i] : real(0));
        real adj_u = 0, adj_v = 0;
        for (int k = 0; k < each; ++k) {
            real weight = k ? blend.second : 1 - blend.second;
            Place p = place_of(pyramid, blend.first + k, uv[2 * (uint64)i], uv[2 * (uint64)i + 1]);
            cells[each * (uint64)i + k] = cell_of(p);
            for (int c = 0; c < channels; ++c) {
                Four f = four(texels, channels, c, p);
                real right = (1 - p.v.t) * (f.b - f.a) + p.v.t * (f.d - f.c);
                real down = (1 - p.u.t) * (f.c - f.a) + p.u.t * (f.d - f.b);
                adj_u += weight * adj[c] * right * p.u.slope;
                adj_v -= weight * adj[c] * down * p.v.slope;
            }
        }
        adj_uv[2 * (uint64)i] = adj_u, adj_uv[2 * (uint64)i + 1] = adj_v;
    }
}

// What the items of one cell add to a texel of it.
GK_FN void add_cell(const Pyramid& pyramid, const Level& l, int x, int y, int begin, int end, int channels, int channel, const int* order,
                    const real* uv, const real* level, const real* adj_out, double* sums) {
    const int each = pyramid.levels > 1 ? 2 : 1;
    for (int e = begin; e < end; ++e) {
        int entry = order[e], i = entry / each;
        real weight = 1;
        if (each > 1) {
            real second = blend_of(pyramid, level[i]).second;
            weight = entry % 2 ? second : 1 - second;
        }
        Between u = between(uv[2 * (uint64)i], l.width, pyramid.wrap_u), v = between(1 - uv[2 * (uint64)i + 1], l.height, pyramid.wrap_v);
        real across = (u.low == x ? 1 - u.t : real(0)) + (u.high == x ? u.t : real(0));
        real along = (v.low == y ? 1 - v.t : real(0)) + (v.high == y ? v.t : real(0));
        weight *= across * along;
        for (int c = 0; c < 4 && channel + c < channels; ++c) sums[c] += double(weight * adj_out[channels * (uint64)i + channel + c]);
    }
}

// Cotangents of the texels. Item j is a texel of the pyramid: it goes through the cells around it, whose items `order` lists from
// start[cell] on. So sums are in the order of the items.
GK_KERNEL texel_adj(int n, int width, int height, int levels, int channels, int wrap_u, int wrap_v, const real* uv, const real* level,
                    const real* adj_out, const int* order, const int* start, double* adj_texels) {
    const Pyramid pyramid = {width, height, levels, wrap_u, wrap_v};
    GK_EACH(j, n) {
        int k = 0;
        Level l = level_of(pyramid, 0);
        while (k + 1 < levels && j - l.texels >= l.width * l.height) l = level_of(pyramid, ++k);
        int x = (j - l.texels) % l.width, y = (j - l.texels) / l.width;
        // The cells before and after the texel, of which a texture of one texel that repeats has one.
        int columns[2] = {x, x + 1}, rows[2] = {y, y + 1};
        if (wrap_u == REPEAT) columns[0] = x > 0 ? x - 1 : l.width - 1, columns[1] = x;
        if (wrap_v == REPEAT) rows[0] = y > 0 ? y - 1 : l.height - 1, rows[1] = y;
        for (int channel = 0; channel < channels; channel += 4) {
            double sums[4] = {0, 0, 0, 0};
            for (int b = rows[0] == rows[1] ? 1 : 0; b < 2; ++b) {
                for (int a = columns[0] == columns[1] ? 1 : 0; a < 2; ++a) {
                    int cell = l.cells + rows[b] * (l.width + 1) + columns[a];
                    add_cell(pyramid, l, x, y, start[cell], start[cell + 1], channels, channel, order, uv, level, adj_out, sums);
                }
            }
            for (int c = 0; c < 4 && channel + c < channels; ++c) adj_texels[channels * (uint64)j + channel + c] = sums[c];
        }
    }
}

}  // namespace gk
