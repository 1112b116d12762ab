// An attribute of the vertices between the corners of faces. u and v are the weights of corners 1 and 2.
#include "../../core/vec.h"

namespace gk {

GK_KERNEL interpolate_fwd(int n, int channels, const real* attribute, const int* faces, const int* face, const real* barycentric,
                          real* out) {
    GK_EACH(i, n) {
        real* to = out + channels * (uint64)i;
        if (face[i] < 0) {
            for (int c = 0; c < channels; ++c) to[c] = 0;
            continue;
        }
        const int* at = faces + 3 * (uint64)face[i];
        real u = barycentric[2 * (uint64)i], v = barycentric[2 * (uint64)i + 1];
        const real *x = attribute + channels * (uint64)at[0], *y = attribute + channels * (uint64)at[1], *z = attribute + channels * (uint64)at[2];
        for (int c = 0; c < channels; ++c) to[c] = x[c] + u * (y[c] - x[c]) + v * (z[c] - x[c]);
    }
}

// adj_corners (N, 3, channels) is of the attribute at the corners, if it is `wanted`; its rows of misses are not written. adj_barycentric adds up.
GK_KERNEL interpolate_adj(int n, int channels, const real* attribute, const int* faces, const int* face, const real* barycentric,
                          const real* adj_out, int wanted, real* adj_barycentric, real* adj_corners) {
    GK_EACH(i, n) {
        if (face[i] < 0) continue;
        const int* at = faces + 3 * (uint64)face[i];
        real u = barycentric[2 * (uint64)i], v = barycentric[2 * (uint64)i + 1], adj_u = 0, adj_v = 0;
        const real *x = attribute + channels * (uint64)at[0], *y = attribute + channels * (uint64)at[1], *z = attribute + channels * (uint64)at[2];
        const real* adj = adj_out + channels * (uint64)i;
        real* corner = adj_corners + 3 * channels * (uint64)i;
        for (int c = 0; c < channels; ++c) {
            adj_u += adj[c] * (y[c] - x[c]), adj_v += adj[c] * (z[c] - x[c]);
            if (wanted) corner[c] = (1 - u - v) * adj[c], corner[channels + c] = u * adj[c], corner[2 * channels + c] = v * adj[c];
        }
        adj_barycentric[2 * (uint64)i] += adj_u, adj_barycentric[2 * (uint64)i + 1] += adj_v;
    }
}

}  // namespace gk
