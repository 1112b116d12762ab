// Where directions are in an image of the surroundings. `turn` is added to u.
#include "../../render/environment.h"

namespace gk {

GK_KERNEL environment_fwd(int n, double turn, const real* directions, real* uv) {
    GK_EACH(i, n) {
        Uv at = uv_of(row(directions, i), real(turn));
        uv[2 * (uint64)i] = at.u, uv[2 * (uint64)i + 1] = at.v;
    }
}

GK_KERNEL environment_adj(int n, const real* directions, const real* adj_uv, real* adj_directions) {
    GK_EACH(i, n) { set_row(adj_directions, i, adj_uv_of(row(directions, i), adj_uv[2 * (uint64)i], adj_uv[2 * (uint64)i + 1])); }
}

}  // namespace gk
