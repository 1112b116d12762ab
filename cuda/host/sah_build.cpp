// Top-down build of the tree by the surface area heuristic with binning (Wald 2007), on all cores.
//
// First a binary tree in implicit slots: the left child of a node is the next slot, the right child of a node that splits
// off nl triangles is 2 nl slots on. So no two threads ever want the same slot and the tree does not depend on how many
// there are. Large ranges are split one after another, each by all threads; the ranges below are then built in parallel.
// Then the binary tree is folded into nodes of eight, level by level, opening the child of largest area first.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "fold.h"
#include "launch.h"

namespace gk {
namespace {

constexpr int SMALL = 64, MEDIUM = 1 << 12, LARGE = 1 << 15, BLOCK = 1 << 13, MAX_BINARY_DEPTH = 48;

// Memory that a build needs and the next build may have: fresh pages cost up to a third of a build's time.
class Scratch {
  public:
    explicit Scratch(size_t size) : owner_(!taken_.exchange(true)) {
        size = (size + 63) / 64 * 64;
        if (!owner_) {
            data_ = aligned_alloc(64, size);
        } else if (kept_size_ >= size) {
            data_ = kept_;
        } else {
            free(kept_);
            data_ = kept_ = aligned_alloc(64, size);
            kept_size_ = kept_ ? size : 0;
        }
        if (!data_) {
            if (owner_) taken_.store(false);
            throw std::bad_alloc();
        }
    }
    ~Scratch() {
        if (!owner_) {
            free(data_);
            return;
        }
        if (kept_size_ > LIMIT) {
            free(kept_);
            kept_ = nullptr, kept_size_ = 0;
        }
        taken_.store(false);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    char* data() const { return static_cast<char*>(data_); }

  private:
    static constexpr size_t LIMIT = 64 << 20;
    static inline std::atomic<bool> taken_{false};
    static inline void* kept_ = nullptr;
    static inline size_t kept_size_ = 0;
    bool owner_;
    void* data_;
};

struct Range {
    Reference *from, *to;  // the range's references, and the buffer that receives them when it is split
    int begin, end, slot, depth;
    Box centroids;
};

class Builder {
  public:
    Slot* slots;
    Reference* references;

    Builder(int n, const real* vertices, const int* faces, const double* place)
        : scratch_(2 * (size_t)n * (sizeof(Slot) + sizeof(Reference))), n_(n) {
        slots = reinterpret_cast<Slot*>(scratch_.data());
        references = reinterpret_cast<Reference*>(slots + 2 * (size_t)n);
        Box box = NOTHING, centroids = NOTHING;
        bound(vertices, faces, place, box, centroids);
        slots[0].lower = box.lower, slots[0].upper = box.upper;
        // Split together what is large, then each alone what is medium, then build what is small.
        std::vector<Range> medium, small;
        split_large({references, references + n, 0, n, 0, 0, centroids}, medium);
        std::vector<std::vector<Range>> part(medium.size());
        parallel_for((int)medium.size(), 1, [&](int begin, int end) {
            for (int i = begin; i < end; ++i) split_medium(medium[i], part[i]);
        });
        for (const auto& p : part) small.insert(small.end(), p.begin(), p.end());
        parallel_for((int)small.size(), 1, [&](int begin, int end) {
            for (int i = begin; i < end; ++i) build(small[i]);
        });
    }

  private:
    Scratch scratch_;
    int n_;

    void bound(const real* vertices, const int* faces, const double* place, Box& box, Box& centroids) {
        const double inverse = 1 / place[3];
        int blocks = (n_ + BLOCK - 1) / BLOCK;
        std::vector<Box> part(2 * blocks, NOTHING);
        parallel_for(blocks, 1, [&](int first, int last) {
            for (int b = first; b < last; ++b) {
                Box all = NOTHING, mid = NOTHING;
                for (int f = b * BLOCK, end = min(f + BLOCK, n_); f < end; ++f) {
                    Box t = NOTHING;
                    for (int k = 0; k < 3; ++k) {
                        const real* v = vertices + 3 * (size_t)faces[3 * (size_t)f + k];
                        Real4 p = {real((v[0] - place[0]) * inverse), real((v[1] - place[1]) * inverse), real((v[2] - place[2]) * inverse), 0};
                        t.add(p, p);
                    }
                    Real4 c = t.lower + t.upper;
                    all.add(t), mid.add(c, c);
                    t.lower[3] = as_real(f), t.upper[3] = as_real(0);
                    references[f] = {t.lower, t.upper};
                }
                part[2 * b] = all, part[2 * b + 1] = mid;
            }
        });
        for (int b = 0; b < blocks; ++b) box.add(part[2 * b]), centroids.add(part[2 * b + 1]);
    }

