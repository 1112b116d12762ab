// Axis-aligned boxes of a node's children.
#pragma once
#include "bvh.h"

namespace gk {

// Squared distance from p to the box of child `lane` (of all children at once on the CPU); 0 inside, infinite if empty.
GK_FN Lanes box_distance2(const Node& node, int lane, Vec3 p) {
    const Lanes zero = splat(real(0));
    Lanes x = max(max(load(node.bounds[0][0] + lane) - p.x, p.x - load(node.bounds[0][1] + lane)), zero);
    Lanes y = max(max(load(node.bounds[1][0] + lane) - p.y, p.y - load(node.bounds[1][1] + lane)), zero);
    Lanes z = max(max(load(node.bounds[2][0] + lane) - p.z, p.z - load(node.bounds[2][1] + lane)), zero);
    return x * x + y * y + z * z;
}

}  // namespace gk
