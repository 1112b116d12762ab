// Edges that are silhouettes seen from many places at once, and rays through points on them.
//
// A place is a bit: of a face it says whether the face looks there, of an edge whether it may be a silhouette.
#include "../../core/vec.h"

namespace gk {

// If parallel, places are directions to what is infinitely far away.
GK_KERNEL facing_bits(int n, int words, int count, const real* places, int parallel, const real* vertices, const int* faces,
                      const real* normals, uint64* bits) {
    GK_EACH(f, n) {
        Vec3 normal = row(normals, f), a = parallel ? Vec3{0, 0, 0} : row(vertices, faces[3 * (uint64)f]);
        for (int w = 0; w < words; ++w) {
            uint64 own = 0;
            for (int j = 64 * w; j < min(64 * w + 64, count); ++j) own |= uint64(dot(normal, row(places, j) - a) > 0) << (j & 63);
            bits[words * (uint64)f + w] = own;
        }
    }
}

// An edge may be a silhouette where its faces look to different sides, or are not two. edge_faces (n, 2) has -1 for none.
GK_KERNEL silhouette_bits(int n, int words, const int* edge_faces, const int* opposed, const uint64* bits, uint64* edge_bits) {
    GK_EACH(e, n) {
        const int one = edge_faces[2 * (uint64)e], other = edge_faces[2 * (uint64)e + 1];
        for (int w = 0; w < words; ++w) {
            uint64 differ = other < 0 ? ~0ull : bits[words * (uint64)one + w] ^ bits[words * (uint64)other + w];
            edge_bits[words * (uint64)e + w] = other < 0 || opposed[e] ? differ : ~differ;
        }
    }
}

// Item i is place i / blocks and a block of the edges.
GK_KERNEL count_silhouettes(int n, int block, int edges, int blocks, int words, const uint64* edge_bits, int* count) {
    GK_EACH(i, n) {
        const int j = i / blocks, first = (i % blocks) * block;
        int total = 0;
        for (int e = first; e < min(first + block, edges); ++e) total += int(edge_bits[words * (uint64)e + j / 64] >> (j & 63) & 1);
        count[i] = total;
    }
}
GK_KERNEL list_silhouettes(int n, int block, int edges, int blocks, int words, const uint64* edge_bits, const int* offset, int* edge,
                           int* place) {
    GK_EACH(i, n) {
        const int j = i / blocks, first = (i % blocks) * block;
        int to = offset[i];
        for (int e = first; e < min(first + block, edges); ++e)
            if (edge_bits[words * (uint64)e + j / 64] >> (j & 63) & 1) edge[to] = e, place[to] = j, ++to;
    }
}

// Rays from places through points at t of edges, which are at parameter 1; from far places they start there. t_min is
// `beyond` in length after the point.
GK_KERNEL edge_rays(int n, const int* ends, const int* place, const double* t, const real* places, int far, double beyond,
                    const real* vertices, real* origins, real* directions, real* t_min) {
    GK_EACH(i, n) {
        Vec3d a = to_double(row(vertices, ends[2 * (uint64)i])), b = to_double(row(vertices, ends[2 * (uint64)i + 1]));
        Vec3 x = to_real(a + t[i] * (b - a)), from = row(places, place[i]);
        Vec3 d = far ? -from : x - from;
        double l = double(length(d));
        set_row(origins, i, far ? x : from);
        set_row(directions, i, d);
        t_min[i] = real((far ? 0 : 1) + beyond / (l > 0 ? l : 1));
    }
}

}  // namespace gk
