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
                bool inside = false;
                if (sign == PSEUDONORMAL && outside_box(bvh, queries[j].p)) {
                    // Far away all faces are equally near, to rounding, and the normal of the one found says nothing.
                    inside = inverted;
                } else if (sign == PSEUDONORMAL) {
                    Vec3 normal = pseudonormal(normals, face_of(bvh, queries[j]), int(lanes.at[1][k]));
                    inside = dot(normal, {lanes.at[2][k], lanes.at[3][k], lanes.at[4][k]}) < 0;
                } else if (sign == WINDING) {
                    inside = wound(bvh, queries[j].p, d, real(boundary), known);
                } else if (sign == PARITY) {
                    inside = odd_crossings(bvh, queries[j].p);
                }
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

// Cotangents of the points and of the corners of each point's face, (N, 3, 3). The distance moves along the direction to the
// closest point, away from the surface or towards it by its sign; on the surface, along the pseudonormal, if there is one.
GK_KERNEL signed_distance_adj(int n, Bvh bvh, Pseudonormals normals, const real* vertices, const int* faces, const real* points,
                              const int* face, const real* barycentric, const int* feature, const real* distance, int sign,
                              const real* adj_distance, real* adj_points, real* adj_corners) {
    GK_EACH(i, n) {
        const int* f = faces + 3 * (uint64)face[i];
        Vec3 a = locate(bvh, vertices, f[0]).p, b = locate(bvh, vertices, f[1]).p, c = locate(bvh, vertices, f[2]).p;
        Vec3 w = row(barycentric, i), away = known_on_triangle(locate(bvh, points, i).p, a, b, c, w, feature[i]).away;
        Vec3 g;
        if (dot(away, away) > 0) g = (distance[i] < 0 ? -adj_distance[i] : adj_distance[i]) * normalized(away);
        else if (sign != UNSIGNED) g = adj_distance[i] * normalized(pseudonormal(normals, face[i], feature[i]));
        else g = {0, 0, 0};
        add_row(adj_points, i, g);
        set_row(adj_corners, 3 * i, -w.x * g);
        set_row(adj_corners, 3 * i + 1, -w.y * g);
        set_row(adj_corners, 3 * i + 2, -w.z * g);
    }
}

}  // namespace gk
