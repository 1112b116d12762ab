// How often a ray crosses the mesh, for the parity sign.
#pragma once
#include "rays.h"

namespace gk {

// Number of triangles that the ray from p along d crosses, p in the box of the mesh, d without a zero component and largest
// in z. Around an edge or a corner that the ray meets, each shell of the surface counts once.
GK_FN int crossings(const Bvh& bvh, Vec3 p, Vec3 d) {
    RayGroup g;
    const real at[3] = {p.x, p.y, p.z}, to[3] = {d.x, d.y, d.z};
    for (int k = 0; k < 3; ++k) {
        real inverse = 1 / to[k], offset = -at[k] * inverse, slack = SLACK * abs(inverse);
        g.inverse[k][0] = inverse, g.near[k][0] = offset - slack, g.far[k][0] = offset + slack, g.origin[k][0] = at[k];
    }
    g.first[0] = 0, g.last[0] = 4, g.shear_x[0] = d.x / d.z, g.shear_y[0] = d.y / d.z;
    g.axes[0] = 0 | 1 << 2 | 2 << 4 | (d.z < 0) << 6;
    const RayOf ray = {g, 0};
    const int negative = (d.x < 0) | (d.y < 0) << 1 | (d.z < 0) << 2;
    const Lanes zero = splat(real(0));
    int stack[GK_STACK], size = 0, count = 0;
    for (int current = 0;;) {
        if (current < 0) {
            GK_UNROLL
            for (int lane = 0; lane < WIDTH; lane += LANES) {
                Sheared t = shear_triangles(bvh.packets[~current], lane, ray);
                Lanes sum = t.side[0] + t.side[1] + t.side[2];
                Lanes height = (t.side[0] * t.z[0] + t.side[1] * t.z[1] + t.side[2] * t.z[2]) * sum;
                if (d.z < 0) height = -height;
                count += count_bits(once(t, inside(t)) & bits(height > zero));
            }
        } else {
            const Node& node = bvh.nodes[current];
            alignas(64) real near[WIDTH];
            GK_UNROLL
            for (int lane = 0; lane < WIDTH; lane += LANES)
                for (uint hits = entered(planes_at(node, negative, lane), ray, near + lane); hits; hits &= hits - 1)
                    stack[size++] = node.child[lane + lowest_bit(hits)];
        }
        if (!size) return count;
        current = stack[--size];
    }
}

// Whether p is inside by the majority of three rays that no modelling program would align a mesh with.
GK_FN bool odd_crossings(const Bvh& bvh, Vec3 p) {
    if (outside_box(bvh, p)) return false;
    const Vec3 directions[3] = {{real(0.2735), real(0.3819), real(0.8828)},
                                {real(-0.4127), real(0.1931), real(-0.8902)},
                                {real(0.1673), real(-0.5171), real(0.8394)}};
    int votes = 0;
    for (int k = 0; k < 3; ++k) votes += crossings(bvh, p, directions[k]) & 1;
    return votes >= 2;
}

}  // namespace gk
