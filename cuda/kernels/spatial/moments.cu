// Moments of the children of each node, level by level from the leaves up. Sums are in double.
#include "../../spatial/bvh.h"

namespace gk {

// Triangles seen from afar: area, area-weighted centroid, and the moments of their normals about it.
struct Cluster {
    double area;
    Vec3d centroid, normal;
    double second[6], third[10];
};

// second += sym(d n) with mixed terms summed, and third += sym(d d n), for every pair or triple of axes.
GK_FN void add_products(Cluster& c, const double d[3], const double n[3]) {
    c.second[0] += d[0] * n[0], c.second[1] += d[1] * n[1], c.second[2] += d[2] * n[2];
    c.second[3] += d[0] * n[1] + d[1] * n[0];
    c.second[4] += d[0] * n[2] + d[2] * n[0];
    c.second[5] += d[1] * n[2] + d[2] * n[1];
}
// third += weight * sym(s n), where s is a symmetric tensor (xx yy zz xy xz yz, mixed terms once).
GK_FN void add_symmetric(Cluster& c, double weight, const double s[6], const double n[3]) {
    double w = weight / 3;
    c.third[0] += weight * s[0] * n[0], c.third[1] += weight * s[1] * n[1], c.third[2] += weight * s[2] * n[2];
    c.third[3] += w * (s[0] * n[1] + 2 * s[3] * n[0]);
    c.third[4] += w * (s[0] * n[2] + 2 * s[4] * n[0]);
    c.third[5] += w * (s[1] * n[0] + 2 * s[3] * n[1]);
    c.third[6] += w * (s[1] * n[2] + 2 * s[5] * n[1]);
    c.third[7] += w * (s[2] * n[0] + 2 * s[4] * n[2]);
    c.third[8] += w * (s[2] * n[1] + 2 * s[5] * n[2]);
    c.third[9] += w * (s[3] * n[2] + s[4] * n[1] + s[5] * n[0]);
}

GK_FN Cluster cluster_of_packet(const Packet& packet) {
    Cluster c = {};
    Vec3d weighted = {0, 0, 0};
    for (int lane = 0; lane < WIDTH; ++lane) {
        Vec3d v0 = to_double(corner(packet, 0, lane)), v1 = to_double(corner(packet, 1, lane)), v2 = to_double(corner(packet, 2, lane));
        Vec3d n = 0.5 * cross(v1 - v0, v2 - v0);
        double area = length(n);
        c.area += area;
        c.normal += n;
        weighted += (area / 3) * (v0 + v1 + v2);
    }
    c.centroid = c.area > 0 ? (1 / c.area) * weighted : to_double(corner(packet, 0, 0));
    for (int lane = 0; lane < WIDTH; ++lane) {
        Vec3d w[3];
        for (int k = 0; k < 3; ++k) w[k] = to_double(corner(packet, k, lane)) - c.centroid;
        Vec3d n = 0.5 * cross(w[1] - w[0], w[2] - w[0]), s = w[0] + w[1] + w[2];
        double normal[3] = {n.x, n.y, n.z}, mean[3] = {s.x / 3, s.y / 3, s.z / 3};
        add_products(c, mean, normal);

        // The integral of x x over a triangle of unit area: (sum of w w + s s) / 12.
        double q[6] = {s.x * s.x, s.y * s.y, s.z * s.z, s.x * s.y, s.x * s.z, s.y * s.z};
        for (int k = 0; k < 3; ++k) {
            q[0] += w[k].x * w[k].x, q[1] += w[k].y * w[k].y, q[2] += w[k].z * w[k].z;
            q[3] += w[k].x * w[k].y, q[4] += w[k].x * w[k].z, q[5] += w[k].y * w[k].z;
        }
        add_symmetric(c, 1.0 / 12, q, normal);
    }
    return c;
}

// The clusters of a node's children as one, about their common centroid.
GK_FN Cluster cluster_of_node(const Moments& m) {
    Cluster c = {};
    Vec3d weighted = {0, 0, 0}, first = {m.centroid[0][0], m.centroid[1][0], m.centroid[2][0]};
    for (int k = 0; k < WIDTH; ++k) {
        if (m.radius2[k] < 0) continue;
        double area = m.area[k];
        c.area += area;
        weighted += area * Vec3d{m.centroid[0][k], m.centroid[1][k], m.centroid[2][k]};
        c.normal += Vec3d{m.area_normal[0][k], m.area_normal[1][k], m.area_normal[2][k]};
    }
    c.centroid = c.area > 0 ? (1 / c.area) * weighted : first;
    for (int k = 0; k < WIDTH; ++k) {
        if (m.radius2[k] < 0) continue;
        double d[3] = {m.centroid[0][k] - c.centroid.x, m.centroid[1][k] - c.centroid.y, m.centroid[2][k] - c.centroid.z};
        double n[3] = {m.area_normal[0][k], m.area_normal[1][k], m.area_normal[2][k]};
        double dd[6] = {d[0] * d[0], d[1] * d[1], d[2] * d[2], d[0] * d[1], d[0] * d[2], d[1] * d[2]};
        double own[6];
        for (int j = 0; j < 6; ++j) {
            own[j] = j < 3 ? double(m.second[j][k]) : 0.5 * m.second[j][k];
            c.second[j] += m.second[j][k];
        }
        for (int j = 0; j < 10; ++j) c.third[j] += m.third[j][k];
        add_products(c, d, n);
        add_symmetric(c, 2, own, d);
        add_symmetric(c, 1, dd, n);
    }
    return c;
}

// Moments of the children of nodes first to first + n - 1, all of one level.
GK_KERNEL fit_moments(int n, int first, const Node* nodes, const Packet* packets, Moments* moments) {
    GK_EACH(i, n) {
        const Node& node = nodes[first + i];
        Moments& m = moments[first + i];
        for (int k = 0; k < WIDTH; ++k) {
            int child = node.child[k];
            Cluster c = {};
            double radius2 = -1;
            if (child != EMPTY) {
                c = child >= 0 ? cluster_of_node(moments[child]) : cluster_of_packet(packets[~child]);
                double center[3] = {c.centroid.x, c.centroid.y, c.centroid.z};
                radius2 = 0;
                for (int a = 0; a < 3; ++a) {
                    double d = max(center[a] - node.bounds[a][0][k], node.bounds[a][1][k] - center[a]);
                    radius2 += d * d;
                }
            }
            m.centroid[0][k] = real(c.centroid.x), m.centroid[1][k] = real(c.centroid.y), m.centroid[2][k] = real(c.centroid.z);
            m.radius2[k] = real(radius2), m.area[k] = real(c.area);
            m.area_normal[0][k] = real(c.normal.x), m.area_normal[1][k] = real(c.normal.y), m.area_normal[2][k] = real(c.normal.z);
            for (int j = 0; j < 6; ++j) m.second[j][k] = real(c.second[j]);
            for (int j = 0; j < 10; ++j) m.third[j][k] = real(c.third[j]);
        }
    }
}

}  // namespace gk
