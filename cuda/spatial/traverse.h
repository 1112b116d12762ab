// The stack of a depth-first traversal, nearest child first.
#pragma once
#include "bvh.h"

namespace gk {

// A child and how near it is. Distances are not negative, so their bits order like the numbers, and on float the pair is
// one 64-bit integer.
struct Entry {
    real near;
    int child;
};

struct Stack {
    Entry entry[GK_STACK];  // seven a level of the tree are enough, see MAX_DEPTH
    int size;

    // Pushes the children in `hits`, whose distances are near[lane], farthest first; the nearest is returned instead.
    // Node order breaks ties. hits is not 0.
    GK_FN int push(const int* child, const real* near, uint hits) {
        int lane = lowest_bit(hits);
        hits &= hits - 1;
        Entry best = {near[lane], child[lane]};
        if (!hits) return best.child;

        // Two hits are the most common.
        lane = lowest_bit(hits);
        hits &= hits - 1;
        Entry other = {near[lane], child[lane]};
        bool swap = other.near < best.near;
        Entry far = swap ? best : other;
        best = swap ? other : best;
        int base = size;
        entry[size++] = far;
        while (hits) {
            lane = lowest_bit(hits);
            hits &= hits - 1;
            Entry e = {near[lane], child[lane]};
            if (e.near < best.near) {
                entry[size++] = best;
                best = e;
                continue;
            }
            int i = size++;
            for (; i > base && entry[i - 1].near < e.near; --i) entry[i] = entry[i - 1];
            entry[i] = e;
        }
        return best.child;
    }

    // The next child nearer than `bound`, or EMPTY when there is none.
    GK_FN int pop(real bound) {
        while (size > 0)
            if (entry[--size].near < bound) return entry[size].child;
        return EMPTY;
    }
};

// The distances of all eight children: one register on the CPU, eight scalars on the GPU.
struct Distances {
    Lanes lanes[WIDTH / LANES];

    GK_FN uint below(real bound) const {
        uint hits = 0;
        GK_UNROLL
        for (int k = 0; k < WIDTH / LANES; ++k) hits |= bits(lanes[k] < splat(bound)) << (k * LANES);
        return hits;
    }
    GK_FN void store_to(real* near) const {
        GK_UNROLL
        for (int k = 0; k < WIDTH / LANES; ++k) store(near + k * LANES, lanes[k]);
    }
    GK_FN void lower_to(const Distances& other) {
        GK_UNROLL
        for (int k = 0; k < WIDTH / LANES; ++k) lanes[k] = min(lanes[k], other.lanes[k]);
    }
};

// test(lane) gives the distances of LANES children from `lane` on.
template <class Test> GK_FN Distances distances(const Test& test) {
    Distances d;
    GK_UNROLL
    for (int k = 0; k < WIDTH / LANES; ++k) d.lanes[k] = test(k * LANES);
    return d;
}

}  // namespace gk
