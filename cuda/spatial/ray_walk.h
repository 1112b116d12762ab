// From the root to the triangles that rays pass through: a block of rays together, the results those of each alone.
#pragma once
#include "ray_bundle.h"

namespace gk {

constexpr int FEW = 16;  // rays that are better off alone

// Rays of a group that wait before a box, and where each enters it.
struct alignas(64) Waiting {
    real near[LANES];
    int group;
    uint mask;
};

struct Queue {
    int child, size, rays;
    Waiting* first;
    Waiting* free;  // where the lists of its children may go
};

// Takes a block of rays through the tree together, as long as neighbours go the same way: a box is tested against a group of
// rays at once. Lists of groups are taken up nearest child first. A list whose groups have few rays left, or one that the
// memory does not hold, is walked ray by ray; the results are the same.
template <class Visitor> GK_FN void walk_together(const Bvh& bvh, Block& block, int n, Visitor& visit) {
    constexpr int GROUPS = RAYS / LANES, LISTED = GROUPS * 64;
    GK_SCRATCH Waiting scratch[LISTED];
    Queue stack[WIDTH * MAX_DEPTH + WIDTH];
    Waiting* free = located(scratch);
    const Waiting* end = free + LISTED;
    int size = 0;

    // Rays of one octant see the same sides of all boxes. Groups of several octants have little in common: each ray alone.
    Queue octants[8];
    for (int k = 0; k < 8; ++k) octants[k] = {0, 0, 0, free, nullptr}, free += GROUPS;
    Width width;
    for (int k = 0; k * LANES < n; ++k) {
        // Rays close to each other need not be told apart before the triangles.
        if (k % BUNDLE == 0 && k * LANES + BUNDLE * LANES <= n && walk_bundle(bvh, block, k, width, visit)) {
            k += BUNDLE - 1;
            continue;
        }
        const RayGroup& g = block.group[k];
        const int count = min(LANES, n - k * LANES);
        if (g.octant == MIXED) {
            for (int lane = 0; lane < count; ++lane) walk(bvh, 0, k * LANES + lane, block, visit);
            continue;
        }
        Queue& queue = octants[g.octant];
        Waiting& w = queue.first[queue.size++];
        store(w.near, load(g.first)), w.group = k, w.mask = (1u << count) - 1;
        queue.rays += count;
    }
    for (int k = 0; k < 8; ++k)
        if (octants[k].size) octants[k].free = free, stack[size++] = octants[k];

    while (size) {
        Queue list = stack[--size];
        bool together = list.rays >= FEW && list.rays >= 3 * list.size && list.free + WIDTH * list.size <= end;
        if (list.child < 0 || !together) {
            for (const Waiting* w = list.first; w < list.first + list.size; ++w) {
                RayGroup& g = block.group[w->group];
                for (uint rays = w->mask & bits(load(w->near) <= load(g.last)); rays; rays &= rays - 1) {
                    int lane = lowest_bit(rays), i = w->group * LANES + lane;
                    if (list.child < 0) visit_packet(bvh, ~list.child, i, {g, lane}, visit);
                    else walk(bvh, list.child, i, block, visit);
                }
            }
            continue;
        }

        // Hand each group to the children that some of its rays enter.
        const Node& node = bvh.nodes[list.child];
        const int negative = block.group[list.first->group].negative[lowest_bit(list.first->mask)];
        Waiting *first[WIDTH], *last[WIDTH];
        int rays[WIDTH] = {};
        for (int k = 0; k < WIDTH; ++k) first[k] = last[k] = list.free + k * list.size;
        for (const Waiting* w = list.first; w < list.first + list.size; ++w) {
            const RayGroup& g = block.group[w->group];
            const Vec3L inverse = load3(g.inverse[0], g.inverse[1], g.inverse[2]), near = load3(g.near[0], g.near[1], g.near[2]);
            const Vec3L far = load3(g.far[0], g.far[1], g.far[2]);
            const Lanes least = load(g.first), most = load(g.last);
            for (int k = 0; k < WIDTH; ++k) {
                Planes planes = planes_of(node, negative, k);
                Lanes enter = max(max(planes.enter[0] * inverse.x + near.x, planes.enter[1] * inverse.y + near.y),
                                  max(planes.enter[2] * inverse.z + near.z, least));
                Lanes leave = min(min(planes.leave[0] * inverse.x + far.x, planes.leave[1] * inverse.y + far.y),
                                  min(planes.leave[2] * inverse.z + far.z, most));
                uint mask = bits(enter <= leave) & w->mask;
                // Write to the end of every list and move only the ends that count: no branch to mispredict.
                Waiting* end_of_list = last[k];
                store(end_of_list->near, enter), end_of_list->group = w->group, end_of_list->mask = mask;
                last[k] = end_of_list + (mask != 0), rays[k] += count_bits(mask);
            }
        }
        Queue children[WIDTH];
        Waiting* out = list.free;
        int count = 0;
        for (int k = 0; k < WIDTH; ++k) {
            if (last[k] == first[k]) continue;
            fetch(bvh, node.child[k]);
            children[count++] = {node.child[k], int(last[k] - first[k]), rays[k], first[k], nullptr};
            out = last[k];
        }

        // Nearest child on top, as the first ray on each list sees it.
        int base = size;
        for (int c = 0; c < count; ++c) {
            real near = children[c].first->near[lowest_bit(children[c].first->mask)];
            children[c].free = out;
            int k = size++;
            for (; k > base && stack[k - 1].first->near[lowest_bit(stack[k - 1].first->mask)] < near; --k) stack[k] = stack[k - 1];
            stack[k] = children[c];
        }
    }
}

// Prepares rays begin to end - 1, which are also in columns, and shows the visitor what each passes through. The answer is the
// first that is none, or -1.
template <class Visitor>
GK_FN int walk_columns(const Bvh& bvh, const Rays& rays, int begin, int end, const Columns<RAYS>& in, Block& block, Visitor& visit) {
    int invalid = -1, n = end - begin;
    for (int i = 0; i < n; i += LANES) {
        Vec3L p = load3(in.origin[0] + i, in.origin[1] + i, in.origin[2] + i);
        Vec3L d = load3(in.direction[0] + i, in.direction[1] + i, in.direction[2] + i);
        uint valid = prepare(bvh, rays, begin + i, end, p, d, block.of(i));
        uint none = ~valid & ((1u << min(LANES, n - i)) - 1);
        if (none && invalid < 0) invalid = begin + i + lowest_bit(none);
    }
    if (RAYS < FEW || n < FEW)
        for (int i = 0; i < n; ++i) walk(bvh, 0, i, block, visit);
    else
        walk_together(bvh, block, n, visit);
    return invalid;
}

template <class Visitor> GK_FN int walk_rays(const Bvh& bvh, const Rays& rays, int begin, int end, Block& block, Visitor& visit) {
    Columns<RAYS> in;
    in.read(bvh, rays, begin, end - begin);
    return walk_columns(bvh, rays, begin, end, in, block, visit);
}

}  // namespace gk
