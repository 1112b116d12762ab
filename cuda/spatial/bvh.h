// The tree that every query shares: nodes of eight children whose leaves are packets of up to eight triangles.
//
// Coordinates in the tree are relative to the mesh's centre, subtracted in double, so a mesh far from the origin keeps
// its precision, and in units of `scale`, a power of two near the mesh's size, so no product of lengths leaves the range
// of the numbers and every threshold is relative to the mesh. Rows of eight are structures of arrays: one register holds one coordinate of all eight.
#pragma once
#include "../core/vec.h"

namespace gk {

constexpr int EMPTY = -2147483647 - 1;  // the child of an unused slot; its box is empty

struct alignas(64) Node {
    real bounds[3][2][WIDTH];  // axis, lower or upper, child; an empty slot has lower = INFINITE, upper = -INFINITE
    int child[WIDTH];          // node index, or ~packet for a leaf, or EMPTY
};

// The corners of up to eight triangles. A lane without a triangle repeats corner 0 of lane 0: a point, which no ray hits,
// which subtends nothing, and which is no nearer than the triangle it came from.
struct alignas(64) Packet {
    real corner[3][3][WIDTH];  // corner, axis, lane
    int face[WIDTH];           // face index; a lane without a triangle has that of lane 0
};

// For each triangle an orthonormal frame with its longest edge on x: the distance to the triangle becomes a problem in
// the plane without a division (see closest_point.h).
struct alignas(64) Frame {
    real origin[3][WIDTH], x[3][WIDTH], y[3][WIDTH], normal[3][WIDTH];
    real edge[WIDTH];                       // length of the edge on x
    real apex_x[WIDTH], apex_y[WIDTH];      // third corner
    real inverse_1[WIDTH], inverse_2[WIDTH];  // 1 / squared length of the edges from the two ends of x to the apex; 0 for 0
};

// What the winding number needs of a child: its triangles as a dipole with moments up to second order (Barill et al. 2018),
// fully symmetrised, about their area-weighted centroid.
struct alignas(64) Moments {
    real centroid[3][WIDTH];
    real radius2[WIDTH];       // squared radius about the centroid that holds the child's box; -1 for an empty slot
    real area[WIDTH];
    real area_normal[3][WIDTH];
    real second[6][WIDTH];     // xx yy zz xy xz yz, mixed ones summed over both orders
    real third[10][WIDTH];     // xxx yyy zzz xxy xxz xyy yyz xzz yzz xyz, means over the orders
};

// Passed to kernels by value. Node 0 is the root; levels are contiguous, parents before children.
struct Bvh {
    const Node* nodes;
    const Packet* packets;
    const Frame* frames;
    const Moments* moments;
    double center[3];
    double scale;
};

// A point of the world in the tree's coordinates.
GK_FN Vec3d to_local(const Bvh& bvh, const real* points, int i) {
    const real* p = points + 3 * (uint64)i;
    return (1 / bvh.scale) * Vec3d{p[0] - bvh.center[0], p[1] - bvh.center[1], p[2] - bvh.center[2]};
}

GK_FN Vec3 to_world(const Bvh& bvh, Vec3 p) {
    return {real(p.x * bvh.scale + bvh.center[0]), real(p.y * bvh.scale + bvh.center[1]), real(p.z * bvh.scale + bvh.center[2])};
}

// A query point in the tree's coordinates. One so far away that powers of its distance would overflow is brought nearer
// along its direction, to where the mesh is a speck all the same; its distance is `factor` times what it is from there.
struct Located {
    Vec3 p;
    double factor;
};
GK_FN Located locate(const Bvh& bvh, const real* points, int i) {
    const double limit = IS_FLOAT ? 1e6 : 1e40;
    Vec3d p = to_local(bvh, points, i);
    double far = max(max(abs(p.x), abs(p.y)), abs(p.z));
    double factor = far > limit ? far / limit : 1;
    return {to_real((1 / factor) * p), factor};
}

// Whether p lies outside the box of the mesh.
GK_FN bool outside_box(const Bvh& bvh, Vec3 p) {
    const Node& root = bvh.nodes[0];
    const real at[3] = {p.x, p.y, p.z};
    for (int axis = 0; axis < 3; ++axis) {
        Lanes lower = splat(INFINITE), upper = splat(-INFINITE);
        for (int lane = 0; lane < WIDTH; lane += LANES) {
            lower = min(lower, load(root.bounds[axis][0] + lane));
            upper = max(upper, load(root.bounds[axis][1] + lane));
        }
        if (at[axis] < least(lower) || at[axis] > -least(-upper)) return true;
    }
    return false;
}

GK_FN Vec3 corner(const Packet& packet, int k, int lane) {
    return {packet.corner[k][0][lane], packet.corner[k][1][lane], packet.corner[k][2][lane]};
}

}  // namespace gk
