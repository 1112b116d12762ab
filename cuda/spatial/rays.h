// A ray against boxes and triangles: no ray passes between two triangles that share an edge or a corner.
//
// The ray is sheared onto its dominant axis (Woop, Benthin and Wald 2013), in one rounding for each corner, whatever triangle
// the corner belongs to. What remains is a point in the plane and triangles around it, and on which side of an edge the
// point lies is decided exactly. Boxes are widened by more than all roundings of a triangle test together, so no box hides
// a triangle that would be hit, and results do not depend on the order in which boxes are visited.
#pragma once
#include "traverse.h"

namespace gk {

// Rays as the caller gave them, passed to kernels by value.
struct Rays {
    const real* origins;     // (N, 3)
    const real* directions;  // (N, 3), of any length but zero
    const real* t_min;       // (N,), or null where all rays have the same
    const real* t_max;
    double every_t_min;
    double every_t_max;
};

// The mesh as the caller gave it.
struct Mesh {
    const real* vertices;  // (V, 3)
    const int* faces;      // (F, 3)
};

// Faces that are not hit: none, those seen from behind, those seen from the front.
enum Cull { CULL_NONE = 0, CULL_BACK = 1, CULL_FRONT = 2 };

// Corners are within half a unit of the tree from its centre, and rays start within REACH. A sheared corner is then off by less
// than 5 EPSILON, a distance to a box by less than 8 EPSILON times the inverse direction: half of this would do.
constexpr real REACH = 2, SLACK = 32 * EPSILON;

// How far beyond its edge a triangle may be hit where the tree and exact arithmetic disagree.
constexpr real OVERSHOOT = 8 * SLACK;

// Components of a direction below this, against the largest, are zero: they move no ray by a rounding.
constexpr real LEVEL = IS_FLOAT ? real(1e-18) : real(1e-100);

constexpr real NOWHERE = -8;  // a `last` before every `first`
constexpr int MIXED = -1;

// The derivative of a hit holds down to this sine of the angle between ray and face; below, it is bounded as if there.
constexpr double GRAZING = 1e-6;

// LANES rays in the tree's coordinates, lane by lane. Distances are along a ray's dominant axis.
struct alignas(64) RayGroup {
    real inverse[3][LANES], near[3][LANES], far[3][LANES];  // distances to a plane: plane * inverse + near, or + far
    real first[LANES], last[LANES], end[LANES];             // where hits are wanted; `last` falls, `end` is where it began
    real shear_x[LANES], shear_y[LANES], origin[3][LANES];  // on the axes x y z of the shear, z the dominant one
    int negative[LANES];                                    // bit k: the direction is negative along axis k
    int octant;                                             // `negative` of all, or MIXED
    int axes[LANES];                                        // x | y << 2 | z << 4 | (negative along z) << 6
};

// One of them, where it lies.
struct RayOf {
    RayGroup& g;
    int lane;
};

GK_FN Vec3d ray_direction(const Rays& rays, int i) { return to_double(row(rays.directions, i)); }
GK_FN double ray_t_min(const Rays& rays, int i) { return rays.t_min ? double(rays.t_min[i]) : rays.every_t_min; }
GK_FN double ray_t_max(const Rays& rays, int i) { return rays.t_max ? double(rays.t_max[i]) : rays.every_t_max; }

// A ray whose origin is out of reach starts just before the mesh, so that its precision is that of the mesh. `at`, first and last
// receive where. The answer is whether it comes near enough to the centre for a hit.
GK_FN bool bring_near(const Bvh& bvh, const Rays& rays, int i, real* at, real& first, real& last) {
    Vec3d p = to_local(bvh, rays.origins, i), d = ray_direction(rays, i);
    double largest = max(max(abs(d.x), abs(d.y)), abs(d.z)), per_t = largest / bvh.scale;
    d = {d.x / largest, d.y / largest, d.z / largest};
    double start = -dot(p, d) / dot(d, d);
    p += start * d;
    bool comes_near = dot(p, p) <= 0.26;
    start -= 0.6, p += -0.6 * d;
    at[0] = real(p.x), at[1] = real(p.y), at[2] = real(p.z);
    first = real(clamp(ray_t_min(rays, i) * per_t - start, -4.0, 4.0)) - SLACK;
    last = real(clamp(ray_t_max(rays, i) * per_t - start, -4.0, 4.0)) + SLACK;
    return comes_near;
}

// The origins and directions of a block, column by column; the last ray again up to a multiple of LANES.
template <int N> struct Columns {
    alignas(64) real origin[3][N], direction[3][N];

    GK_FN void read(const Bvh& bvh, const Rays& rays, int begin, int n) {
        const double cx = bvh.center[0], cy = bvh.center[1], cz = bvh.center[2], unit = 1 / bvh.scale;
        const real *o = rays.origins + 3 * (uint64)begin, *d = rays.directions + 3 * (uint64)begin;
        for (int i = 0; i < n; ++i) {
            origin[0][i] = real((o[3 * i] - cx) * unit);
            origin[1][i] = real((o[3 * i + 1] - cy) * unit);
            origin[2][i] = real((o[3 * i + 2] - cz) * unit);
        }
        for (int i = 0; i < n; ++i) {
            direction[0][i] = d[3 * i];
            direction[1][i] = d[3 * i + 1];
            direction[2][i] = d[3 * i + 2];
        }
        repeat_last(n);
    }
    GK_FN void repeat_last(int n) {
        for (int i = n; i % LANES; ++i)
            for (int k = 0; k < 3; ++k) origin[k][i] = origin[k][n - 1], direction[k][i] = direction[k][n - 1];
    }
};

GK_FN Vec3L load3(const real* x, const real* y, const real* z) { return {load(x), load(y), load(z)}; }

// Rays i to i + LANES - 1 in the tree's coordinates, from their origins p and directions d; those beyond end - 1 repeat the
// last. The answer has a bit for each that is a ray: its direction is not zero, and nothing is NaN or infinite. The others hit
// nothing.
GK_FN uint prepare(const Bvh& bvh, const Rays& rays, int i, int end, Vec3L p, Vec3L d, RayGroup& g) {
    Lanes first = splat(real(rays.every_t_min)), last = splat(real(rays.every_t_max));
    alignas(64) real bound[LANES];
    if (rays.t_min) {
        for (int lane = 0; lane < LANES; ++lane) bound[lane] = rays.t_min[min(i + lane, end - 1)];
        first = load(bound);
    }
    if (rays.t_max) {
        for (int lane = 0; lane < LANES; ++lane) bound[lane] = rays.t_max[min(i + lane, end - 1)];
        last = load(bound);
    }
    const Lanes zero = splat(real(0)), one = splat(real(1)), level = splat(LEVEL), beyond = splat(real(4));
    Lanes largest = max(max(abs(d.x), abs(d.y)), abs(d.z));
    const Lanes most = splat(real(infinity()));
    uint valid = bits((largest > zero) & (abs(d.x) < most) & (abs(d.y) < most) & (abs(d.z) < most) & (abs(p.x) < most) &
                      (abs(p.y) < most) & (abs(p.z) < most) & (first <= splat(real(infinity()))) & (last <= splat(real(infinity()))));

    // Nothing of the mesh lies beyond a distance of four.
    Lanes per_t = largest * real(1 / bvh.scale);
    store(g.first, clamp(first * per_t, -beyond, beyond) - SLACK);
    store(g.last, clamp(last * per_t, -beyond, beyond) + SLACK);
    uint far = ~bits((dot(p, p) <= splat(REACH * REACH)) & (per_t > splat(TINY)) & (per_t < splat(1 / TINY))) & valid, missing = ~valid & ((1u << LANES) - 1);
    if (far) {
        Rows<3> at;
        at.set(0, p.x), at.set(1, p.y), at.set(2, p.z);
        for (; far; far &= far - 1) {
            int lane = lowest_bit(far);
            real nearest[3];
            if (!bring_near(bvh, rays, min(i + lane, end - 1), nearest, g.first[lane], g.last[lane])) missing |= 1u << lane;
            for (int k = 0; k < 3; ++k) at.at[k][lane] = nearest[k];
        }
        p = {load(at.at[0]), load(at.at[1]), load(at.at[2])};
    }
    for (; missing; missing &= missing - 1) g.last[lowest_bit(missing)] = NOWHERE;
    store(g.end, load(g.last));

    d = {d.x / largest, d.y / largest, d.z / largest};
    const Lanes towards[3] = {d.x, d.y, d.z}, from[3] = {p.x, p.y, p.z};
    GK_UNROLL
    for (int k = 0; k < 3; ++k) {
        Lanes inverse = one / max(abs(towards[k]), level), slack = SLACK * inverse;
        inverse = select(towards[k] < zero, -inverse, inverse);
        Lanes offset = -from[k] * inverse;
        store(g.inverse[k], inverse), store(g.near[k], offset - slack), store(g.far[k], offset + slack);
    }
    Mask along_z = abs(d.z) >= one, along_y = abs(d.y) >= one;
    Lanes sign = select(along_z, d.z, select(along_y, d.y, d.x));
    Lanes x = select(along_z, d.x, select(along_y, d.z, d.y)), y = select(along_z, d.y, select(along_y, d.x, d.z));
    store(g.shear_x, select(abs(x) < level, zero, x * sign)), store(g.shear_y, select(abs(y) < level, zero, y * sign));
    store(g.origin[0], select(along_z, p.x, select(along_y, p.z, p.y)));
    store(g.origin[1], select(along_z, p.y, select(along_y, p.x, p.z)));
    store(g.origin[2], select(along_z, p.z, select(along_y, p.y, p.x)));
    uint negative[3] = {bits(d.x < zero), bits(d.y < zero), bits(d.z < zero)};
    uint backward = bits(sign < zero), is_z = bits(along_z), is_y = bits(along_y);
    bool uniform = true;
    for (int k = 0; k < 3; ++k) uniform &= negative[k] == 0 || negative[k] == (1u << LANES) - 1;
    g.octant = uniform ? int((negative[0] & 1) | (negative[1] & 1) << 1 | (negative[2] & 1) << 2) : MIXED;
    for (int lane = 0; lane < LANES; ++lane) {
        g.negative[lane] = (negative[0] >> lane & 1) | (negative[1] >> lane & 1) << 1 | (negative[2] >> lane & 1) << 2;
        // x, y and z are the axes 0 1 2, 2 0 1 or 1 2 0.
        g.axes[lane] = (is_z >> lane & 1 ? 0 | 1 << 2 | 2 << 4 : is_y >> lane & 1 ? 2 | 0 << 2 | 1 << 4 : 1 | 2 << 2 | 0 << 4) |
                       (backward >> lane & 1) << 6;
    }
    return valid;
}

// The planes of boxes as a ray meets them: entering and leaving on each axis.
struct Planes {
    Lanes enter[3], leave[3];
};

// Those of LANES children of a node from `lane` on, for one ray.
GK_FN Planes planes_at(const Node& node, int negative, int lane) {
    const int x = negative & 1, y = negative >> 1 & 1, z = negative >> 2 & 1;
    return {{load(node.bounds[0][x] + lane), load(node.bounds[1][y] + lane), load(node.bounds[2][z] + lane)},
            {load(node.bounds[0][!x] + lane), load(node.bounds[1][!y] + lane), load(node.bounds[2][!z] + lane)}};
}

// Those of one child of a node, for LANES rays.
GK_FN Planes planes_of(const Node& node, int negative, int child) {
    const int x = negative & 1, y = negative >> 1 & 1, z = negative >> 2 & 1;
    return {{splat(node.bounds[0][x][child]), splat(node.bounds[1][y][child]), splat(node.bounds[2][z][child])},
            {splat(node.bounds[0][!x][child]), splat(node.bounds[1][!y][child]), splat(node.bounds[2][!z][child])}};
}

// The children that the ray enters between `first` and `last`, one bit each; `near` receives where.
GK_FN uint entered(const Planes& planes, const RayOf& ray, real* near) {
    const RayGroup& g = ray.g;
    const int k = ray.lane;
    Lanes enter = max(max(planes.enter[0] * g.inverse[0][k] + g.near[0][k], planes.enter[1] * g.inverse[1][k] + g.near[1][k]),
                      max(planes.enter[2] * g.inverse[2][k] + g.near[2][k], splat(g.first[k])));
    Lanes leave = min(min(planes.leave[0] * g.inverse[0][k] + g.far[0][k], planes.leave[1] * g.inverse[1][k] + g.far[1][k]),
                      min(planes.leave[2] * g.inverse[2][k] + g.far[2][k], splat(g.last[k])));
    store(near, enter);
    return bits(enter <= leave);
}

// What the ray sees of LANES triangles of a packet: corners x, y in the sheared plane with the ray at its origin, z along
// the ray, and for each edge, the one opposite to corner k, on which side of it the ray passes. The three are proportional
// to the barycentric coordinates of the hit.
struct Sheared {
    Lanes x[3], y[3], z[3], side[3];
};

GK_FN Sheared shear_triangles(const Packet& packet, int lane, const RayOf& ray) {
    const RayGroup& g = ray.g;
    const int k0 = ray.lane, axes = g.axes[k0], x = axes & 3, y = axes >> 2 & 3, z = axes >> 4 & 3;
    Sheared t;
    GK_UNROLL
    for (int k = 0; k < 3; ++k) {
        t.z[k] = load(packet.corner[k][z] + lane) - g.origin[2][k0];
        t.x[k] = (load(packet.corner[k][x] + lane) - g.origin[0][k0]) - g.shear_x[k0] * t.z[k];
        t.y[k] = (load(packet.corner[k][y] + lane) - g.origin[1][k0]) - g.shear_y[k0] * t.z[k];
    }
    t.side[0] = difference_of_products(t.x[1], t.y[2], t.y[1], t.x[2]);
    t.side[1] = difference_of_products(t.x[2], t.y[0], t.y[2], t.x[0]);
    t.side[2] = difference_of_products(t.x[0], t.y[1], t.y[0], t.x[1]);
    return t;
}

// The triangles that the ray meets, one bit each: edges belong to both of their triangles. A triangle seen edge-on is not met:
// those beyond its edges are.
GK_FN uint inside(const Sheared& t) {
    const Lanes zero = splat(real(0));
    Mask one_side = (min(min(t.side[0], t.side[1]), t.side[2]) >= zero) | (max(max(t.side[0], t.side[1]), t.side[2]) <= zero);
    return bits(one_side & (t.side[0] + t.side[1] + t.side[2] != zero));
}

// Of the triangles in `hits`, all of which the ray meets: those that it still passes through when it is moved by an
// infinitesimal step along x and an infinitely smaller one along y. Around an edge or a corner that the ray meets exactly
// this chooses as if it met none, so each shell of a surface is crossed once, and a closed surface an even number of times.
GK_FN uint once(const Sheared& t, uint hits) {
    const Lanes zero = splat(real(0));
    uint exact = hits & ~bits((t.side[0] != zero) & (t.side[1] != zero) & (t.side[2] != zero));
    if (!exact) return hits;
    Rows<9> rows;
    for (int k = 0; k < 3; ++k) rows.set(k, t.x[k]), rows.set(3 + k, t.y[k]), rows.set(6 + k, t.side[k]);
    for (; exact; exact &= exact - 1) {
        int lane = lowest_bit(exact), left = 0, right = 0;
        for (int k = 0; k < 3; ++k) {
            int p = (k + 1) % 3, q = (k + 2) % 3;
            real side = rows.at[6 + k][lane];
            if (side == 0) side = rows.at[3 + p][lane] - rows.at[3 + q][lane];
            if (side == 0) side = rows.at[q][lane] - rows.at[p][lane];
            left += side > 0, right += side < 0;
        }
        if (left < 3 && right < 3) hits &= ~(1u << lane);
    }
    return hits;
}

// A triangle that the ray passes through, as the tree sees it.
struct Seen {
    real first, last;  // between which distances along the dominant axis the hit must be
    real u, v;         // weights of corners 1 and 2
    int face;
};

// A triangle that LANES rays pass through.
struct SeenByAll {
    Lanes first, last, u, v;
    int face;
};

// Hands the triangles of a packet that the ray meets between two distances to visit(Seen); with ONCE, those of an edge or a
// corner once.
template <bool ONCE, class Visit>
GK_FN void pass_through(const Packet& packet, const RayOf& ray, int cull, const Visit& visit) {
    const real nearest = ray.g.first[ray.lane], &farthest = ray.g.last[ray.lane];
    GK_UNROLL
    for (int offset = 0; offset < WIDTH; offset += LANES) {
        Sheared t = shear_triangles(packet, offset, ray);
        Lanes sum = t.side[0] + t.side[1] + t.side[2];
        uint hits = inside(t);
        if (!hits) continue;
        bool backward = ray.g.axes[ray.lane] >> 6 & 1;
        if (cull != CULL_NONE) {
            uint counterclockwise = bits(sum > splat(real(0)));
            hits &= backward == (cull == CULL_BACK) ? counterclockwise : ~counterclockwise;
        }
        if (ONCE) hits = once(t, hits);
        Lanes low = min(min(t.z[0], t.z[1]), t.z[2]), high = max(max(t.z[0], t.z[1]), t.z[2]);
        Lanes first = (backward ? -high : low) - OVERSHOOT, last = (backward ? -low : high) + OVERSHOOT;
        hits &= bits((last >= splat(nearest)) & (first <= splat(farthest)));
        if (!hits) continue;
        Rows<5> rows;
        rows.set(0, first), rows.set(1, last), rows.set(2, sum), rows.set(3, t.side[1]), rows.set(4, t.side[2]);
        for (; hits; hits &= hits - 1) {
            int lane = lowest_bit(hits);
            if (rows.at[0][lane] > farthest) continue;
            real inverse = 1 / rows.at[2][lane];
            visit(Seen{rows.at[0][lane], rows.at[1][lane], rows.at[3][lane] * inverse, rows.at[4][lane] * inverse,
                       packet.face[offset + lane]});
        }
    }
}

// Rays on known faces, LANES of them.
struct Crossings {
    alignas(64) double t[LANES], u[LANES], v[LANES];  // parameter of the ray; weights of corners 1 and 2
};

// Where ray ray_of(lane) meets the face seen[lane].face, in double and in the world's coordinates: the tree's precision only
// chose the triangle. A ray that passes just beyond an edge meets the plane there, with weights of the edge. Where that is too
// far from the triangle, and where the ray all but lies in its plane, the weights that the tree saw hold.
template <class RayOf>
GK_FN void cross_faces(const Bvh& bvh, const Mesh& mesh, const Rays& rays, const RayOf& ray_of, const Seen* const* seen, Crossings& out) {
    alignas(64) real a[3][LANES], b[3][LANES], c[3][LANES], from[3][LANES], to[3][LANES];
    double unit_of[LANES];
    for (int lane = 0; lane < LANES; ++lane) {
        const int* f = mesh.faces + 3 * (uint64)seen[lane]->face;
        const real *p = mesh.vertices + 3 * (uint64)f[0], *q = mesh.vertices + 3 * (uint64)f[1], *r = mesh.vertices + 3 * (uint64)f[2];
        const real *o = rays.origins + 3 * (uint64)ray_of(lane), *d = rays.directions + 3 * (uint64)ray_of(lane);
        // In double, the square of a direction's length would leave the range of the numbers.
        unit_of[lane] = IS_FLOAT ? 1 : power_of_two(max(max(abs(d[0]), abs(d[1])), abs(d[2])));
        for (int k = 0; k < 3; ++k) a[k][lane] = p[k], b[k][lane] = q[k], c[k][lane] = r[k], from[k][lane] = o[k];
        for (int k = 0; k < 3; ++k) to[k][lane] = IS_FLOAT ? d[k] : real(d[k] / unit_of[lane]);
    }
    auto wide = [](const real(*rows)[LANES]) { return Vec<DoubleLanes>{load_double(rows[0]), load_double(rows[1]), load_double(rows[2])}; };
    const DoubleLanes unit = splat_double(1 / bvh.scale), scale = splat_double(bvh.scale);
    Vec<DoubleLanes> v0 = wide(a), d = wide(to), e1 = unit * (wide(b) - v0), e2 = unit * (wide(c) - v0), s = unit * (wide(from) - v0);
    Vec<DoubleLanes> p = cross(d, e2), q = cross(s, e1);
    DoubleLanes det = dot(e1, p), inverse = splat_double(1) / det;
    // The sine of the angle to the plane, times that between the edges, is not below 1e-8.
    alignas(64) double clear[LANES];
    store_double(clear, det * det - splat_double(1e-16) * dot(e1, e1) * dot(e2, e2) * dot(d, d));
    store_double(out.t, dot(e2, q) * inverse * scale), store_double(out.u, dot(s, p) * inverse), store_double(out.v, dot(d, q) * inverse);
    for (int lane = 0; lane < LANES; ++lane) {
        if (!IS_FLOAT) out.t[lane] /= unit_of[lane];
        double u = out.u[lane], v = out.v[lane];
        if (u >= 0 && v >= 0 && u + v <= 1 && clear[lane] > 0) continue;
        auto at = [&](const real(*rows)[LANES]) { return Vec3d{double(rows[0][lane]), double(rows[1][lane]), double(rows[2][lane])}; };
        Vec3d along = at(to);
        double w0 = max(1 - u - v, 0.0), w1 = max(u, 0.0), w2 = max(v, 0.0), sum = w0 + w1 + w2;
        Vec3d beyond = (w1 / sum - u) * (at(b) - at(a)) + (w2 / sum - v) * (at(c) - at(a));
        if (clear[lane] > 0 && length(beyond) <= OVERSHOOT / 2 * bvh.scale) {
            out.u[lane] = w1 / sum, out.v[lane] = w2 / sum;
            continue;
        }
        u = seen[lane]->u, v = seen[lane]->v;
        out.t[lane] = dot((1 - u - v) * (at(a) - at(from)) + u * (at(b) - at(from)) + v * (at(c) - at(from)), along) / dot(along, along) / unit_of[lane];
        out.u[lane] = u, out.v[lane] = v;
    }
}

// The same for one ray and face.
GK_FN double cross_face(const Bvh& bvh, const Mesh& mesh, const Rays& rays, int i, const Seen& seen) {
    const Seen* same[LANES];
    for (int lane = 0; lane < LANES; ++lane) same[lane] = &seen;
    Crossings at;
    cross_faces(bvh, mesh, rays, [i](int) { return i; }, same, at);
    return at.t[0];
}

// Whether a triangle that was seen is hit between t_min and t_max: beyond doubt, or exactly.
GK_FN bool in_range(const Bvh& bvh, const Mesh& mesh, const Rays& rays, int i, real first, real last, const Seen& seen) {
    if (seen.first > first + SLACK && seen.last < last - SLACK) return true;
    double t = cross_face(bvh, mesh, rays, i, seen);
    return t >= ray_t_min(rays, i) && t <= ray_t_max(rays, i);
}

}  // namespace gk
