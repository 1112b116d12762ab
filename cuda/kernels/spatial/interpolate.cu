// An attribute of the vertices between the corners of faces. Of three `weights` each corner has its own; of two they are those of corners 1 and 2.
#include "../../core/vec.h"

namespace gk {

GK_KERNEL interpolate_fwd(int n, int channels, const real* attribute, const int* faces, const int* face, int weights, const real* barycentric,
                          real* out) {
    GK_EACH(i, n) {
        real* to = out + channels * (uint64)i;
        if (face[i] < 0) {
            for (int c = 0; c < channels; ++c) to[c] = 0;
            continue;
        }
        const int* at = faces + 3 * (uint64)face[i];
        const real* w = barycentric + weights * (uint64)i;
        const real *x = attribute + channels * (uint64)at[0], *y = attribute + channels * (uint64)at[1], *z = attribute + channels * (uint64)at[2];
        if (weights == 2) {
            for (int c = 0; c < channels; ++c) to[c] = x[c] + w[0] * (y[c] - x[c]) + w[1] * (z[c] - x[c]);
        } else {
            for (int c = 0; c < channels; ++c) to[c] = w[0] * x[c] + w[1] * y[c] + w[2] * z[c];
        }
    }
}

// adj_corners (N, 3, channels) is of the attribute at the corners, if it is `wanted`; its rows of misses are not written. adj_barycentric adds up.
GK_KERNEL interpolate_adj(int n, int channels, const real* attribute, const int* faces, const int* face, int weights, const real* barycentric,
                          const real* adj_out, int wanted, real* adj_barycentric, real* adj_corners) {
    GK_EACH(i, n) {
        if (face[i] < 0) continue;
        const int* at = faces + 3 * (uint64)face[i];
        const real* given = barycentric + weights * (uint64)i;
        real v = given[weights - 1], u = given[weights - 2], w = weights == 2 ? 1 - u - v : given[0];
        real adj_u = 0, adj_v = 0, adj_w = 0;
        const real *x = attribute + channels * (uint64)at[0], *y = attribute + channels * (uint64)at[1], *z = attribute + channels * (uint64)at[2];
        const real* adj = adj_out + channels * (uint64)i;
        real* corner = adj_corners + 3 * channels * (uint64)i;
        for (int c = 0; c < channels; ++c) {
            if (weights == 2) adj_u += adj[c] * (y[c] - x[c]), adj_v += adj[c] * (z[c] - x[c]);
            else adj_w += adj[c] * x[c], adj_u += adj[c] * y[c], adj_v += adj[c] * z[c];
            if (wanted) corner[c] = w * adj[c], corner[channels + c] = u * adj[c], corner[2 * channels + c] = v * adj[c];
        }
        real* to = adj_barycentric + weights * (uint64)i;
        to[weights - 2] += adj_u, to[weights - 1] += adj_v;
        if (weights == 3) to[0] += adj_w;
    }
}

}  // namespace gk
