// A block of rays, and the way of one of them from the root to the triangles that it passes through.
//
// A visitor says what becomes of them: visit(i, seen, last) for ray i of a block. It may lower `last`, beyond which the ray
// looks no farther. With TOGETHER it first is shown what rays of a group meet at once: together(i, hits, seen, group), for the rays
// i and on that `hits` has bits of, answers with those that it wants to see one by one.
#pragma once
#include "rays.h"

namespace gk {

constexpr int RAYS = GK_GPU ? 1 : 2048;  // of a block

struct Block {
    RayGroup group[RAYS / LANES];

    GK_FN RayGroup& of(int i) { return group[uint(i) / LANES]; }
    GK_FN real& last(int i) { return of(i).last[lane(i)]; }
    GK_FN real first(int i) { return of(i).first[lane(i)]; }
    GK_FN real end(int i) { return of(i).end[lane(i)]; }
    GK_FN static int lane(int i) { return uint(i) % LANES; }
};

template <class Visitor> GK_FN void visit_packet(const Bvh& bvh, int packet, int i, const RayOf& ray, Visitor& visit) {
    pass_through<Visitor::ONCE>(bvh.packets[packet], ray, visit.cull, [&](const Seen& seen) { visit(i, seen, ray.g.last[ray.lane]); });
}

GK_FN void fetch(const Bvh& bvh, int child) {
    const char* p = child < 0 ? (const char*)(bvh.packets + ~child) : (const char*)(bvh.nodes + child);
    for (int line = 0; line < 4; ++line) prefetch(p + 64 * line);
}

// Takes ray i through the tree from a node or packet, in the order of the memory, until it looks nowhere any more: most rays to a
// light meet nothing, and sorting their boxes takes longer than it saves the others.
template <class Visitor> GK_FN void walk_unordered(const Bvh& bvh, int from, int i, Block& block, Visitor& visit) {
    const RayOf ray = {block.of(i), block.lane(i)};
    const int negative = ray.g.negative[ray.lane];
    const real& last = ray.g.last[ray.lane];
    int stack[GK_STACK], size = 0;
    for (int current = from; last != NOWHERE; current = stack[--size]) {
        if (current < 0) {
            visit_packet(bvh, ~current, i, ray, visit);
        } else {
            const Node& node = bvh.nodes[current];
            alignas(64) real near[WIDTH];
            uint hits = 0;
            GK_UNROLL
            for (int k = 0; k < WIDTH; k += LANES) hits |= entered(planes_at(node, negative, k), ray, near + k) << k;
            for (; hits; hits &= hits - 1) {
                fetch(bvh, stack[size] = node.child[lowest_bit(hits)]);
                ++size;
            }
        }
        if (!size) return;
    }
}

// Takes ray i through the tree from a node or packet, nearest child first.
template <class Visitor> GK_FN void walk(const Bvh& bvh, int from, int i, Block& block, Visitor& visit) {
    if constexpr (Visitor::ANY_ORDER && LANES > 1) return walk_unordered(bvh, from, i, block, visit);

    const RayOf ray = {block.of(i), block.lane(i)};
    const int negative = ray.g.negative[ray.lane];
    const real& last = ray.g.last[ray.lane];
    Stack stack;
    stack.size = 0;
    for (int current = from; current != EMPTY;) {
        if (current < 0) {
            visit_packet(bvh, ~current, i, ray, visit);
            current = stack.pop(last);
            continue;
        }
        const Node& node = bvh.nodes[current];
        alignas(64) real near[WIDTH];
        uint hits = 0;
        GK_UNROLL
        for (int k = 0; k < WIDTH; k += LANES) hits |= entered(planes_at(node, negative, k), ray, near + k) << k;
        if (!hits) {
            current = stack.pop(last);
            continue;
        }
        for (uint h = hits; h; h &= h - 1) fetch(bvh, node.child[lowest_bit(h)]);
        current = stack.push(node.child, near, hits);
    }
}

}  // namespace gk
