// The winding number, fast and exact, and the adjoint of the exact one.
#include "../../spatial/winding_number.h"

namespace gk {

// One item is a group of queries that are neighbours in `order`.
GK_KERNEL winding_number_fwd(int n, Bvh bvh, int count, const real* points, const int* order, double beta, real* winding) {
    GK_EACH(g, n) {
        for (int j = g * GROUP; j < min((g + 1) * GROUP, count); ++j) {
            int i = order[j];
            winding[i] = winding_number_of(bvh, locate(bvh, points, i).p, real(beta * beta));
        }
    }
}

// The sum over all packets, in double.
GK_KERNEL exact_winding_number_fwd(int n, Bvh bvh, int packets, const real* points, real* winding) {
    GK_EACH(i, n) {
        Vec3 p = locate(bvh, points, i).p;
        double total = 0;
        for (int k = 0; k < packets; ++k) total += packet_solid_angle(bvh.packets[k], p);
        winding[i] = real(total / (4 * PI));
    }
}

// Cotangents of the points.
GK_KERNEL winding_number_points_adj(int n, Bvh bvh, int edge_count, const real* vertices, const int* edges, const int* multiplicity,
                                    const real* points, const real* adj_winding, real* adj_points) {
    GK_EACH(i, n) {
        add_row(adj_points, i, adj_winding_point(bvh, edge_count, vertices, edges, multiplicity, points, i, adj_winding[i]));
    }
}

// Cotangents of the ends of each edge, summed over blocks of points so that one launch has work for all threads:
// item b * edge_count + e is edge e seen from points b * block to (b + 1) * block - 1. adj_ends is (blocks, E, 2, 3).
GK_KERNEL winding_number_edges_adj(int n, Bvh bvh, int edge_count, int block, int count, const real* vertices, const int* edges,
                                   const int* multiplicity, const real* points, const real* adj_winding, double* adj_ends) {
    GK_EACH(item, n) {
        int e = item % edge_count, begin = item / edge_count * block, end = min(begin + block, count);
        Vec3d a = {0, 0, 0}, b = {0, 0, 0};
        for (int i = begin; i < end; ++i) {
            EdgeEnds g = adj_winding_edge(bvh, vertices, edges, multiplicity, e, points, i, adj_winding[i]);
            a += g.a, b += g.b;
        }
        double* out = adj_ends + 6 * (uint64)item;
        out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = b.x, out[4] = b.y, out[5] = b.z;
    }
}

}  // namespace gk
