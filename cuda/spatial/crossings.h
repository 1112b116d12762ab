// How often a ray crosses the mesh, for the parity sign.
#pragma once
#include "bvh.h"

namespace gk {

// Number of triangles that the ray from p along d crosses, d without a zero component and largest in z (Woop, Benthin and
// Wald 2013: shear the ray to the z axis, then the signs of three edge functions). Edges belong to both triangles.
GK_FN int crossings(const Bvh& bvh, Vec3 p, Vec3 d) {
    int stack[GK_STACK], size = 0, count = 0;
    const real sx = d.x / d.z, sy = d.y / d.z;
    const Lanes zero = splat(real(0));
    for (int current = 0;;) {
        if (current < 0) {
            const Packet& t = bvh.packets[~current];
            for (int lane = 0; lane < WIDTH; lane += LANES) {
                Lanes x[3], y[3], z[3];
                GK_UNROLL
                for (int k = 0; k < 3; ++k) {
                    z[k] = load(t.corner[k][2] + lane) - p.z;
                    x[k] = load(t.corner[k][0] + lane) - p.x - sx * z[k];
                    y[k] = load(t.corner[k][1] + lane) - p.y - sy * z[k];
                }
                Lanes u = difference_of_products(x[2], y[1], y[2], x[1]);
                Lanes v = difference_of_products(x[0], y[2], y[0], x[2]);
                Lanes w = difference_of_products(x[1], y[0], y[1], x[0]);
                Lanes det = u + v + w, height = (u * z[0] + v * z[1] + w * z[2]) * det;
                if (d.z < 0) height = -height;
                Mask one_side = (min(min(u, v), w) >= zero) | (max(max(u, v), w) <= zero);
                count += count_bits(bits(one_side & (det != zero) & (height > zero)));
            }
        } else {
            const Node& node = bvh.nodes[current];
            const Vec3 inverse = {1 / d.x, 1 / d.y, 1 / d.z};
            const int nx = d.x < 0, ny = d.y < 0, nz = d.z < 0;
            for (int lane = 0; lane < WIDTH; lane += LANES) {
                Lanes near = max(max((load(node.bounds[0][nx] + lane) - p.x) * inverse.x, (load(node.bounds[1][ny] + lane) - p.y) * inverse.y),
                                 max((load(node.bounds[2][nz] + lane) - p.z) * inverse.z, zero));
                Lanes far = min(min((load(node.bounds[0][!nx] + lane) - p.x) * inverse.x, (load(node.bounds[1][!ny] + lane) - p.y) * inverse.y),
                                (load(node.bounds[2][!nz] + lane) - p.z) * inverse.z);
                // Ize (2013): three roundings each way.
                for (uint hits = bits(near <= far * (1 + 6 * EPSILON)); hits; hits &= hits - 1)
                    stack[size++] = node.child[lane + lowest_bit(hits)];
            }
        }
        if (!size) return count;
        current = stack[--size];
    }
}

// Whether p is inside by the majority of three rays that no modelling program would align a mesh with.
GK_FN bool odd_crossings(const Bvh& bvh, Vec3 p) {
    const Vec3 directions[3] = {{real(0.2735), real(0.3819), real(0.8828)},
                                {real(-0.4127), real(0.1931), real(-0.8902)},
                                {real(0.1673), real(-0.5171), real(0.8394)}};
    int votes = 0;
    for (int k = 0; k < 3; ++k) votes += crossings(bvh, p, directions[k]) & 1;
    return votes >= 2;
}

}  // namespace gk
