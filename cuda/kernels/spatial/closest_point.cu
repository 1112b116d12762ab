// Closest point on a mesh, and its adjoint.
#include "../../spatial/closest_point.h"

namespace gk {

// One item is a group of queries that are neighbours in `order`. n is the number of groups, count that of points.
GK_KERNEL closest_point_fwd(int n, Bvh bvh, int count, const real* points, const int* order, real* point, int* face,
                            real* barycentric, int* feature, real* distance) {
    GK_EACH(g, n) {
        Query queries[GROUP];
        int begin = g * GROUP, m = nearest_group(bvh, points, order, begin, min(begin + GROUP, count), queries);
        for (int j = 0; GROUP > 1 && j < m; ++j) {
            int i = order[begin + j];
            prefetch(point + 3 * (uint64)i);
            prefetch(barycentric + 3 * (uint64)i);
            prefetch(face + i);
            prefetch(feature + i);
            prefetch(distance + i);
        }
        for (int first = 0; first < m; first += LANES) {
            Closest r = closest_of(bvh, queries, first, m);
            Rows<8> lanes;
            lanes.set(0, r.point.x), lanes.set(1, r.point.y), lanes.set(2, r.point.z);
            lanes.set(3, r.at.b0), lanes.set(4, r.at.b1), lanes.set(5, r.at.b2);
            lanes.set(6, r.at.feature), lanes.set(7, r.distance);
            for (int j = first; j < min(first + LANES, m); ++j) {
                int i = order[begin + j], k = j - first;
                set_row(point, i, to_world(bvh, {lanes.at[0][k], lanes.at[1][k], lanes.at[2][k]}));
                set_row(barycentric, i, {lanes.at[3][k], lanes.at[4][k], lanes.at[5][k]});
                face[i] = face_of(bvh, queries[j]);
                feature[i] = int(lanes.at[6][k]);
                distance[i] = world_distance(bvh, queries[j], lanes.at[7][k]);
            }
        }
    }
}

// Cotangents of the points, and of the corners of each point's face: adj_corners is (N, 3, 3).
GK_KERNEL closest_point_adj(int n, Bvh bvh, const real* vertices, const int* faces, const real* points, const int* face,
                            const real* barycentric, const int* feature, const real* adj_point, const real* adj_distance,
                            real* adj_points, real* adj_corners) {
    GK_EACH(i, n) {
        TriangleGradient<real> adj = adj_closest_point(bvh, vertices, faces, points, i, face[i], row(barycentric, i), feature[i],
                                                       row(adj_point, i), adj_distance[i]);
        add_row(adj_points, i, adj.p);
        set_row(adj_corners, 3 * i, adj.a);
        set_row(adj_corners, 3 * i + 1, adj.b);
        set_row(adj_corners, 3 * i + 2, adj.c);
    }
}

}  // namespace gk
