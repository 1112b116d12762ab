// One sample of one light at each of many hits: the ray towards it, and what it adds if nothing is in the way.
//
// Item i has the material, point, normals and viewing direction of hit i. `stream` tells the random numbers of a hit's pixel
// apart, `index` those of the samples within it. The ray starts at the point.
#include "../../render/diffuse_lanes.h"
#include "../../spatial/ray_walk.h"

namespace gk {

// A hit seen from where it is lit and looked at: normals on the viewer's side.
struct Lit {
    Material m;
    Vec3 p, n, face_normal, wo;
    real side;     // of the viewer
    bool visible;  // whether this side reflects
};
GK_FN Lit lit_at(int i, const real* materials, const real* positions, const real* normals, const real* face_normals, const real* directions) {
    Lit s;
    s.m = material_at(materials, i);
    s.p = row(positions, i);
    s.wo = -normalized(row(directions, i));
    s.face_normal = row(face_normals, i);
    s.side = dot(s.face_normal, s.wo) < 0 ? real(-1) : real(1);
    s.visible = s.side > 0 || s.m.two_sided != 0;
    s.n = s.side * row(normals, i), s.face_normal = s.side * s.face_normal;
    return s;
}
GK_FN Random2 random_of(const uint* stream, const int* index, int i, int dimension) {
    return random2(hashed(stream[i], (uint)dimension), (uint)index[i]);
}

// A sample of the light for hit i: drawn, or if `followed` what a ray of the surface met: the face met[i], or -1.
GK_FN LightSample light_at(int i, int kind, const Light& light, const real* vertices, const int* faces, const Lit& s, int followed, const int* met,
                           const real* met_at, Random2 u) {
    if (followed) return met_light(light, vertices, faces, met[i], met_at[2 * (uint64)i], met_at[2 * (uint64)i + 1], s.m, s.p, s.n, s.wo);
    return sampled_light(kind, light, vertices, faces, s.m, s.p, s.n, s.wo, u);
}
// Whether anything is seen if neither light nor surface is black and nothing is in the way.
GK_FN bool is_lit(const Lit& s, const Arrival& a) {
    return s.visible && a.factor > 0 && dot(s.face_normal, a.wi) > 0 && reflects(s.m, s.n, s.wo, a.wi);
}

// The ray to the sample starts `lift` above the surface, on the light's side, and ends at `until`; where the light adds nothing
// it ends before it starts.
GK_KERNEL light_fwd(int n, int kind, Light light, const real* vertices, const int* faces, const real* materials, const real* positions,
                    const real* normals, const real* face_normals, const real* directions, const uint* stream, const int* index,
                    int dimension, int followed, const int* met, const real* met_at, double lift, double until, real* origins,
                    real* to_light, real* t_max, real* color) {
    GK_EACH(i, n) {
        Lit s = lit_at(i, materials, positions, normals, face_normals, directions);
        LightSample l = light_at(i, kind, light, vertices, faces, s, followed, met, met_at, random_of(stream, index, i, dimension));
        Arrival a = arriving(kind, light, vertices, faces, l);
        bool lit = is_lit(s, a);
        Vec3 seen = lit ? product(scattered(s.m, s.n, s.wo, a.wi), a.factor * light_power(light)) : Vec3{0, 0, 0};
        real side = dot(s.face_normal, l.to);
        set_row(color, i, seen);
        set_row(origins, i, s.p + (side > 0 ? real(lift) : side < 0 ? -real(lift) : 0) * s.face_normal);
        set_row(to_light, i, l.to);
        t_max[i] = lit ? real(until) : real(-1);
    }
}

// What is seen of a light is nothing where it does not reach or something is in the way: dark[i] becomes 1. The rest, times the
// throughput, adds to the rays' values.
GK_KERNEL add_unshadowed(int n, const int* rays, const real* t_max, int* dark, const real* throughput, real* color, real* value) {
    GK_EACH(i, n) {
        dark[i] = dark[i] != 0 || t_max[i] < 0;
        if (dark[i]) set_row(color, i, {0, 0, 0});
        else add_row(value, rays[i], product(row(throughput, i), row(color, i)));
    }
}

// Hits whose rays to a light are sorted together.
constexpr int HITS = GK_GPU ? 1 : 8192;

// Rays to a light, from `hit` of the block, whose face is `own`.
struct Shadowed {
    real origin[3 * HITS], direction[3 * HITS];
    int hit[HITS], own[HITS], found[HITS];
};

// Random numbers of hits, if the light is one whose samples are drawn: on the CPU ahead of their use, as their bits are computed on
// lanes.
struct Drawn {
    real x[HITS], y[HITS];

