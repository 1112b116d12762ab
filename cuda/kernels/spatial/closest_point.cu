// Closest point on a mesh, and its adjoint.
#include "../../spatial/closest_point.h"

namespace gk {

// One item is a group of queries that are neighbours in `order`. n is the number of groups, count that of points.
GK_KERNEL closest_point_fwd(int n, Bvh bvh, int count, const real* points, const int* order, real* point, int* face,
                            real* barycentric, int* feature, real* distance) {
    GK_EACH(g, n) {
        Query queries[GROUP];
        int begin = g * GROUP, m = nearest_group(bvh, points, order, begin, min(begin + GROUP, count), queries);
        for (int j = 0; j < m; ++j) {
            int i = order[begin + j];
            Closest r = closest_of(bvh, queries[j]);
            Vec3d world = to_double(r.point);
            set_row(point, i, {real(world.x + bvh.center[0]), real(world.y + bvh.center[1]), real(world.z + bvh.center[2])});
            set_row(barycentric, i, {r.at.b0, r.at.b1, r.at.b2});
            face[i] = r.face;
            feature[i] = r.at.feature;
            distance[i] = r.distance;
        }
    }
}

}  // namespace gk
