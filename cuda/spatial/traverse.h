// The stack of a depth-first traversal, nearest child first.
#pragma once
#include "bvh.h"

namespace gk {

// A child and how near it is.
template <class T> struct EntryOf {
    T distance;
    int index;

    GK_FN static EntryOf of(const T* near, const int* child, int lane) { return {near[lane], child[lane]}; }
    GK_FN T near() const { return distance; }
    GK_FN int child() const { return index; }
    GK_FN bool operator<(const EntryOf& b) const { return distance < b.distance; }
};
#if !GK_GPU
// On float the two are one integer, the distance above: comparing and moving it needs no branch. (Negative distances, which only
// rays have, order backwards; that costs time, not hits.)
template <> struct EntryOf<float> {
    long long key;

    GK_FN static EntryOf of(const float* near, const int* child, int lane) {
        int distance;
        __builtin_memcpy(&distance, near + lane, sizeof distance);
        return {(long long)((uint64)(uint)distance << 32 | (uint)child[lane])};
    }
    GK_FN float near() const {
        int distance = int(key >> 32);
        float near;
        __builtin_memcpy(&near, &distance, sizeof near);
        return near;
    }
    GK_FN int child() const { return int(key); }
    GK_FN bool operator<(const EntryOf& b) const { return key < b.key; }
};
#endif
typedef EntryOf<real> Entry;

GK_FN void sort(Entry& a, Entry& b) {
    bool keep = a < b;
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
            return Entry::of(near, child, lane);
        };
        // Up to three hits are the most common, and need no branch but those that count them.
        Entry a = next();
        if (!hits) return a.child();
        Entry b = next();
        if (!hits) {
            sort(a, b);
            entry[size++] = b;
            return a.child();
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
            for (; i > base && entry[i - 1] < e; --i) entry[i] = entry[i - 1];
            entry[i] = e;
        }
        return a.child();
    }

    // The next child nearer than `bound`, or EMPTY when there is none.
    GK_FN int pop(real bound) {
        while (size > 0)
            if (entry[--size].near() < bound) return entry[size].child();
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