    GK_FN void draw(int kind, const uint* stream, const int* index, int first, int m, int dimension) {
        const int ahead = HITS > 1 && is_drawn(kind) ? m : 0;
        for (int k = 0; k < ahead; ++k) {
            Random2 u = random_of(stream, index, first + k, dimension);
            x[k] = u.x, y[k] = u.y;
        }
    }
    GK_FN Random2 of(int kind, const uint* stream, const int* index, int first, int k, int dimension) const {
        if (HITS > 1) return {x[k], y[k]};
        return is_drawn(kind) ? random_of(stream, index, first + k, dimension) : Random2{0, 0};
    }
};

// Rays of one octant go through the tree together.
GK_FN int octant_of(Vec3 d) { return int(d.x > 0) | int(d.y > 0) << 1 | int(d.z > 0) << 2; }

// What PART hits see of a light if nothing is in the way, and their rays to it, in columns.
struct Unshadowed {
    DiffuseHits hits;
    alignas(64) real color[3][PART], origin[3][PART], to[3][PART];
    uint lit[PART / LANES];

    GK_FN void see(int kind, const Light& light, int m, double lift) {
        const Lanes none = splat(real(0)), up = splat(real(lift));
        const Vec3L power = splat(light_power(light)), black = {none, none, none};
        for (int k = 0; k < m; k += LANES) {
            DiffuseLit s = diffuse_lit(kind, light, hits, k);
            Vec3L seen = product((s.ni * real(1 / PI)) * s.albedo, s.factor * power);
            put(color, k, select(mask_of(s.lit), seen, black));
            Lanes side = dot(s.flat, s.to);
            put(origin, k, DiffuseHits::at(hits.p, k) + select(side > none, up, select(side < none, -up, none)) * s.flat);
            put(to, k, s.to);
            lit[k / LANES] = s.lit;
        }
    }
};

// Whether anything but its own face is in the way of each ray: the face itself is flat, and the ray leaves it.
struct FindShadow {
    static constexpr bool ONCE = false, TOGETHER = true, ANY_ORDER = true;
    const Bvh& bvh;
    const Mesh& mesh;
    const Rays& rays;
    Block& block;
    Shadowed& of;
    int cull, begin;

