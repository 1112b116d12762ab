// The binary tree of a build, and how it becomes nodes of eight.
#pragma once
#include <vector>

#include "pool.h"
#include "sah_split.h"

namespace gk {

// lower[3]: slot of the right child, or first reference of a leaf; upper[3]: 0, or number of triangles of a leaf.
struct Slot {
    Real4 lower, upper;
    bool leaf() const { return as_int(upper[3]) != 0; }
    int right() const { return as_int(lower[3]); }
    int first() const { return as_int(lower[3]); }
    int count() const { return as_int(upper[3]); }
};

// One level of wide nodes: the slots that become the nodes of the level, in order.
class Fold {
  public:
    Fold(const Slot* slots, const Reference* references, Node* nodes, int* leaf_faces, int* level_start)
        : slots_(slots), references_(references), nodes_(nodes), leaf_faces_(leaf_faces), level_start_(level_start) {}

    int levels = 0, n_nodes = 0, n_packets = 0;

    bool run() {
        std::vector<int> level{0};
        while (!level.empty()) {
            if (levels > MAX_DEPTH) return false;
            level_start_[levels++] = n_nodes;
            level = fold(level);
        }
        level_start_[levels] = n_nodes;
        return true;
    }

  private:
    const Slot* slots_;
    const Reference* references_;
    Node* nodes_;
    int *leaf_faces_, *level_start_;
    static constexpr int BLOCK = 64;

    struct Children { int slot[WIDTH], count = 0, inner = 0; };

    // Opens the child of largest area until there are eight; of equal ones the oldest, so that a pile of triangles on one
    // spot is still divided evenly.
    Children children(int slot) const {
        Children c;
        int born[WIDTH] = {0}, now = 0;
        c.slot[c.count++] = slot;
        while (c.count < WIDTH) {
            int open = -1;
            real largest = -1;
            for (int i = 0; i < c.count; ++i) {
                const Slot& s = slots_[c.slot[i]];
                if (s.leaf()) continue;
                real area = Box{s.lower, s.upper}.half_area();
                if (area > largest || (area == largest && born[i] < born[open])) largest = area, open = i;
            }
            if (open < 0) break;
            int parent = c.slot[open];
            c.slot[open] = parent + 1;
            born[open] = born[c.count] = ++now;
            c.slot[c.count++] = slots_[parent].right();
        }
        for (int i = 0; i < c.count; ++i) c.inner += !slots_[c.slot[i]].leaf();
        return c;
    }

    std::vector<int> fold(const std::vector<int>& level) {
        int n = (int)level.size(), blocks = (n + BLOCK - 1) / BLOCK;
        std::vector<Children> kids(n);
        std::vector<int> inner(blocks + 1), leaves(blocks + 1);
        parallel_for(blocks, 1, [&](int first, int last) {
            for (int b = first; b < last; ++b)
                for (int i = b * BLOCK, end = min(i + BLOCK, n); i < end; ++i) {
                    kids[i] = children(level[i]);
                    inner[b + 1] += kids[i].inner;
                    leaves[b + 1] += kids[i].count - kids[i].inner;
                }
        });
        for (int b = 0; b < blocks; ++b) inner[b + 1] += inner[b], leaves[b + 1] += leaves[b];
        int first_child = n_nodes + n;
        std::vector<int> next(inner[blocks]);
        parallel_for(blocks, 1, [&](int first, int last) {
            for (int b = first; b < last; ++b) {
                int node = inner[b], packet = n_packets + leaves[b];
                for (int i = b * BLOCK, end = min(i + BLOCK, n); i < end; ++i)
                    write(kids[i], nodes_[n_nodes + i], next, first_child, node, packet);
            }
        });
        n_nodes += n;
        n_packets += leaves[blocks];
        return next;
    }

    void write(const Children& kids, Node& node, std::vector<int>& next, int first_child, int& inner, int& packet) {
        for (int i = 0; i < WIDTH; ++i) {
            bool used = i < kids.count;
            Box box = NOTHING;
            node.child[i] = EMPTY;
            if (used) {
                const Slot& s = slots_[kids.slot[i]];
                box = {s.lower, s.upper};
                if (s.leaf()) {
                    node.child[i] = ~packet;
                    int* face = leaf_faces_ + WIDTH * (size_t)packet++;
                    for (int k = 0; k < WIDTH; ++k)
                        face[k] = k < s.count() ? as_int(references_[s.first() + k].lower[3]) : -1;
                } else {
                    next[inner] = kids.slot[i];
                    node.child[i] = first_child + inner++;
                }
            }
            for (int a = 0; a < 3; ++a) node.bounds[a][0][i] = box.lower[a], node.bounds[a][1][i] = box.upper[a];
        }
    }
};

}  // namespace gk
