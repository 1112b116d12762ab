// The tree from the order of its triangles along a Morton curve (Lauterbach et al. 2009), built directly with eight children:
// each launch splits all ranges of one level. Also the order in which queries are answered.
#include "../../spatial/bvh.h"
#include "../../spatial/morton.h"

namespace gk {

GK_KERNEL point_codes(int n, const real* points, double lx, double ly, double lz, double sx, double sy, double sz, int bits,
                      uint64* codes) {
    GK_EACH(i, n) { codes[i] = morton_code(to_double(row(points, i)), {lx, ly, lz}, {sx, sy, sz}, bits); }
}

// Codes of the centroids of triangle boxes.
GK_KERNEL face_codes(int n, const real* vertices, const int* faces, double lx, double ly, double lz, double sx, double sy,
                     double sz, int bits, uint64* codes) {
    GK_EACH(f, n) {
        const int* face = faces + 3 * (uint64)f;
        Vec3 a = row(vertices, face[0]), b = row(vertices, face[1]), c = row(vertices, face[2]);
        Vec3d low = to_double(min(min(a, b), c)), high = to_double(max(max(a, b), c));
        codes[f] = morton_code(0.5 * (low + high), {lx, ly, lz}, {sx, sy, sz}, bits);
    }
}

// Where the highest bit in which the codes of [begin, end) differ changes; the middle if they are all equal.
GK_FN int split_at(const uint64* codes, int begin, int end) {
    uint64 first = codes[begin], differ = first ^ codes[end - 1];
    if (!differ) return begin + (end - begin) / 2;
    uint64 prefix = ~0ull << (63 - leading_zeros(differ));
    int low = begin, high = end - 1;  // codes[low] has the prefix of the first, codes[high] has not
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (((codes[middle] ^ first) & prefix) == 0) low = middle;
        else high = middle;
    }
    return high;
}

// Splits each range of a level into up to eight, always the one with the largest cell, of equal ones that with the most
// triangles, until all are packets.
GK_KERNEL split_ranges(int n, const uint64* codes, const int* ranges, int* children, int* inner, int* leaves) {
    GK_EACH(i, n) {
        int begin[WIDTH] = {ranges[2 * i]}, end[WIDTH] = {ranges[2 * i + 1]}, prefix[WIDTH];
        prefix[0] = leading_zeros(codes[begin[0]] ^ codes[end[0] - 1]);
        int count = 1;
        while (count < WIDTH) {
            int open = -1;
            for (int k = 0; k < count; ++k) {
                int size = end[k] - begin[k];
                if (size <= WIDTH) continue;
                if (open < 0 || prefix[k] < prefix[open] || (prefix[k] == prefix[open] && size > end[open] - begin[open])) open = k;
            }
            if (open < 0) break;
            int middle = split_at(codes, begin[open], end[open]);
            for (int k = count++; k > open + 1; --k) begin[k] = begin[k - 1], end[k] = end[k - 1], prefix[k] = prefix[k - 1];
            begin[open + 1] = middle, end[open + 1] = end[open];
            end[open] = middle;
            for (int k = open; k < open + 2; ++k) prefix[k] = leading_zeros(codes[begin[k]] ^ codes[end[k] - 1]);
        }
        int inner_count = 0;
        for (int k = 0; k < WIDTH; ++k) {
            children[16 * i + 2 * k] = k < count ? begin[k] : 0;
            children[16 * i + 2 * k + 1] = k < count ? end[k] : 0;
            inner_count += k < count && end[k] - begin[k] > WIDTH;
        }
        inner[i] = inner_count;
        leaves[i] = count - inner_count;
    }
}

// Writes the level's nodes: links to the ranges of the next level, and the faces of the packets. inner_end and leaf_end
// are the running sums of the counts that split_ranges found.
GK_KERNEL link_nodes(int n, int first_node, int first_packet, const int* order, const int* children, const int* inner_end,
                     const int* leaf_end, Node* nodes, int* next_ranges, int* leaf_faces) {
    GK_EACH(i, n) {
        int inner = i ? inner_end[i - 1] : 0, packet = first_packet + (i ? leaf_end[i - 1] : 0);
        for (int k = 0; k < WIDTH; ++k) {
            int begin = children[16 * i + 2 * k], end = children[16 * i + 2 * k + 1];
            int& child = nodes[first_node + i].child[k];
            if (begin == end) {
                child = EMPTY;
            } else if (end - begin > WIDTH) {
                next_ranges[2 * inner] = begin;
                next_ranges[2 * inner + 1] = end;
                child = first_node + n + inner++;
            } else {
                for (int j = 0; j < WIDTH; ++j) leaf_faces[WIDTH * (uint64)packet + j] = begin + j < end ? order[begin + j] : -1;
                child = ~packet++;
            }
        }
    }
}

}  // namespace gk
