// Rays so close to each other that one box around them all goes through the tree: they are told apart at the triangles.
//
// Bounds of all rays hold for each of them in floating point, too, as every operation on them is monotonous. So a bundle
// enters each box that one of its rays enters, and the rays meet the triangles that each would meet alone.
#pragma once
#include "ray_block.h"

namespace gk {

constexpr int BUNDLE = 2;  // groups

// How wide a bundle may be where it passes the mesh, in units of the tree. Wide ones enter many boxes that none of their rays
// enters: how many of those there are tells whether the rest of a block may be as wide.
struct Width {
    real most = real(1) / 16;
};
constexpr int WASTED = 8;

// Bounds of the numbers of a bundle's rays. In the plane of the shear a ray passes a point (x, y, z) of the tree at
// x - shear z - at, where `at` is where it crosses z = 0.
struct Bundle {
    real inverse[3][2], near[3], far[3], first, last;
    real shear[2][2], at[2][2];  // along x and y; lower and upper
    int negative, axes;
};

GK_FN real most(Lanes a) { return -least(-a); }

// The answer is whether groups k to k + BUNDLE - 1 are one: all their rays see the same sides of boxes and of triangles, none is
// without end, and they are no farther from each other than `width`.
GK_FN bool bundled(Block& block, int k, real width, Bundle& b) {
    const RayGroup& g0 = block.group[k];
    b.negative = g0.octant, b.axes = g0.axes[0];
    bool same = g0.octant != MIXED;
    for (int j = 0; j < BUNDLE; ++j) {
        const RayGroup& g = block.group[k + j];
        same &= g.octant == g0.octant && bits(load(g.last) > splat(NOWHERE)) == (1u << LANES) - 1;
        for (int lane = 0; lane < LANES; ++lane) same &= g.axes[lane] == b.axes;
    }
    if (!same) return false;
    for (int axis = 0; axis < 2; ++axis) {
        Lanes shear_low = splat(INFINITE), shear_high = -shear_low, at_low = shear_low, at_high = shear_high;
        for (int j = 0; j < BUNDLE; ++j) {
            const RayGroup& g = block.group[k + j];
            Lanes shear = load(axis ? g.shear_y : g.shear_x), at = load(g.origin[axis]) - shear * load(g.origin[2]);
            shear_low = min(shear_low, shear), shear_high = max(shear_high, shear);
            at_low = min(at_low, at), at_high = max(at_high, at);
        }
        b.shear[axis][0] = least(shear_low), b.shear[axis][1] = most(shear_high);
        b.at[axis][0] = least(at_low), b.at[axis][1] = most(at_high);
        if (!(b.shear[axis][1] - b.shear[axis][0] + (b.at[axis][1] - b.at[axis][0]) <= width)) return false;
    }
    for (int axis = 0; axis < 3; ++axis) {
        Lanes low = splat(INFINITE), high = -low, near = low, far = high;
        for (int j = 0; j < BUNDLE; ++j) {
            const RayGroup& g = block.group[k + j];
            low = min(low, load(g.inverse[axis])), high = max(high, load(g.inverse[axis]));
            near = min(near, load(g.near[axis])), far = max(far, load(g.far[axis]));
        }
        b.inverse[axis][0] = least(low), b.inverse[axis][1] = most(high), b.near[axis] = least(near), b.far[axis] = most(far);
    }
    Lanes first = load(g0.first), last = load(g0.last);
    for (int j = 1; j < BUNDLE; ++j) first = min(first, load(block.group[k + j].first)), last = max(last, load(block.group[k + j].last));
    b.first = least(first), b.last = most(last);
    return true;
}

// The children that a ray of the bundle may enter; `near` receives where at the earliest.
GK_FN uint entered(const Planes& planes, const Bundle& b, real* near) {
    Lanes enter = splat(b.first), leave = splat(b.last);
    GK_UNROLL
    for (int k = 0; k < 3; ++k) {
        enter = max(enter, min(planes.enter[k] * b.inverse[k][0] + b.near[k], planes.enter[k] * b.inverse[k][1] + b.near[k]));
        leave = min(leave, max(planes.leave[k] * b.inverse[k][0] + b.far[k], planes.leave[k] * b.inverse[k][1] + b.far[k]));
    }
    store(near, enter);
    return bits(enter <= leave);
}

// The triangles of a packet that a ray of the bundle may meet, without those that all rays pass on one side of all corners.
GK_FN uint maybe_met(const Packet& packet, int lane, const Bundle& b) {
    const int z = b.axes >> 4 & 3;
    uint beside = 0;
    GK_UNROLL
    for (int axis = 0; axis < 2; ++axis) {
        const int along = b.axes >> 2 * axis & 3;
        Lanes low = splat(INFINITE), high = -low;
        GK_UNROLL
        for (int k = 0; k < 3; ++k) {
            Lanes x = load(packet.corner[k][along] + lane), depth = load(packet.corner[k][z] + lane);
            Lanes p = x - b.shear[axis][0] * depth, q = x - b.shear[axis][1] * depth;
            low = min(low, min(p, q)), high = max(high, max(p, q));
        }
        beside |= bits((low > splat(b.at[axis][1] + SLACK)) | (high < splat(b.at[axis][0] - SLACK)));
    }
    return ~beside & ((1u << LANES) - 1);
}

// What LANES rays see of triangle `lane` of a packet, in the order of operations of `shear_triangles`.
GK_FN Sheared shear_triangle(const Packet& packet, int lane, int axes, const RayGroup& g) {
    const int x = axes & 3, y = axes >> 2 & 3, z = axes >> 4 & 3;
    Sheared t;
    GK_UNROLL
    for (int k = 0; k < 3; ++k) {
        t.z[k] = packet.corner[k][z][lane] - load(g.origin[2]);
        t.x[k] = (packet.corner[k][x][lane] - load(g.origin[0])) - load(g.shear_x) * t.z[k];
        t.y[k] = (packet.corner[k][y][lane] - load(g.origin[1])) - load(g.shear_y) * t.z[k];
    }
    t.side[0] = difference_of_products(t.x[1], t.y[2], t.y[1], t.x[2]);
    t.side[1] = difference_of_products(t.x[2], t.y[0], t.y[2], t.x[0]);
    t.side[2] = difference_of_products(t.x[0], t.y[1], t.y[0], t.x[1]);
    return t;
}

// Hands triangle `lane` of a packet to the visitor for each of the `wanted` rays of a group that meet it, as `pass_through`.
template <class Visitor>
GK_FN void pass_rays_through(const Packet& packet, int lane, int axes, RayGroup& g, int first_ray, uint wanted, Visitor& visit) {
    Sheared t = shear_triangle(packet, lane, axes, g);
    Lanes sum = t.side[0] + t.side[1] + t.side[2];
    uint hits = inside(t) & wanted;
    if (!hits) return;
    const bool backward = axes >> 6 & 1;
    if (visit.cull != CULL_NONE) {
        uint counterclockwise = bits(sum > splat(real(0)));
        hits &= backward == (visit.cull == CULL_BACK) ? counterclockwise : ~counterclockwise;
    }
    if (Visitor::ONCE) hits = once(t, hits);
    Lanes low = min(min(t.z[0], t.z[1]), t.z[2]), high = max(max(t.z[0], t.z[1]), t.z[2]);
    Lanes first = (backward ? -high : low) - OVERSHOOT, last = (backward ? -low : high) + OVERSHOOT;
    hits &= bits((last >= load(g.first)) & (first <= load(g.last)));
    if (!hits) return;
    Lanes inverse = 1 / sum;
    SeenByAll seen = {first, last, t.side[1] * inverse, t.side[2] * inverse, packet.face[lane]};
    if constexpr (Visitor::TOGETHER) hits = visit.together(first_ray, hits, seen, g);
    if (!hits) return;
    Rows<4> rows;
    rows.set(0, seen.first), rows.set(1, seen.last), rows.set(2, seen.u), rows.set(3, seen.v);
    for (; hits; hits &= hits - 1) {
        const int ray = lowest_bit(hits);
        visit(first_ray + ray, Seen{rows.at[0][ray], rows.at[1][ray], rows.at[2][ray], rows.at[3][ray], seen.face}, g.last[ray]);
    }
}

// The rays of a group that enter the box of a child.
GK_FN uint rays_in(const Node& node, int negative, int child, const RayGroup& g) {
    const Planes planes = planes_of(node, negative, child);
    Lanes enter = load(g.first), leave = load(g.last);
    GK_UNROLL
    for (int k = 0; k < 3; ++k) {
        enter = max(enter, planes.enter[k] * load(g.inverse[k]) + load(g.near[k]));
        leave = min(leave, planes.leave[k] * load(g.inverse[k]) + load(g.far[k]));
    }
    return bits(enter <= leave);
}

// Takes groups k to k + BUNDLE - 1 through the tree as a bundle, if they are one; the answer is whether they were.
template <class Visitor> GK_FN bool walk_bundle(const Bvh& bvh, Block& block, int k, Width& width, Visitor& visit) {
    constexpr int ALONE = 2;  // rays that are better off alone
    Bundle bundle;
    if (!bundled(block, k, width.most, bundle)) return false;
    // Nodes and, as what their children are is not known before, leaves by the node above and the number there.
    Stack stack;
    stack.size = 0;
    int wasted = 0, current = -1;
    do {
        const int child = current < 0 ? 0 : bvh.nodes[current / WIDTH].child[current % WIDTH];
        if (child >= 0) {
            const Node& node = bvh.nodes[child];
            alignas(64) real near[WIDTH];
            int number[WIDTH];
            uint hits = 0;
            GK_UNROLL
            for (int c = 0; c < WIDTH; c += LANES) hits |= entered(planes_at(node, bundle.negative, c), bundle, near + c) << c;
            if (!hits) {
                current = stack.pop(bundle.last);
                continue;
            }
            for (int c = 0; c < WIDTH; ++c) number[c] = child * WIDTH + c;
            for (uint h = hits; h; h &= h - 1) fetch(bvh, node.child[lowest_bit(h)]);
            current = stack.push(number, near, hits);
            continue;
        }
        const Packet& packet = bvh.packets[~child];
        uint triangles = 0;
        bool entered_by_none = true;
        GK_UNROLL
        for (int c = 0; c < WIDTH; c += LANES) triangles |= maybe_met(packet, c, bundle) << c;
        if (triangles)
            for (int j = 0; j < BUNDLE; ++j) {
                RayGroup& g = block.group[k + j];
                uint rays = rays_in(bvh.nodes[current / WIDTH], bundle.negative, current % WIDTH, g);
                if (!rays) continue;
                entered_by_none = false;
                if (count_bits(rays) <= ALONE)
                    for (; rays; rays &= rays - 1) {
                        const int lane = lowest_bit(rays);
                        visit_packet(bvh, ~child, (k + j) * LANES + lane, {g, lane}, visit);
                    }
                else
                    for (uint left = triangles; left; left &= left - 1)
                        pass_rays_through(packet, lowest_bit(left), bundle.axes, g, (k + j) * LANES, rays, visit);
            }
        wasted += entered_by_none;
        Lanes last = load(block.group[k].last);
        for (int j = 1; j < BUNDLE; ++j) last = max(last, load(block.group[k + j].last));
        bundle.last = most(last);
        current = stack.pop(bundle.last);
    } while (current != EMPTY);
    if (wasted > WASTED) width.most *= real(0.5);
    return true;
}

}  // namespace gk
