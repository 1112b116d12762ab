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

// Cotangents of the points, and of the corners of each point's face: adj_corners is (N, 3, 3). Both outputs are lengths, so
// their derivatives are the same in the tree's coordinates.
GK_KERNEL closest_point_adj(int n, Bvh bvh, const real* vertices, const int* faces, const real* points, const int* face,
                            const real* barycentric, const int* feature, const real* adj_point, const real* adj_distance,
                            real* adj_points, real* adj_corners) {
    GK_EACH(i, n) {
        const int* f = faces + 3 * (uint64)face[i];
        Vec3 a = locate(bvh, vertices, f[0]).p, b = locate(bvh, vertices, f[1]).p, c = locate(bvh, vertices, f[2]).p;
        TrianglePoint<real> x = known_on_triangle(locate(bvh, points, i).p, a, b, c, row(barycentric, i), feature[i]);
        TriangleGradient<real> adj = adj_closest_on_triangle(a, b, c, x, row(adj_point, i));

        // The distance only feels motion along p - x (envelope theorem); at distance 0 it has no direction.
        Vec3 along = adj_distance[i] * normalized(x.away);
        add_row(adj_points, i, adj.p + along);
        set_row(adj_corners, 3 * i, adj.a - x.b0 * along);
        set_row(adj_corners, 3 * i + 1, adj.b - x.b1 * along);
        set_row(adj_corners, 3 * i + 2, adj.c - x.b2 * along);
    }
}

}  // namespace gk
