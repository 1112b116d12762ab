// Pairs of faces of one mesh that overlap.
#include "../../geometry/overlap.h"
#include "../../spatial/bvh.h"

namespace gk {

// Calls found(j, shared) for each face j > i that overlaps face i. points are the corners' numbers by position; a face with two
// of them at one is passed over.
template <class Found> GK_FN void each_overlap(const Bvh& bvh, const real* vertices, const int* faces, const int* points, int i,
                                               const Found& found) {
    const double inverse = 1 / bvh.scale;
    auto scaled = [&](int f) {
        const int* at = faces + 3 * (uint64)f;
        return corners_of(inverse * to_double(row(vertices, at[0])), inverse * to_double(row(vertices, at[1])),
                          inverse * to_double(row(vertices, at[2])));
    };
    auto collapsed = [&](const int* p) { return p[0] == p[1] || p[1] == p[2] || p[2] == p[0]; };
    const int* own = points + 3 * (uint64)i;
    if (collapsed(own)) return;
    const Corners one = scaled(i);

    // The box of the face in the tree's coordinates, a little wider than all roundings.
    Vec3 lower = {INFINITE, INFINITE, INFINITE}, upper = {-INFINITE, -INFINITE, -INFINITE};
    for (int k = 0; k < 3; ++k) {
        Vec3 p = to_real(to_local(bvh, vertices, faces[3 * (uint64)i + k]));
        lower = min(lower, p), upper = max(upper, p);
    }
    const real margin = 4 * EPSILON;
    const real low[3] = {lower.x - margin, lower.y - margin, lower.z - margin};
    const real high[3] = {upper.x + margin, upper.y + margin, upper.z + margin};
    int stack[GK_STACK], size = 0;
    for (int current = 0;;) {
        if (current >= 0) {
            const Node& node = bvh.nodes[current];
            for (int lane = 0; lane < WIDTH; ++lane) {
                bool meets = node.child[lane] != EMPTY;
                for (int a = 0; a < 3; ++a) meets &= (node.bounds[a][0][lane] <= high[a]) & (node.bounds[a][1][lane] >= low[a]);
                if (meets) stack[size++] = node.child[lane];
            }
        } else {
            const Packet& packet = bvh.packets[~current];
            for (int lane = 0; lane < WIDTH; ++lane) {
                int j = packet.face[lane], shared;
                if (j <= i || (lane > 0 && j == packet.face[0])) continue;
                bool meets = true;
                for (int a = 0; a < 3; ++a) {
                    real x = packet.corner[0][a][lane], y = packet.corner[1][a][lane], z = packet.corner[2][a][lane];
                    meets &= (min(min(x, y), z) <= high[a]) & (max(max(x, y), z) >= low[a]);
                }
                const int* theirs = points + 3 * (uint64)j;
                if (!meets || collapsed(theirs)) continue;
                if (triangles_overlap(one, scaled(j), own, theirs, shared)) found(j, shared);
            }
        }
        if (!size) return;
        current = stack[--size];
    }
}

GK_KERNEL count_overlaps(int n, Bvh bvh, const real* vertices, const int* faces, const int* points, int* count) {
    GK_EACH(i, n) {
        int total = 0;
        each_overlap(bvh, vertices, faces, points, i, [&](int, int) { ++total; });
        count[i] = total;
    }
}

// Of the faces in `at`, whose pairs begin at start: the two faces, and how many corners they share.
GK_KERNEL list_overlaps(int n, Bvh bvh, const real* vertices, const int* faces, const int* points, const int* at,
                        const int* start, int* pairs) {
    GK_EACH(k, n) {
        int* row = pairs + 3 * (uint64)start[k];
        each_overlap(bvh, vertices, faces, points, at[k], [&](int j, int shared) {
            row[0] = at[k], row[1] = j, row[2] = shared;
            row += 3;
        });
    }
}

}  // namespace gk
