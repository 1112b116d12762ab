// The stack of a depth-first traversal, nearest child first.
#pragma once
#include "bvh.h"

namespace gk {

// A child and how near it is. On float the pair is one 64-bit integer that orders by distance (among negative ones, which
// only rays have, backwards: they cost time, not hits).
struct Entry {
    int child;
    real near;
};
#if GK_GPU
GK_FN bool nearer(Entry a, Entry b) { return a.near < b.near; }
#else
GK_FN bool nearer(Entry a, Entry b) {
    if (!IS_FLOAT) return a.near < b.near;
    long long x, y;
    __builtin_memcpy(&x, &a, sizeof x);
    __builtin_memcpy(&y, &b, sizeof y);
    return x < y;
}
#endif
GK_FN void sort(Entry& a, Entry& b) {
    bool keep = nearer(a, b);
    Entry first = keep ? a : b, second = keep ? b : a;
    a = first, b = second;
}

struct Stack {
    Entry entry[GK_STACK];  // seven a level of the tree are enough, see MAX_DEPTH
    int size;

    // Pushes the children in `hits`, whose distances are near[lane], farthest first; the nearest is returned instead.
    // hits is not 0.
    GK_FN int push(const int* child, const real* near, uint hits) {
        auto next = [&] {
            int lane = lowest_bit(hits);
            hits &= hits - 1;
            return Entry{child[lane], near[lane]};
        };
        // Up to three hits are the most common, and need no branch but those that count them.
        Entry a = next();
        if (!hits) return a.child;
        Entry b = next();
        if (!hits) {
            sort(a, b);
            entry[size++] = b;
            return a.child;
        }
        Entry c = next();
        sort(a, b), sort(b, c), sort(a, b);
        int base = size;
        entry[size] = c, entry[size + 1] = b;
        size += 2;
        while (hits) {
            Entry e = next();
            sort(a, e);
            int i = size++;
            for (; i > base && nearer(entry[i - 1], e); --i) entry[i] = entry[i - 1];
            entry[i] = e;
        }
        return a.child;
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