    GK_FN void operator()(int i, const Seen& seen, real& last) const {
        const int k = begin + i;
        if (seen.face == of.own[k] || of.found[k]) return;
        if (in_range(bvh, mesh, rays, k, block.first(i), block.end(i), seen)) of.found[k] = 1, last = NOWHERE;
    }
    GK_FN uint together(int i, uint hits, const SeenByAll& seen, RayGroup&) const { return hits & ~equal_bits(of.own + begin + i, seen.face); }
};

// What is seen of the light, 0 where it is dark: where it does not reach, or something is in the way. Times the throughput it adds to
// the values of the rays. Item b has `block` hits; invalid[b] receives whether one of its rays is none.
GK_KERNEL light_hits(int n, int block, int count, Bvh bvh, Mesh mesh, int kind, Light light, const real* materials, const real* positions,
                  const real* normals, const real* face_normals, const real* directions, const uint* stream, const int* index,
                  int dimension, double lift, double until, const int* face, const int* ray_of, const real* throughput, real* color,
                  int* dark, real* value, int* invalid) {
    GK_SCRATCH Block scratch;
    GK_SCRATCH Shadowed scratch_drawn, scratch_sorted;
    GK_SCRATCH Drawn scratch_random;
    GK_SCRATCH Unshadowed scratch_part;
    GK_SCRATCH unsigned char scratch_octant[HITS];
    Block* rays_of_block = located(&scratch);
    Shadowed &drawn = *located(&scratch_drawn), &sorted = *located(&scratch_sorted);
    Drawn& random = *located(&scratch_random);
    Unshadowed& some = *located(&scratch_part);
    unsigned char* octant = located(scratch_octant);
    const bool at_once = HITS > 1 && is_plain(kind);
    GK_EACH(b, n) {
        const int first = b * block, m = min(first + block, count) - first;
        const Vec3 power = light_power(light);
        int start[9] = {}, lit = 0;
        random.draw(kind, stream, index, first, m, dimension);
        for (int k = 0; k < m; ++k) {
            const int i = first + k, at = k % PART;
            if (at_once && at == 0) {
                const int part = min(PART, m - k);
                some.hits.read(i, part, materials, positions, normals, face_normals, directions);
                if (is_drawn(kind)) some.hits.draw(random.x + k, random.y + k, part);
                some.see(kind, light, part, lift);
            }
            bool reaches;
            if (at_once && !material_at(materials, i).specular) {
                reaches = some.lit[at / LANES] >> at % LANES & 1;
                set_row(color, i, column(some.color, at));
                set_row(drawn.origin, lit, column(some.origin, at)), set_row(drawn.direction, lit, column(some.to, at));
            } else {
                Lit s = lit_at(i, materials, positions, normals, face_normals, directions);
                LightSample l = sampled_light(kind, light, mesh.vertices, mesh.faces, s.m, s.p, s.n, s.wo, random.of(kind, stream, index, first, k, dimension));
                Arrival a = arriving(kind, light, mesh.vertices, mesh.faces, l);
                reaches = is_lit(s, a);
                set_row(color, i, reaches ? product(scattered(s.m, s.n, s.wo, a.wi), a.factor * power) : Vec3{0, 0, 0});
                real side = dot(s.face_normal, l.to);
                set_row(drawn.origin, lit, s.p + (side > 0 ? real(lift) : side < 0 ? -real(lift) : 0) * s.face_normal);
                set_row(drawn.direction, lit, l.to);
            }
            dark[i] = !reaches;
            // What does not reach is written over.
            if (!reaches) continue;
            drawn.hit[lit] = k;
            ++start[1 + (octant[lit] = octant_of(row(drawn.direction, lit)))];
            ++lit;
        }
        for (int k = 0; k < 8; ++k) start[k + 1] += start[k];
        for (int k = 0; k < lit; ++k) {
            const int to = start[octant[k]]++;
            set_row(sorted.origin, to, row(drawn.origin, k)), set_row(sorted.direction, to, row(drawn.direction, k));
            sorted.hit[to] = drawn.hit[k], sorted.own[to] = face[first + drawn.hit[k]], sorted.found[to] = 0;
        }
        const Rays rays = {sorted.origin, sorted.direction, nullptr, nullptr, 0, until};
        invalid[b] = 0;
        for (int k = 0; k < lit; k += RAYS) {
            FindShadow find = {bvh, mesh, rays, *rays_of_block, sorted, CULL_NONE, k};
            invalid[b] |= walk_rays(bvh, rays, k, min(k + RAYS, lit), *rays_of_block, find) >= 0;
        }
        for (int k = 0; k < lit; ++k)
            if (sorted.found[k]) set_row(color, first + sorted.hit[k], {0, 0, 0}), dark[first + sorted.hit[k]] = 1;
        for (int i = first; i < first + m; ++i) add_row(value, ray_of[i], product(row(throughput, i), row(color, i)));
    }
}

// adj_value is by ray. Cotangents add up in the arrays of hits, from zero if `fresh`; what is `dark` has none. Item b has `block` hits: sums[b] has those of position,
// axis and power of the light; light_face and adj_light the emitting face of each hit, or -1, and its corners.
GK_KERNEL light_adj(int n, int block, int count, int kind, Light light, const real* vertices, const int* faces, const real* materials,
                    const real* positions, const real* normals, const real* face_normals, const real* directions,
                    const uint* stream, const int* index, int dimension, int followed, const int* met, const real* met_at,
                    const int* rays, const real* adj_value, const real* throughput, const int* dark, int fresh, real* adj_throughput, real* adj_materials, real* adj_positions,
                    real* adj_normals, real* adj_directions, double* sums, int* light_face, real* adj_light) {
    GK_SCRATCH Drawn scratch_random;
    GK_SCRATCH DiffuseHits scratch_part;
    GK_SCRATCH AdjDiffuseHits scratch_adj;
    Drawn& random = *located(&scratch_random);
    DiffuseHits& some = *located(&scratch_part);
    AdjDiffuseHits& some_adj = *located(&scratch_adj);
    const bool at_once = HITS > 1 && is_plain(kind);
    GK_EACH(b, n) {
        Vec3d position = {0, 0, 0}, axis = {0, 0, 0}, power = {0, 0, 0};
        const int first = b * block;
        random.draw(kind, stream, index, first, min(block, count - first), dimension);
        for (int i = b * block; i < min((b + 1) * block, count); ++i) {
            const int at = (i - first) % PART;
            if (at_once && at == 0) {
                const int part = min(PART, min(first + block, count) - i);
                some.read(i, part, materials, positions, normals, face_normals, directions);
                if (is_drawn(kind)) some.draw(random.x + i - first, random.y + i - first, part);
                DiffuseHits::columns(some_adj.throughput, throughput, i, part);
                for (int k = 0; k < part; ++k)
                    for (int c = 0; c < 3; ++c) some_adj.adj[c][k] = adj_value[3 * (uint64)rays[i + k] + c];
                some_adj.find(kind, light, some, part);
            }
            if (kind == AREA) light_face[i] = -1;
            if (fresh) {
                for (int k = 0; k < MATERIAL; ++k) adj_materials[MATERIAL * (uint64)i + k] = 0;
                set_row(adj_throughput, i, {0, 0, 0}), set_row(adj_positions, i, {0, 0, 0});
                set_row(adj_normals, i, {0, 0, 0}), set_row(adj_directions, i, {0, 0, 0});
            }
            Vec3 adj = row(adj_value, rays[i]);
            if (dark[i] || (adj.x == 0 && adj.y == 0 && adj.z == 0)) continue;
            if (at_once && !material_at(materials, i).specular) {
                if (!(some_adj.lit[at / LANES] >> at % LANES & 1)) continue;
                Vec3 albedo = column(some_adj.albedo, at);
                add_material(adj_materials, i, {albedo, 0, 0, 0, 0});
                add_row(adj_throughput, i, column(some_adj.to_throughput, at)), add_row(adj_normals, i, column(some_adj.n, at));
                power += to_double(column(some_adj.power, at));
                if (kind == CONSTANT) continue;
                Vec3 to = column(some_adj.to, at);
                add_row(adj_positions, i, -to);
                position += to_double(to);
                continue;
            }
            Lit s = lit_at(i, materials, positions, normals, face_normals, directions);
            LightSample l = light_at(i, kind, light, vertices, faces, s, followed, met, met_at, random.of(kind, stream, index, first, i - first, dimension));
            Arrival a = arriving(kind, light, vertices, faces, l);
            Vec3 reflected = scattered(s.m, s.n, s.wo, a.wi);
            Vec3 arrives = a.factor * light_power(light);
            add_row(adj_throughput, i, product(adj, product(reflected, arrives)));
            adj = product(row(throughput, i), adj);
            AdjScattered to_bsdf = adj_scattered(s.m, s.n, s.wo, a.wi, product(adj, arrives));
            Vec3 adj_arriving_color = product(adj, reflected);
            AdjArrival to_light = adj_arriving(kind, light, vertices, faces, l, to_bsdf.wi, adj_arriving_color);
            add_material(adj_materials, i, to_bsdf.m);
            add_row(adj_normals, i, s.side * to_bsdf.n);
            add_row(adj_directions, i, -adj_normalized(row(directions, i), to_bsdf.wo));
            power += to_double(to_light.power), axis += to_double(to_light.axis);
            if (kind == CONSTANT || kind == ENVIRONMENT) continue;
            if (kind == DIRECTIONAL) {
                position += to_double(-to_light.to);
                continue;
            }
            add_row(adj_positions, i, -to_light.to);
            position += to_double(to_light.to);
            if (kind == AREA) {
                light_face[i] = l.face;
                set_row(adj_light, 3 * i, to_light.corners.a);
                set_row(adj_light, 3 * i + 1, to_light.corners.b);
                set_row(adj_light, 3 * i + 2, to_light.corners.c);
            }
        }
        double* out = sums + 9 * (uint64)b;
        out[0] = position.x, out[1] = position.y, out[2] = position.z;
        out[3] = axis.x, out[4] = axis.y, out[5] = axis.z;
        out[6] = power.x, out[7] = power.y, out[8] = power.z;
    }
}

// A direction to go on in, and the factor of what comes from there.
GK_KERNEL bounce_fwd(int n, const real* materials, const real* normals, const real* face_normals, const real* directions,
                     const uint* stream, const int* index, int dimension, real* next, real* factor) {
    GK_EACH(i, n) {
        Lit s = lit_at(i, materials, face_normals, normals, face_normals, directions);
        Vec3 wi = sampled_direction(s.m, s.n, s.wo, random_of(stream, index, i, dimension));
        real density = direction_density(s.m, s.n, s.wo, wi);
        bool on = s.visible && density > 0 && dot(s.face_normal, wi) > 0;
        set_row(factor, i, on ? (1 / density) * scattered(s.m, s.n, s.wo, wi) : Vec3{0, 0, 0});
        set_row(next, i, wi);
    }
}

// The direction stays what it is.
GK_KERNEL bounce_adj(int n, const real* materials, const real* normals, const real* face_normals, const real* directions,
                     const uint* stream, const int* index, int dimension, const real* adj_factor, real* adj_materials,
                     real* adj_normals, real* adj_directions) {
    GK_EACH(i, n) {
        Vec3 adj = row(adj_factor, i);
        if (adj.x == 0 && adj.y == 0 && adj.z == 0) continue;
        Lit s = lit_at(i, materials, face_normals, normals, face_normals, directions);
        Vec3 wi = sampled_direction(s.m, s.n, s.wo, random_of(stream, index, i, dimension));
        real density = direction_density(s.m, s.n, s.wo, wi);
        if (!s.visible || !(density > 0) || !(dot(s.face_normal, wi) > 0)) continue;
        AdjScattered a = adj_scattered(s.m, s.n, s.wo, wi, (1 / density) * adj);
        add_material(adj_materials, i, a.m);
        add_row(adj_normals, i, s.side * a.n);
        add_row(adj_directions, i, -adj_normalized(row(directions, i), a.wo));
    }
}

}  // namespace gk
