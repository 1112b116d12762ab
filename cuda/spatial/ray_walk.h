// From the root to the triangles that a ray passes through: one ray alone, or many together.
//
// A visitor says what becomes of them: visit(block, i, seen, last) for ray i of a block. It may lower `last`, beyond which the ray
// looks no farther.
#pragma once
#include "rays.h"

namespace gk {

constexpr int RAYS = GK_GPU ? 1 : 2048;    // of a block: those that go together
constexpr int BATCH = GK_GPU ? 1 : 16384;  // of an item: those that are sorted together
constexpr int FEW = 16;                   // rays that are better off alone

struct Block {
    RayGroup group[RAYS / LANES];
    int at[RAYS];  // their places in the batch

    GK_FN RayGroup& of(int i) { return group[uint(i) / LANES]; }
    GK_FN real& last(int i) { return of(i).last[lane(i)]; }
    GK_FN real first(int i) { return of(i).first[lane(i)]; }
    GK_FN real end(int i) { return of(i).end[lane(i)]; }
    GK_FN static int lane(int i) { return uint(i) % LANES; }
};

template <class Visitor> GK_FN void visit_packet(const Bvh& bvh, int packet, Block& block, int i, const RayOf& ray, Visitor& visit) {
    pass_through<Visitor::ONCE>(bvh.packets[packet], ray, visit.cull, [&](const Seen& seen) { visit(block, i, seen, ray.g.last[ray.lane]); });
}

GK_FN void fetch(const Bvh& bvh, int child) {
    const char* p = child < 0 ? (const char*)(bvh.packets + ~child) : (const char*)(bvh.nodes + child);
    for (int line = 0; line < 4; ++line) prefetch(p + 64 * line);
}

// Takes ray i through the tree from a node or packet, nearest child first.
template <class Visitor> GK_FN void walk(const Bvh& bvh, int from, int i, Block& block, Visitor& visit) {
    const RayOf ray = {block.of(i), block.lane(i)};
    const int negative = ray.g.negative[ray.lane];
    const real& last = ray.g.last[ray.lane];
    Stack stack;
    stack.size = 0;
    for (int current = from; current != EMPTY;) {
        if (current < 0) {
            visit_packet(bvh, ~current, block, i, ray, visit);
            current = stack.pop(last);
            continue;
        }
        const Node& node = bvh.nodes[current];
        alignas(64) real near[WIDTH];
        uint hits = 0;
        GK_UNROLL
        for (int k = 0; k < WIDTH; k += LANES) hits |= entered(planes_at(node, negative, k), ray, near + k) << k;
        if (!hits) {
            current = stack.pop(last);
            continue;
        }
        for (uint h = hits; h; h &= h - 1) fetch(bvh, node.child[lowest_bit(h)]);
        current = stack.push(node.child, near, hits);
    }
}

// Rays of a group that wait before a box, and where each enters it.
struct alignas(64) Waiting {
    real near[LANES];
    int group;
    uint mask;
};

struct Queue {
    int child, size, rays;
    Waiting* first;
    Waiting* free;  // where the lists of its children may go
};

// Takes a block of rays through the tree together, as long as neighbours go the same way: a box is tested against a group of
// rays at once. Lists of groups are taken up nearest child first. A list whose groups have few rays left, or one that the
// memory does not hold, is walked ray by ray; the results are the same.
template <class Visitor> GK_FN void walk_together(const Bvh& bvh, Block& block, int n, Visitor& visit) {
    constexpr int GROUPS = RAYS / LANES, LISTED = GROUPS * 64;
    GK_SCRATCH Waiting scratch[LISTED];
    Queue stack[WIDTH * MAX_DEPTH + WIDTH];
    Waiting* free = located(scratch);
    const Waiting* end = free + LISTED;
    int size = 0;

    // Rays of one octant see the same sides of all boxes.
    Queue octants[8];
    for (int k = 0; k < 8; ++k) octants[k] = {0, 0, 0, free, free + 8 * GROUPS}, free += GROUPS;
    for (int k = 0; k * LANES < n; ++k) {
        const RayGroup& g = block.group[k];
        const uint all = (1u << min(LANES, n - k * LANES)) - 1;
        for (uint left = all; left;) {
            int octant = g.octant == MIXED ? g.negative[lowest_bit(left)] : g.octant;
            uint mask = all;
            for (int lane = 0; lane < LANES && g.octant == MIXED; ++lane) mask &= ~(uint(g.negative[lane] != octant) << lane);
            Queue& queue = octants[octant];
            Waiting& w = queue.first[queue.size++];
            store(w.near, load(g.first)), w.group = k, w.mask = mask;
            queue.rays += count_bits(mask);
            left &= ~mask;
        }
    }
    for (int k = 0; k < 8; ++k)
        if (octants[k].size) octants[k].free = free, stack[size++] = octants[k];

    while (size) {
        Queue list = stack[--size];
        bool together = list.rays >= FEW && list.rays >= 3 * list.size && list.free + WIDTH * list.size <= end;
        if (list.child < 0 || !together) {
            for (const Waiting* w = list.first; w < list.first + list.size; ++w) {
                RayGroup& g = block.group[w->group];
                for (uint rays = w->mask & bits(load(w->near) <= load(g.last)); rays; rays &= rays - 1) {
                    int lane = lowest_bit(rays), i = w->group * LANES + lane;
                    if (list.child < 0) visit_packet(bvh, ~list.child, block, i, {g, lane}, visit);
                    else walk(bvh, list.child, i, block, visit);
                }
            }
            continue;
        }

        // Hand each group to the children that some of its rays enter.
        const Node& node = bvh.nodes[list.child];
        const int negative = block.group[list.first->group].negative[lowest_bit(list.first->mask)];
        Waiting *first[WIDTH], *last[WIDTH];
        int rays[WIDTH] = {};
        for (int k = 0; k < WIDTH; ++k) first[k] = last[k] = list.free + k * list.size;
        for (const Waiting* w = list.first; w < list.first + list.size; ++w) {
            const RayGroup& g = block.group[w->group];
            const Vec3L inverse = {load(g.inverse[0]), load(g.inverse[1]), load(g.inverse[2])};
            const Vec3L near = {load(g.near[0]), load(g.near[1]), load(g.near[2])};
            const Vec3L far = {load(g.far[0]), load(g.far[1]), load(g.far[2])};
            const Lanes least = load(g.first), most = load(g.last);
            for (int k = 0; k < WIDTH; ++k) {
                Planes planes = planes_of(node, negative, k);
                Lanes enter = max(max(planes.enter[0] * inverse.x + near.x, planes.enter[1] * inverse.y + near.y),
                                  max(planes.enter[2] * inverse.z + near.z, least));
                Lanes leave = min(min(planes.leave[0] * inverse.x + far.x, planes.leave[1] * inverse.y + far.y),
                                  min(planes.leave[2] * inverse.z + far.z, most));
                uint mask = bits(enter <= leave) & w->mask;
                // Write to the end of every list and move only the ends that count: no branch to mispredict.
                Waiting* end_of_list = last[k];
                store(end_of_list->near, enter), end_of_list->group = w->group, end_of_list->mask = mask;
                last[k] = end_of_list + (mask != 0), rays[k] += count_bits(mask);
            }
        }
        Queue children[WIDTH];
        Waiting* out = list.free;
        int count = 0;
        for (int k = 0; k < WIDTH; ++k) {
            if (last[k] == first[k]) continue;
            fetch(bvh, node.child[k]);
            children[count++] = {node.child[k], int(last[k] - first[k]), rays[k], first[k], nullptr};
            out = last[k];
        }

        // Nearest child on top, as the first ray on each list sees it.
        int base = size;
        for (int c = 0; c < count; ++c) {
            real near = children[c].first->near[lowest_bit(children[c].first->mask)];
            children[c].free = out;
            int k = size++;
            for (; k > base && stack[k - 1].first->near[lowest_bit(stack[k - 1].first->mask)] < near; --k) stack[k] = stack[k - 1];
            stack[k] = children[c];
        }
    }
}

// The box of the mesh.
struct Corners {
    real lower[3], upper[3];
};
GK_FN Corners corners_of(const Node& root) {
    Corners box;
    for (int axis = 0; axis < 3; ++axis) {
        box.lower[axis] = INFINITE, box.upper[axis] = -INFINITE;
        for (int k = 0; k < WIDTH; ++k) {
            box.lower[axis] = min(box.lower[axis], root.bounds[axis][0][k]);
            box.upper[axis] = max(box.upper[axis], root.bounds[axis][1][k]);
        }
    }
    return box;
}

constexpr int CELLS = 4, KEYS = 8 * CELLS * CELLS * CELLS;

// Keys of LANES rays: the octant of the direction and the cell where the ray enters the box; KEYS for those that miss it. Their
// roundings are of no concern: any order of rays is right.
GK_FN void keys_of(const Corners& box, Vec3L p, Vec3L d, int* keys) {
    const Lanes zero = splat(real(0)), one = splat(real(1));
    const Lanes from[3] = {p.x, p.y, p.z}, to[3] = {d.x, d.y, d.z};
    Lanes enter = zero, leave = splat(INFINITE), level = max(max(abs(d.x), abs(d.y)), abs(d.z)) * real(1e-6) + TINY;
    uint octant[3];
    for (int k = 0; k < 3; ++k) {
        Mask negative = to[k] < zero;
        Lanes inverse = one / max(abs(to[k]), level);
        inverse = select(negative, -inverse, inverse);
        Lanes a = (splat(box.lower[k]) - from[k]) * inverse, b = (splat(box.upper[k]) - from[k]) * inverse;
        enter = max(enter, min(a, b)), leave = min(leave, max(a, b));
        octant[k] = bits(negative);
    }
    Rows<3> cell;
    for (int k = 0; k < 3; ++k) {
        real size = box.upper[k] - box.lower[k];
        Lanes x = (from[k] + enter * to[k] - box.lower[k]) * (size > 0 ? CELLS / size : 0);
        cell.set(k, clamp(x, zero, splat(CELLS - real(0.5))));
    }
    uint hits = bits(enter <= leave);
    for (int lane = 0; lane < LANES; ++lane) {
        int key = 0;
        for (int k = 2; k >= 0; --k) key = key * CELLS + int(cell.at[k][lane]);
        for (int k = 0; k < 3; ++k) key = key * 2 + int(octant[k] >> lane & 1);
        keys[lane] = hits >> lane & 1 ? key : KEYS;
    }
}

// Sorts the rays of a batch so that those that go the same way follow one another; false if neighbours do already, or are too
// few, and nothing is written. On random rays this saves a third of the time of the rest.
GK_FN bool sort_rays(const Bvh& bvh, const Columns<BATCH>& in, int n, int* order) {
    constexpr int SAMPLES = 16;
    GK_SCRATCH unsigned short scratch[BATCH + LANES];
    unsigned short* keys = located(scratch);
    if (n < RAYS) return false;
    const Corners box = corners_of(bvh.nodes[0]);
    int key[LANES], same = 0;
    for (int s = 0; s < SAMPLES; ++s) {
        int i = n / LANES * s / SAMPLES * LANES;
        keys_of(box, in.row_of(in.origin, i), in.row_of(in.direction, i), key);
        for (int lane = 1; lane < LANES; ++lane) same += key[lane] == key[0];
    }
    if (2 * same >= SAMPLES * (LANES - 1)) return false;
    int end[KEYS + 2] = {};
    for (int i = 0; i < n; i += LANES) {
        keys_of(box, in.row_of(in.origin, i), in.row_of(in.direction, i), key);
        for (int lane = 0; lane < min(LANES, n - i); ++lane) keys[i + lane] = (unsigned short)key[lane], ++end[key[lane] + 1];
    }
    for (int k = 0; k < KEYS; ++k) end[k + 1] += end[k];
    for (int i = 0; i < n; ++i) order[end[keys[i]]++] = i;
    return true;
}

// Shows the visitor what rays begin to end - 1 pass through. The answer is the first found that is none, or -1.
template <class Visitor> GK_FN int walk_rays(const Bvh& bvh, const Rays& rays, int begin, int end, Visitor& visit) {
    GK_SCRATCH Block scratch_block;
    GK_SCRATCH Columns<BATCH> scratch_columns;
    GK_SCRATCH int scratch_order[BATCH + LANES];
    Block& block = *located(&scratch_block);
    Columns<BATCH>& in = *located(&scratch_columns);
    int *order = located(scratch_order), invalid = -1;
    in.read(bvh, rays, begin, end - begin);
    const bool sorted = BATCH > 1 && sort_rays(bvh, in, end - begin, order);
    for (int first = 0; first < end - begin; first += RAYS) {
        const int n = min(RAYS, end - begin - first);
        for (int i = 0; i < n; i += LANES) {
            for (int lane = 0; lane < LANES; ++lane) {
                int k = first + min(i + lane, n - 1);
                block.at[i + lane] = sorted ? order[k] : k;
            }
            Vec3L p = sorted ? in.gather(in.origin, block.at + i) : in.row_of(in.origin, first + i);
            Vec3L d = sorted ? in.gather(in.direction, block.at + i) : in.row_of(in.direction, first + i);
            uint valid = prepare(bvh, rays, begin, block.at + i, p, d, block.of(i));
            uint none = ~valid & ((1u << min(LANES, n - i)) - 1);
            if (none && invalid < 0) invalid = begin + block.at[i + lowest_bit(none)];
        }
        if (RAYS < FEW || n < FEW)
            for (int i = 0; i < n; ++i) walk(bvh, 0, i, block, visit);
        else
            walk_together(bvh, block, n, visit);
    }
    return invalid;
}

}  // namespace gk