    void set_children(const Range& r, const Split& s, int middle) {
        Slot& slot = slots[r.slot];
        int right = r.slot + 2 * (middle - r.begin);
        slot.lower[3] = as_real(right), slot.upper[3] = as_real(0);
        slots[r.slot + 1].lower = s.left.lower, slots[r.slot + 1].upper = s.left.upper;
        slots[right].lower = s.right.lower, slots[right].upper = s.right.upper;
    }

    // Bounds of the children's centroids: their boxes, cut by the parent's bounds and by the splitting plane. An estimate
    // that is never too small, since Binning clamps.
    void child_ranges(const Range& r, const Binning& g, const Split& s, int middle, Range& left, Range& right) {
        int slot = r.slot + 2 * (middle - r.begin);
        left = {r.to, r.from, r.begin, middle, r.slot + 1, r.depth + 1, NOTHING};
        right = {r.to, r.from, middle, r.end, slot, r.depth + 1, NOTHING};
        left.centroids.lower = max4(s.left.lower + s.left.lower, r.centroids.lower);
        left.centroids.upper = min4(s.left.upper + s.left.upper, r.centroids.upper);
        right.centroids.lower = max4(s.right.lower + s.right.lower, r.centroids.lower);
        right.centroids.upper = min4(s.right.upper + s.right.upper, r.centroids.upper);
        real plane = g.lower[s.axis] + s.bin / g.scale[s.axis];
        left.centroids.upper[s.axis] = min(left.centroids.upper[s.axis], plane);
        right.centroids.lower[s.axis] = max(right.centroids.lower[s.axis], plane);
    }

    // Ranges that all threads split together, in blocks of fixed size.
    void split_large(const Range& r, std::vector<Range>& medium) {
        int n = r.end - r.begin, blocks = (n + BLOCK - 1) / BLOCK;
        if (n <= LARGE || r.depth > MAX_BINARY_DEPTH) {
            medium.push_back(r);
            return;
        }
        Binning g(r.centroids, BINS, false);
        std::vector<Bins> part(blocks);
        parallel_for(blocks, 1, [&](int first, int last) {
            for (int b = first; b < last; ++b) part[b].fill(g, r.from + r.begin + b * BLOCK, min(BLOCK, n - b * BLOCK));
        });
        Bins bins = part[0];
        for (int b = 1; b < blocks; ++b) bins.add(g, part[b]);
        Split s(g, bins, n);
        if (s.axis < 0) {
            medium.push_back(r);
            return;
        }
        int middle = r.begin + s.left_count;
        std::vector<int> left(blocks + 1, r.begin), right(blocks + 1, middle);
        for (int b = 0; b < blocks; ++b) {
            int count = 0;
            for (int i = 0; i < s.bin; ++i) count += part[b].bin[s.axis][i].count;
            left[b + 1] = left[b] + count;
            right[b + 1] = right[b] + min(BLOCK, n - b * BLOCK) - count;
        }
        parallel_for(blocks, 1, [&](int first, int last) {
            for (int b = first; b < last; ++b) {
                int l = left[b], h = right[b];
                for (int i = r.begin + b * BLOCK, end = min(i + BLOCK, r.end); i < end; ++i) {
                    bool is_left = g.bin(r.from[i], s.axis) < s.bin;
                    r.to[is_left ? l : h] = r.from[i];
                    l += is_left, h += !is_left;
                }
            }
        });
        set_children(r, s, middle);
        Range a, b;
        child_ranges(r, g, s, middle, a, b);
        split_large(a, medium);
        split_large(b, medium);
    }

    // One thread's split of a range that is still larger than SMALL. False if no plane separates it.
    bool split(const Range& r, Range& a, Range& b) {
        int n = r.end - r.begin;
        Binning g(r.centroids, BINS, false);
        Bins bins;
        bins.fill(g, r.from + r.begin, n);
        Split s(g, bins, n);
        if (s.axis < 0) return false;
        // Write every reference to both ends and keep one: no branch to mispredict.
        int l = r.begin, h = r.end - 1;
        for (int i = r.begin; i < r.end; ++i) {
            bool is_left = g.bin(r.from[i], s.axis) < s.bin;
            Reference x = r.from[i];
            r.to[l] = x;
            r.to[h] = x;
            l += is_left, h -= !is_left;
        }
        set_children(r, s, l);
        child_ranges(r, g, s, l, a, b);
        return true;
    }

