// The generalised winding number: how often a mesh wraps around a point. 1 inside a closed mesh, 0 outside, between where
// the mesh has holes (Jacobson et al. 2013), with far clusters of triangles seen through their moments (Barill et al. 2018).
#pragma once
#include "../geometry/solid_angle.h"
#include "bvh.h"

namespace gk {

GK_FN real packet_solid_angle(const Packet& packet, Vec3 p) {
    real total = 0;
    GK_UNROLL
    for (int lane = 0; lane < WIDTH; lane += LANES) {
        Vec3L q = splat(p);
        Vec3L a = load3(packet.corner[0], lane) - q, b = load3(packet.corner[1], lane) - q, c = load3(packet.corner[2], lane) - q;
        total += sum(solid_angle(a, b, c));
    }
    return total;
}

// Squared distance, in the tree's unit, below which a far child may as well be a point: its inverse to the power 1.5 is
// finite, so an empty slot, which counts as far with moments of 0, adds 0 even at its own centre.
constexpr real CLOSE2 = IS_FLOAT ? real(1e-24) : real(1e-200);

// The solid angle of all triangles seen from p. A child counts as far beyond `beta` times its radius: beta2 = beta^2.
GK_FN real solid_angle_of(const Bvh& bvh, Vec3 p, real beta2) {
    int stack[GK_STACK], size = 0;
    real near_sum = 0;
    Lanes far_sum = splat(real(0));
    const Lanes zero = splat(real(0));
    for (int current = 0;;) {
        if (current < 0) {
            near_sum += packet_solid_angle(bvh.packets[~current], p);
        } else {
            const Node& node = bvh.nodes[current];
            const Moments& m = bvh.moments[current];
            for (int lane = 0; lane < WIDTH; lane += LANES) {
                Vec3L r = load3(m.centroid, lane) - splat(p);
                Lanes d2 = dot(r, r);
                Mask far = d2 > beta2 * load(m.radius2 + lane);
                Lanes i2 = real(1) / max(d2, splat(CLOSE2)), i3 = i2 * sqrt(i2);
                Lanes w = dot(load3(m.area_normal, lane), r);

                // First order: trace of the second moment, and its form in r.
                Lanes xx = load(m.second[0] + lane), yy = load(m.second[1] + lane), zz = load(m.second[2] + lane);
                w = w + (xx + yy + zz) -
                    real(3) * i2 * (r.x * (xx * r.x + load(m.second[3] + lane) * r.y + load(m.second[4] + lane) * r.z) +
                                    r.y * (yy * r.y + load(m.second[5] + lane) * r.z) + zz * r.z * r.z);

                // Second order: traces of the third moment, and its form in r.
                Lanes xxx = load(m.third[0] + lane), yyy = load(m.third[1] + lane), zzz = load(m.third[2] + lane);
                Lanes xxy = load(m.third[3] + lane), xxz = load(m.third[4] + lane), xyy = load(m.third[5] + lane);
                Lanes yyz = load(m.third[6] + lane), xzz = load(m.third[7] + lane), yzz = load(m.third[8] + lane);
                Lanes xyz = load(m.third[9] + lane);
                Lanes trace = r.x * (xxx + xyy + xzz) + r.y * (xxy + yyy + yzz) + r.z * (xxz + yyz + zzz);
                Lanes form = r.x * r.x * (xxx * r.x + real(3) * (xxy * r.y + xxz * r.z)) +
                             r.y * r.y * (yyy * r.y + real(3) * (xyy * r.x + yyz * r.z)) +
                             r.z * r.z * (zzz * r.z + real(3) * (xzz * r.x + yzz * r.y)) + real(6) * xyz * r.x * r.y * r.z;
                w = w + i2 * (real(-4.5) * trace + real(7.5) * form * i2);

                far_sum = far_sum + select(far, w * i3, zero);
                for (uint near = ~bits(far) & ((1u << LANES) - 1); near; near &= near - 1)
                    stack[size++] = node.child[lane + lowest_bit(near)];
            }
        }
        if (!size) break;
        current = stack[--size];
    }
    return near_sum + sum(far_sum);
}

GK_FN real winding_number_of(const Bvh& bvh, Vec3 p, real beta2) { return solid_angle_of(bvh, p, beta2) * real(1 / (4 * PI)); }

// What the solid angle seen from point i feels of motions of edge e, in the tree's unit.
GK_FN EdgeGradient seen_edge(const Bvh& bvh, const real* vertices, const int* edges, int e, const real* points, int i) {
    Vec3d p = to_local(bvh, points, i);
    return adj_solid_angle(to_real(to_local(bvh, vertices, edges[2 * e]) - p), to_real(to_local(bvh, vertices, edges[2 * e + 1]) - p));
}

// The cotangent of point i from that of its winding number. An edge (a, b) of multiplicity m bounds the surface m times.
GK_FN Vec3 adj_winding_point(const Bvh& bvh, int edge_count, const real* vertices, const int* edges, const int* multiplicity,
                             const real* points, int i, real adj_winding) {
    Vec3d total = {0, 0, 0};
    for (int e = 0; e < edge_count; ++e) {
        EdgeGradient g = seen_edge(bvh, vertices, edges, e, points, i);
        total += double(multiplicity[e]) * to_double(g.a + g.b);
    }
    // Moving the point is moving all vertices the other way.
    return to_real((-adj_winding / (4 * PI * bvh.scale)) * total);
}

// Those of the ends of edge e.
struct EdgeEnds {
    Vec3d a, b;
};
GK_FN EdgeEnds adj_winding_edge(const Bvh& bvh, const real* vertices, const int* edges, const int* multiplicity, int e,
                                const real* points, int i, real adj_winding) {
    EdgeGradient g = seen_edge(bvh, vertices, edges, e, points, i);
    double weight = multiplicity[e] * (adj_winding / (4 * PI * bvh.scale));
    return {weight * to_double(g.a), weight * to_double(g.b)};
}

}  // namespace gk
