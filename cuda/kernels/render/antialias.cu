// Analytic antialiasing of neighbouring pixels: where an outline passes between two centres it shares out the pixel it is in.
//
// Item i of a pair is pixel i / 2 of an image `width` wide and its neighbour to the right, or below it if i is odd.
#include "../../core/vec.h"

namespace gk {

struct Neighbours {
    int one, other, x, y, down;
    bool whole;  // whether both are in the image
};
GK_FN Neighbours pair_of(int i, int width, int height) {
    int p = i / 2, down = i & 1, x = p % width, y = p / width;
    return {p, down ? p + width : p + 1, x, y, down, down ? y + 1 < height : x + 1 < width};
}

// An end of an edge as seen from the first centre: along the pair, and across it.
struct End {
    double along, across;
};
GK_FN End end_of(const real* pixel, int v, const Neighbours& p) {
    double x = double(pixel[2 * (uint64)v]) - p.x - 0.5, y = double(pixel[2 * (uint64)v + 1]) - p.y - 0.5;
    return p.down ? End{y, x} : End{x, y};
}

// The pairs of pixel p: to the right, below, from the left, from above; -1 for none.
GK_FN int pair_around(int p, int k, int width, int height) {
    int x = p % width, y = p / width;
    if (k == 0) return x + 1 < width ? 2 * p : -1;
    if (k == 1) return y + 1 < height ? 2 * p + 1 : -1;
    if (k == 2) return x > 0 ? 2 * (p - 1) : -1;
    return y > 0 ? 2 * (p - width) + 1 : -1;
}

GK_KERNEL antialias_fwd(int n, int width, int height, int channels, const real* alpha, const real* image, real* out) {
    GK_EACH(p, n) {
        for (int c = 0; c < channels; ++c) out[channels * (uint64)p + c] = image[channels * (uint64)p + c];
        for (int k = 0; k < 4; ++k) {
            int i = pair_around(p, k, width, height);
            if (i < 0 || alpha[i] == 0 || (alpha[i] > 0) != (k < 2)) continue;
            Neighbours pair = pair_of(i, width, height);
            const real *one = image + channels * (uint64)pair.one, *other = image + channels * (uint64)pair.other;
            for (int c = 0; c < channels; ++c) out[channels * (uint64)p + c] += alpha[i] * (other[c] - one[c]);
        }
    }
}

GK_KERNEL antialias_adj(int n, int width, int height, int channels, const real* alpha, const real* adj_out, real* adj_image) {
    GK_EACH(p, n) {
        for (int c = 0; c < channels; ++c) adj_image[channels * (uint64)p + c] = adj_out[channels * (uint64)p + c];
        for (int k = 0; k < 4; ++k) {
            int i = pair_around(p, k, width, height);
            if (i < 0 || alpha[i] == 0) continue;
            Neighbours pair = pair_of(i, width, height);
            const real* target = adj_out + channels * (uint64)(alpha[i] > 0 ? pair.one : pair.other);
            const real share = k < 2 ? -alpha[i] : alpha[i];
            for (int c = 0; c < channels; ++c) adj_image[channels * (uint64)p + c] += share * target[c];
        }
    }
}

// Cotangents (n, 2, 2) of the pixels where the ends (n, 2) of edges are seen, each of which passes between a pair.
GK_KERNEL outlines_adj(int n, int width, int height, int channels, const int* pair, const int* ends, const real* alpha, const real* pixel,
                       const real* image, const real* adj_out, real* adj_ends) {
    GK_EACH(j, n) {
        const int i = pair[j];
        Neighbours p = pair_of(i, width, height);
        const real *one = image + channels * (uint64)p.one, *other = image + channels * (uint64)p.other;
        const real* target = adj_out + channels * (uint64)(alpha[i] > 0 ? p.one : p.other);
        double adj_u = 0;
        for (int c = 0; c < channels; ++c) adj_u -= double(target[c]) * (double(other[c]) - double(one[c]));
        End a = end_of(pixel, ends[2 * (uint64)j], p), b = end_of(pixel, ends[2 * (uint64)j + 1], p);
        double du = b.along - a.along, dw = b.across - a.across;
        double a_along = b.across / dw * adj_u, b_along = -a.across / dw * adj_u;
        double a_across = -du / dw * a_along, b_across = -du / dw * b_along;
        real* out = adj_ends + 4 * (uint64)j;
        out[0] = real(p.down ? a_across : a_along), out[1] = real(p.down ? a_along : a_across);
        out[2] = real(p.down ? b_across : b_along), out[3] = real(p.down ? b_along : b_across);
    }
}

}  // namespace gk
