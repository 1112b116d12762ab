// Where to split a set of triangles: boxes, bins, and the plane of least cost (Wald 2007).
#pragma once
#include <cstring>

#include "../spatial/bvh.h"

namespace gk {

typedef real Real4 __attribute__((vector_size(4 * sizeof(real))));
typedef decltype(Real4{} < Real4{}) Mask4;

// One instruction where four reals fit a register; the compiler does not find it by itself.
template <class V> GK_FN V min4(V a, V b) {
    if constexpr (sizeof(V) <= REGISTER) return min(a, b);
    else return a < b ? a : b;
}
template <class V> GK_FN V max4(V a, V b) {
    if constexpr (sizeof(V) <= REGISTER) return max(a, b);
    else return a > b ? a : b;
}

// Integers ride in lane 3 of a box. The offset makes them, and all their differences and products, normal numbers:
// arithmetic on denormals is a hundred times slower.
constexpr int OFFSET = 0x30000000;
inline real as_real(int i) {
    real r = 0;
    if (IS_FLOAT) i += OFFSET;
    else r = 1;
    std::memcpy(&r, &i, 4);
    return r;
}
inline int as_int(real r) {
    int i;
    std::memcpy(&i, &r, 4);
    return IS_FLOAT ? i - OFFSET : i;
}

struct Box {
    Real4 lower, upper;
    void add(Real4 lo, Real4 hi) { lower = min4(lower, lo), upper = max4(upper, hi); }
    void add(const Box& b) { add(b.lower, b.upper); }
    real half_area() const {
        Real4 d = upper - lower;
        return d[0] * d[1] + d[1] * d[2] + d[2] * d[0];
    }
};

const Box NOTHING = {Real4{} + INFINITE, Real4{} - INFINITE};

struct Reference { Real4 lower, upper; };  // a triangle's box; lower[3] is the face

constexpr int BINS = 16;

struct Bin { Box box; int count; };

// The map from a centroid (lower + upper) to a bin on each axis.
struct Binning {
    Real4 lower, scale;
    int bins, first_axis, last_axis;

    Binning(const Box& centroids, int bins, bool all_axes) : lower(centroids.lower), bins(bins) {
        Real4 extent = centroids.upper - centroids.lower;
        for (int k = 0; k < 4; ++k) scale[k] = k < 3 && extent[k] > 0 ? min(bins * real(0.99999) / extent[k], INFINITE) : 0;
        first_axis = 0, last_axis = 3;
        if (!all_axes) {
            first_axis = extent[0] > extent[1] ? (extent[0] > extent[2] ? 0 : 2) : (extent[1] > extent[2] ? 1 : 2);
            last_axis = first_axis + 1;
        }
    }
    // r stays in memory: a lane of a register that is not known in advance is slow to read.
    int bin(const Reference& r, int axis) const {
        const real* box = (const real*)&r;
        int k = int((box[axis] + box[4 + axis] - lower[axis]) * scale[axis]);
        return k < 0 ? 0 : k >= bins ? bins - 1 : k;  // centroid bounds of large ranges are estimates
    }
};

struct Bins {
    Bin bin[3][BINS];

    void clear(const Binning& g) {
        for (int a = g.first_axis; a < g.last_axis; ++a)
            for (int i = 0; i < g.bins; ++i) bin[a][i] = {NOTHING, 0};
    }
    // Counts on the one axis of g.
    void fill(const Binning& g, const Reference* r, int n) {
        // Two sets in turn, since consecutive triangles fall into the same bin and would wait for one another.
        Bins other;
        clear(g), other.clear(g);
        int axis = g.first_axis;
        Bin *even = bin[axis], *odd = other.bin[axis];
        for (int i = 0; i < n; ++i) {
            Bin& b = (i & 1 ? odd : even)[g.bin(r[i], axis)];
            b.box.add(r[i].lower, r[i].upper);
            ++b.count;
        }
        add(g, other);
    }
    void add(const Binning& g, const Bins& other) {
        for (int a = g.first_axis; a < g.last_axis; ++a)
            for (int i = 0; i < g.bins; ++i) {
                bin[a][i].box.add(other.bin[a][i].box);
                bin[a][i].count += other.bin[a][i].count;
            }
    }
};

inline int packets(int n) { return (n + WIDTH - 1) / WIDTH; }

struct Split {
    int axis = -1, bin = 0, left_count = 0;
    Box left = NOTHING, right = NOTHING;

    // The best plane between bins: least area times packets, summed over both sides. axis stays -1 if none separates.
    Split(const Binning& g, const Bins& bins, int n) {
        real best = INFINITE;
        for (int a = g.first_axis; a < g.last_axis; ++a) {
            if (!(g.scale[a] > 0)) continue;
            const Bin* b = bins.bin[a];
            real right_cost[BINS];
            Box box = NOTHING;
            int count = 0;
            for (int i = g.bins - 1; i > 0; --i) {
                box.add(b[i].box);
                count += b[i].count;
                right_cost[i] = count ? box.half_area() * packets(count) : 0;
            }
            box = NOTHING, count = 0;
            for (int i = 1; i < g.bins; ++i) {
                box.add(b[i - 1].box);
                count += b[i - 1].count;
                if (!count || count == n) continue;
                real cost = box.half_area() * packets(count) + right_cost[i];
                if (cost < best) best = cost, axis = a, bin = i, left = box, left_count = count;
            }
        }
        if (axis >= 0)
            for (int i = bin; i < g.bins; ++i) right.add(bins.bin[axis][i].box);
    }
};

}  // namespace gk
