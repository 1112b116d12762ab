// From the list of faces of each leaf to what queries read: packets, boxes, frames, moments. A refit runs the same kernels.
#include "../../spatial/bvh.h"

namespace gk {

// The corners of the faces of each packet, in the tree's coordinates. leaf_faces holds eight a packet, -1 after the last.
GK_KERNEL pack_triangles(int n, const real* vertices, const int* faces, const int* leaf_faces, double cx, double cy, double cz,
                         double scale, Packet* packets) {
    GK_EACH(i, n) {
        Packet& packet = packets[i];
        const double inverse = 1 / scale;
        const int* leaf = leaf_faces + WIDTH * (uint64)i;
        for (int lane = 0; lane < WIDTH; ++lane) {
            bool used = leaf[lane] >= 0;
            int face = used ? leaf[lane] : leaf[0];
            packet.face[lane] = face;
            for (int k = 0; k < 3; ++k) {
                const real* v = vertices + 3 * (uint64)faces[3 * (uint64)face + (used ? k : 0)];
                packet.corner[k][0][lane] = real((v[0] - cx) * inverse);
                packet.corner[k][1][lane] = real((v[1] - cy) * inverse);
                packet.corner[k][2][lane] = real((v[2] - cz) * inverse);
            }
        }
    }
}

// The same where the corners of each packet's triangles are known, (n, 8, 3), and all points are in the tree's coordinates.
GK_KERNEL to_tree(int n, const real* vertices, double cx, double cy, double cz, double scale, real* points) {
    GK_EACH(i, n) {
        const double inverse = 1 / scale;
        const real* v = vertices + 3 * (uint64)i;
        set_row(points, i, {real((v[0] - cx) * inverse), real((v[1] - cy) * inverse), real((v[2] - cz) * inverse)});
    }
}

GK_KERNEL repack_triangles(int n, const real* points, const int* corners, const int* leaf_faces, Packet* packets) {
    GK_EACH(i, n) {
        Packet& packet = packets[i];
        const int *leaf = leaf_faces + WIDTH * (uint64)i, *corner = corners + 3 * WIDTH * (uint64)i;
        for (int lane = 0; lane < WIDTH; ++lane) {
            packet.face[lane] = leaf[lane] >= 0 ? leaf[lane] : leaf[0];
            for (int k = 0; k < 3; ++k) {
                const real* v = points + 3 * (uint64)corner[3 * lane + k];
                for (int axis = 0; axis < 3; ++axis) packet.corner[k][axis][lane] = v[axis];
            }
        }
    }
}

// Boxes of the children of nodes first to first + n - 1, all of one level; the levels below have theirs already.
GK_KERNEL fit_boxes(int n, int first, const Packet* packets, Node* nodes) {
    GK_EACH(i, n) {
        Node& node = nodes[first + i];
        for (int slot = 0; slot < WIDTH; ++slot) {
            int child = node.child[slot];
            for (int axis = 0; axis < 3; ++axis) {
                Lanes lower = splat(INFINITE), upper = splat(-INFINITE);
                for (int lane = 0; lane < WIDTH && child != EMPTY; lane += LANES) {
                    if (child >= 0) {
                        lower = min(lower, load(nodes[child].bounds[axis][0] + lane));
                        upper = max(upper, load(nodes[child].bounds[axis][1] + lane));
                        continue;
                    }
                    for (int k = 0; k < 3; ++k) {
                        Lanes x = load(packets[~child].corner[k][axis] + lane);
                        lower = min(lower, x);
                        upper = max(upper, x);
                    }
                }
                node.bounds[axis][0][slot] = least(lower);
                node.bounds[axis][1][slot] = -least(-upper);
            }
        }
    }
}

// Each node's part of the surface area heuristic: sum over children of box area, a leaf's weighed as one packet test and
// an inner node's as one node test (both cost about the same).
GK_KERNEL sah_cost(int n, const Node* nodes, double* cost) {
    GK_EACH(i, n) {
        double sum = 0;
        for (int lane = 0; lane < WIDTH; ++lane) {
            if (nodes[i].child[lane] == EMPTY) continue;
            double x = double(nodes[i].bounds[0][1][lane]) - nodes[i].bounds[0][0][lane];
            double y = double(nodes[i].bounds[1][1][lane]) - nodes[i].bounds[1][0][lane];
            double z = double(nodes[i].bounds[2][1][lane]) - nodes[i].bounds[2][0][lane];
            sum += 2 * (x * y + y * z + z * x);
        }
        cost[i] = sum;
    }
}

// Orthonormal frames of the triangles of each packet, computed in double.
GK_KERNEL build_frames(int n, const Packet* packets, Frame* frames) {
    GK_EACH(i, n) {
        for (int lane = 0; lane < WIDTH; ++lane) {
            Vec3d v[3];
            for (int k = 0; k < 3; ++k) v[k] = to_double(corner(packets[i], k, lane));
            double l0 = length(v[1] - v[0]), l1 = length(v[2] - v[1]), l2 = length(v[0] - v[2]);
            int s = l0 >= l1 ? (l0 >= l2 ? 0 : 2) : (l1 >= l2 ? 1 : 2);
            Vec3d o = v[s], e = v[(s + 1) % 3] - o, f = v[(s + 2) % 3] - o, n = exact_cross(e, f);
            double edge = length(e);

            // A point, a segment, or a triangle: x along the longest edge, y towards the apex, any that fit otherwise.
            Vec3d x = edge > 0 ? (1 / edge) * e : Vec3d{1, 0, 0};
            double ax = dot(f, x), ay = edge > 0 ? length(n) / edge : 0;
            Vec3d y = normalized(cross(n, x));
            if (!(ay > 0)) {
                ay = 0;
                Vec3d any = abs(x.x) < 0.6 ? Vec3d{1, 0, 0} : Vec3d{0, 1, 0};
                y = normalized(any - dot(any, x) * x);
            }
            Vec3d z = cross(x, y);
            double q1 = ax * ax + ay * ay, q2 = (ax - edge) * (ax - edge) + ay * ay;

            Frame& frame = frames[i];
            frame.origin[0][lane] = real(o.x), frame.origin[1][lane] = real(o.y), frame.origin[2][lane] = real(o.z);
            frame.x[0][lane] = real(x.x), frame.x[1][lane] = real(x.y), frame.x[2][lane] = real(x.z);
            frame.y[0][lane] = real(y.x), frame.y[1][lane] = real(y.y), frame.y[2][lane] = real(y.z);
            frame.normal[0][lane] = real(z.x), frame.normal[1][lane] = real(z.y), frame.normal[2][lane] = real(z.z);
            frame.edge[lane] = real(edge), frame.apex_x[lane] = real(ax), frame.apex_y[lane] = real(ay);
            frame.inverse_1[lane] = q1 > 0 ? real(1 / q1) : 0, frame.inverse_2[lane] = q2 > 0 ? real(1 / q2) : 0;
        }
    }
}

}  // namespace gk