    void split_medium(const Range& r, std::vector<Range>& small) {
        Range a, b;
        if (r.end - r.begin <= MEDIUM || r.depth > MAX_BINARY_DEPTH || !split(r, a, b)) {
            small.push_back(r);
            return;
        }
        split_medium(a, small);
        split_medium(b, small);
    }

    void build(const Range& r) {
        Range a, b;
        if (r.end - r.begin > SMALL && r.depth <= MAX_BINARY_DEPTH && split(r, a, b)) {
            build(a);
            build(b);
            return;
        }
        if (r.from != references) std::memcpy((void*)(references + r.begin), r.from + r.begin, sizeof(Reference) * (r.end - r.begin));
        Box centroids = NOTHING;
        for (int i = r.begin; i < r.end; ++i) {
            Real4 c = references[i].lower + references[i].upper;
            centroids.add(c, c);
        }
        finish(r.begin, r.end, r.slot, r.depth, centroids);
    }

    // Small ranges: in place, all three axes, exact centroid bounds; halves where no plane separates or the tree is deep.
    void finish(int begin, int end, int at, int depth, const Box& centroids) {
        int n = end - begin;
        Slot& slot = slots[at];
        if (n <= WIDTH) {
            slot.lower[3] = as_real(begin), slot.upper[3] = as_real(n);
            return;
        }
        Binning g(centroids, min(BINS, 4 + n / 16), true);
        Bins bins;
        bins.clear(g);
        for (int i = begin; i < end; ++i) {
            Real4 lower = references[i].lower, upper = references[i].upper;
            Mask4 k = __builtin_convertvector((lower + upper - g.lower) * g.scale, Mask4);
            for (int a = 0; a < 3; ++a) {
                Bin& b = bins.bin[a][k[a]];
                b.box.add(lower, upper);
                ++b.count;
            }
        }
        Split s(g, bins, n);
        Box left = NOTHING, right = NOTHING;  // of centroids
        int middle = begin;
        if (s.axis >= 0 && depth <= MAX_BINARY_DEPTH) {
            int i = begin, j = end;
            for (;;) {
                for (; i < j && g.bin(references[i], s.axis) < s.bin; ++i) add_centroid(left, references[i]);
                for (; i < j && g.bin(references[j - 1], s.axis) >= s.bin; --j) add_centroid(right, references[j - 1]);
                if (i >= j) break;
                std::swap(references[i], references[j - 1]);
            }
            middle = i;
        } else {
            middle = begin + n / 2;
            s.left = s.right = NOTHING;
            for (int i = begin; i < end; ++i) {
                (i < middle ? s.left : s.right).add(references[i].lower, references[i].upper);
                add_centroid(i < middle ? left : right, references[i]);
            }
        }
        set_children({nullptr, nullptr, begin, end, at, depth, NOTHING}, s, middle);
        finish(begin, middle, at + 1, depth + 1, left);
        finish(middle, end, at + 2 * (middle - begin), depth + 1, right);
    }

    static void add_centroid(Box& box, const Reference& r) {
        Real4 c = r.lower + r.upper;
        box.add(c, c);
    }
};

}  // namespace
}  // namespace gk

// Builds the tree of n > 0 faces; place is the centre and the scale of the tree's coordinates. nodes has room for n nodes,
// leaf_faces for 8 n faces, level_start for MAX_DEPTH + 2 numbers. counts becomes (levels, nodes, packets). Returns 0, or 1 if
// the tree is too deep, or 2 if there is not enough memory.
GK_EXPORT int gk_sah_build(int n, const gk::real* vertices, const int* faces, const double* place, gk::Node* nodes,
                           int* leaf_faces, int* level_start, int* counts) try {
    gk::Builder builder(n, vertices, faces, place);
    gk::Fold fold(builder.slots, builder.references, nodes, leaf_faces, level_start);
    if (!fold.run()) return 1;
    counts[0] = fold.levels, counts[1] = fold.n_nodes, counts[2] = fold.n_packets;
    return 0;
} catch (const std::bad_alloc&) {
    return 2;
}

GK_EXPORT void gk_connect(gk::Parallel parallel) { gk::parallel = parallel; }
