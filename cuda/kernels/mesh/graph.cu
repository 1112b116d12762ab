// The Laplacian of a graph: vertices and the neighbours that edges join them to.
#include "../../core/vec.h"

namespace gk {

// (identity I + laplacian L) x for rows of `channels` numbers, where L is the degree less the sum of the neighbours:
// neighbors[offset[v] .. offset[v + 1]) are those of v. The matrix is symmetric, so this is its own adjoint.
GK_KERNEL graph_apply(int n, const int* offset, const int* neighbors, int channels, double identity, double laplacian,
                      const double* x, double* out) {
    GK_EACH(v, n) {
        double own = identity + laplacian * (offset[v + 1] - offset[v]);
        for (int c = 0; c < channels; ++c) {
            double sum = 0;
            for (int j = offset[v]; j < offset[v + 1]; ++j) sum += x[(uint64)neighbors[j] * channels + c];
            uint64 at = (uint64)v * channels + c;
            out[at] = own * x[at] - laplacian * sum;
        }
    }
}

}  // namespace gk
