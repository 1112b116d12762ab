// The nearest triangle to a point.
//
// A packet's triangles are tested in their own frames: with the longest edge on x, the nearest point of a triangle is
// found in the plane without a division. On the CPU 64 neighbouring queries walk the tree together: a node's boxes are
// loaded once for all of them, and the nearest packet of one bounds the others from the start.
#pragma once
#include "box.h"
#include "../geometry/triangle.h"
#include "traverse.h"

namespace gk {

struct Nearest {
    real distance2;
    int packet, lane;
};

GK_FN Nearest no_triangle() { return {INFINITE, -1, 0}; }

// Squared distances from p to LANES triangles of a packet.
GK_FN Lanes triangle_distances2(const Frame& f, int lane, Vec3 p) {
    const Lanes zero = splat(real(0)), one = splat(real(1));
    Vec3L v = {p.x - load(f.origin[0] + lane), p.y - load(f.origin[1] + lane), p.z - load(f.origin[2] + lane)};
    Lanes x = dot(v, load3(f.x, lane)), y = dot(v, load3(f.y, lane)), h = dot(v, load3(f.normal, lane));
    Lanes edge = load(f.edge + lane), ax = load(f.apex_x + lane), ay = load(f.apex_y + lane);

    // Squared distances in the plane to the three edges.
    Lanes dx = x - clamp(x, zero, edge);
    Lanes e = dx * dx + y * y;
    Lanes s = clamp((ax * x + ay * y) * load(f.inverse_1 + lane), zero, one);
    Lanes rx = x - s * ax, ry = y - s * ay;
    e = min(e, rx * rx + ry * ry);
    Lanes gx = x - edge, fx = ax - edge;
    Lanes t = clamp((fx * gx + ay * y) * load(f.inverse_2 + lane), zero, one);
    rx = gx - t * fx, ry = y - t * ay;
    e = min(e, rx * rx + ry * ry);
    Mask inside = (y > zero) & (ay * x - ax * y > zero) & (fx * y - ay * gx > zero);
    return select(inside, zero, e) + h * h;
}

// Lowers `best` to the nearest of LANES triangles at distances e. The first lane wins a tie.
GK_FN void lower(Lanes e, int k, int lane, Nearest& best) {
    if (!bits(e < splat(best.distance2))) return;
    real d = least(e);
    best = {d, k, lane + lowest_bit(bits(e <= splat(d)))};
}

// Lowers `best` to the nearest triangle of packet k.
GK_FN void nearest_in_packet(const Frame* frames, int k, Vec3 p, Nearest& best) {
    GK_UNROLL
    for (int lane = 0; lane < WIDTH; lane += LANES) lower(triangle_distances2(frames[k], lane, p), k, lane, best);
}

// The nearest triangle to one point; best holds a bound on entry.
GK_FN void nearest_triangle(const Bvh& bvh, Vec3 p, Nearest& best) {
    Stack stack;
    stack.size = 0;
    for (int current = 0; current != EMPTY;) {
        if (current < 0) {
            nearest_in_packet(bvh.frames, ~current, p, best);
            current = stack.pop(best.distance2);
            continue;
        }
        const Node& node = bvh.nodes[current];
        Distances d = distances([&](int lane) { return box_distance2(node, lane, p); });
        uint hits = d.below(best.distance2);
        if (!hits) {
            current = stack.pop(best.distance2);
            continue;
        }
        alignas(64) real near[WIDTH];
        d.store_to(near);
        current = stack.push(node.child, near, hits);
    }
}

struct Query {
    Vec3 p;
    double factor;  // see Located
    Nearest best;
};

// A query on a list, with the distance to the box that it is waiting before.
struct WaitingQuery {
    real near;
    int query;
};

struct List {
    real near;        // least distance of its queries
    int child, size;
    WaitingQuery* first;
    WaitingQuery* free;    // where the lists of its children may go
};

// The nearest triangles of up to GROUP points at once. Every box that any of them must open is loaded once for all.
GK_FN void nearest_triangles(const Bvh& bvh, Query* queries, int n) {
    // A level keeps at most eight lists of n queries.
    GK_SCRATCH WaitingQuery arena[GROUP * (WIDTH * MAX_DEPTH + 1)];
    List stack[WIDTH * MAX_DEPTH];
    for (int i = 0; i < n; ++i) arena[i] = {0, i};
    int size = 0;
    stack[size++] = {0, 0, n, arena, arena + n};
    while (size) {
        List list = stack[--size];
        if (list.child < 0) {
            int active[GROUP], count = 0;
            for (int j = 0; j < list.size; ++j) {
                active[count] = list.first[j].query;
                count += list.first[j].near < queries[active[count]].best.distance2;
            }
            // First all distances, then all comparisons: a mispredicted one does not hold up the arithmetic.
            const Frame& frame = bvh.frames[~list.child];
            for (int lane = 0; lane < WIDTH; lane += LANES) {
                Lanes e[GROUP];
                for (int j = 0; j < count; ++j) e[j] = triangle_distances2(frame, lane, queries[active[j]].p);
                for (int j = 0; j < count; ++j) lower(e[j], ~list.child, lane, queries[active[j]].best);
            }
            continue;
        }

        // Give each query to the children whose boxes are nearer than what it has.
        const Node& node = bvh.nodes[list.child];
        WaitingQuery *first[WIDTH], *last[WIDTH];
        for (int lane = 0; lane < WIDTH; ++lane) first[lane] = last[lane] = list.free + lane * list.size;
        Distances nearest = distances([](int) { return splat(INFINITE); });
        int active[GROUP], count = 0;
        for (int j = 0; j < list.size; ++j) {
            active[count] = list.first[j].query;
            count += list.first[j].near < queries[active[count]].best.distance2;
        }
        for (int j = 0; j < count; ++j) {
            int i = active[j];
            const Query& q = queries[i];
            Distances d = distances([&](int lane) { return box_distance2(node, lane, q.p); });
            uint hits = d.below(q.best.distance2);
            nearest.lower_to(d);
            alignas(64) real near[WIDTH];
            d.store_to(near);

            // Write to the end of every list and move only the ends that count: no branch to mispredict.
            for (int lane = 0; lane < WIDTH; ++lane) {
                *last[lane] = {near[lane], i};
                last[lane] += hits >> lane & 1;
            }
        }

        // Nearest child on top; the lists of its children go behind all of these.
        int base = size;
        WaitingQuery* free = list.free;
        alignas(64) real least_near[WIDTH];
        nearest.store_to(least_near);
        for (int lane = 0; lane < WIDTH; ++lane)
            if (last[lane] != first[lane]) free = last[lane];
        for (int lane = 0; lane < WIDTH; ++lane) {
            if (last[lane] == first[lane]) continue;
            List l = {least_near[lane], node.child[lane], int(last[lane] - first[lane]), first[lane], free};
            int k = size++;
            for (; k > base && stack[k - 1].near < l.near; --k) stack[k] = stack[k - 1];
            stack[k] = l;
        }
    }
}

// The nearest triangles of queries begin .. end - 1 in `order`, in the tree's coordinates.
GK_FN int nearest_group(const Bvh& bvh, const real* points, const int* order, int begin, int end, Query* queries) {
    int n = end - begin;
    for (int i = 0; GROUP > 1 && i < n; ++i) prefetch(points + 3 * (uint64)order[begin + i]);
    for (int i = 0; i < n; ++i) {
        Located at = locate(bvh, points, order[begin + i]);
        queries[i] = {at.p, at.factor, no_triangle()};
    }
    if (GROUP == 1) {
        nearest_triangle(bvh, queries[0].p, queries[0].best);
        return n;
    }
    // The packet that is nearest to the middle query bounds all others. More seeds, and groups of 32 or 128, were no faster.
    int middle = n / 2;
    nearest_triangle(bvh, queries[middle].p, queries[middle].best);
    for (int i = 0; i < n; ++i)
        if (i != middle) nearest_in_packet(bvh.frames, queries[middle].best.packet, queries[i].p, queries[i].best);
    nearest_triangles(bvh, queries, n);
    return n;
}

// What the caller wants to know of LANES queries: the exact points on their nearest triangles.
struct Closest {
    Vec3L point;  // in the tree's coordinates
    TrianglePoint<Lanes> at;
    Lanes distance;
};

// Queries j to j + LANES - 1, of which those beyond n - 1 repeat the last.
GK_FN Closest closest_of(const Bvh& bvh, const Query* queries, int j, int n) {
    alignas(64) real corners[3][3][LANES], points[3][LANES];
    for (int lane = 0; lane < LANES; ++lane) {
        const Query& q = queries[min(j + lane, n - 1)];
        const Packet& packet = bvh.packets[q.best.packet];
        for (int k = 0; k < 3; ++k)
            for (int axis = 0; axis < 3; ++axis) corners[k][axis][lane] = packet.corner[k][axis][q.best.lane];
        points[0][lane] = q.p.x, points[1][lane] = q.p.y, points[2][lane] = q.p.z;
    }
    Vec3L a = {load(corners[0][0]), load(corners[0][1]), load(corners[0][2])};
    Vec3L b = {load(corners[1][0]), load(corners[1][1]), load(corners[1][2])};
    Vec3L c = {load(corners[2][0]), load(corners[2][1]), load(corners[2][2])};
    Closest r;
    Vec3L p = {load(points[0]), load(points[1]), load(points[2])};
    r.at = closest_on_triangle(p, a, b, c);
    r.point = r.at.b0 * a + r.at.b1 * b + r.at.b2 * c;
    r.distance = length(r.at.away);
    return r;
}

// A distance of the tree in the world's unit.
GK_FN real world_distance(const Bvh& bvh, const Query& q, real distance) { return real(distance * (q.factor * bvh.scale)); }
GK_FN int face_of(const Bvh& bvh, const Query& q) { return bvh.packets[q.best.packet].face[q.best.lane]; }

// Point i and the corners of its face, in the tree's coordinates, and what is known of the closest point.
struct KnownPoint {
    Vec3 a, b, c;
    TrianglePoint<real> at;
};
GK_FN KnownPoint known_point(const Bvh& bvh, const real* vertices, const int* faces, const real* points, int i, int face,
                             Vec3 weights, int feature) {
    const int* f = faces + 3 * (uint64)face;
    Vec3 a = locate(bvh, vertices, f[0]).p, b = locate(bvh, vertices, f[1]).p, c = locate(bvh, vertices, f[2]).p;
    return {a, b, c, known_on_triangle(locate(bvh, points, i).p, a, b, c, weights, feature)};
}

// Cotangents of point i and of the corners of its face, from those of the closest point and of the distance. Both are lengths,
// so their derivatives are the same in the tree's coordinates.
GK_FN TriangleGradient<real> adj_closest_point(const Bvh& bvh, const real* vertices, const int* faces, const real* points, int i,
                                               int face, Vec3 weights, int feature, Vec3 adj_point, real adj_distance) {
    KnownPoint k = known_point(bvh, vertices, faces, points, i, face, weights, feature);
    TriangleGradient<real> adj = adj_closest_on_triangle(k.a, k.b, k.c, k.at, adj_point);
    // The distance only feels motion along p - x (envelope theorem); at distance 0 it has no direction.
    Vec3 along = adj_distance * normalized(k.at.away);
    return {adj.a - k.at.b0 * along, adj.b - k.at.b1 * along, adj.c - k.at.b2 * along, adj.p + along};
}

}  // namespace gk
