// Signed distance to a mesh, and its adjoint.
#include "../../implicit/sign.h"

namespace gk {

// One item is a group of queries that are neighbours in `order`.
GK_KERNEL signed_distance_fwd(int n, Bvh bvh, Pseudonormals normals, int count, const real* points, const int* order, int sign,
                              int inverted, double boundary, real* distance) {
    GK_EACH(g, n) {
        Query queries[GROUP];
        int begin = g * GROUP, m = nearest_group(bvh, points, order, begin, min(begin + GROUP, count), queries);
        Known known = nothing_known();
        for (int first = 0; first < m; first += LANES) {
            Closest r = closest_of(bvh, queries, first, m);
            Rows<5> lanes;
            lanes.set(0, r.distance), lanes.set(1, r.at.feature);
            lanes.set(2, r.at.away.x), lanes.set(3, r.at.away.y), lanes.set(4, r.at.away.z);
            for (int j = first; j < min(first + LANES, m); ++j) {
                int k = j - first;
                real d = lanes.at[0][k];
                Vec3 away = {lanes.at[2][k], lanes.at[3][k], lanes.at[4][k]};
                bool inside = is_inside(bvh, normals, queries[j], d, int(lanes.at[1][k]), away, sign, inverted, real(boundary), known);
                d = world_distance(bvh, queries[j], d);
                distance[order[begin + j]] = inside ? -d : d;
            }
        }
    }
}

// Whether each point is inside by its winding number or by parity, without its distance.
GK_KERNEL contains_fwd(int n, Bvh bvh, int count, const real* points, const int* order, int sign, int* inside) {
    GK_EACH(g, n) {
        for (int j = g * GROUP; j < min((g + 1) * GROUP, count); ++j) {
            Vec3 p = locate(bvh, points, order[j]).p;
            Known known = nothing_known();
            inside[order[j]] = sign == PARITY ? odd_crossings(bvh, p) : wound(bvh, p, 0, 0, known);
        }
    }
}

// Cotangents of the points and of the corners of each point's face, (N, 3, 3).
GK_KERNEL signed_distance_adj(int n, Bvh bvh, Pseudonormals normals, const real* vertices, const int* faces, const real* points,
                              const int* face, const real* barycentric, const int* feature, const real* distance, int sign,
                              const real* adj_distance, real* adj_points, real* adj_corners) {
    GK_EACH(i, n) {
        Vec3 w = row(barycentric, i);
        Vec3 g = adj_signed_distance(bvh, normals, vertices, faces, points, i, face[i], w, feature[i], distance[i], sign, adj_distance[i]);
        add_row(adj_points, i, g);
        set_row(adj_corners, 3 * i, -w.x * g);
        set_row(adj_corners, 3 * i + 1, -w.y * g);
        set_row(adj_corners, 3 * i + 2, -w.z * g);
    }
}

}  // namespace gk
