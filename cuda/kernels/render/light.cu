// One sample of one light at each of many hits: the ray towards it, and what it adds if nothing is in the way.
//
// Item i has the material, point, normals and viewing direction of hit i. `stream` tells the random numbers of a hit's pixel
// apart, `index` those of the samples within it. The ray starts at the point.
#include "../../render/light.h"

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
                           const real* met_at, const uint* stream, const int* index, int dimension) {
    if (followed) return met_light(light, vertices, faces, met[i], met_at[2 * (uint64)i], met_at[2 * (uint64)i + 1], s.m, s.p, s.n, s.wo);
    return sampled_light(kind, light, vertices, faces, s.m, s.p, s.n, s.wo, random_of(stream, index, i, dimension));
}
// Whether anything is seen if neither light nor surface is black and nothing is in the way.
GK_FN bool is_lit(const Lit& s, const Arrival& a) {
    return s.visible && a.factor > 0 && dot(s.face_normal, a.wi) > 0 && reflects(s.n, s.wo, a.wi);
}

// The ray to the sample starts `lift` above the surface, on the light's side, and ends at `until`; where the light adds nothing
// it ends before it starts.
GK_KERNEL light_fwd(int n, int kind, Light light, const real* vertices, const int* faces, const real* materials, const real* positions,
                    const real* normals, const real* face_normals, const real* directions, const uint* stream, const int* index,
                    int dimension, int followed, const int* met, const real* met_at, double lift, double until, real* origins, real* to_light, real* t_max, real* color) {
    GK_EACH(i, n) {
        Lit s = lit_at(i, materials, positions, normals, face_normals, directions);
        LightSample l = light_at(i, kind, light, vertices, faces, s, followed, met, met_at, stream, index, dimension);
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

// adj_value is by ray, color what is seen where it is not dark. Cotangents add up in the arrays of hits. Item b has `block` hits: sums[b] has those of position,
// axis and power of the light; light_face and adj_light the emitting face of each hit, or -1, and its corners.
GK_KERNEL light_adj(int n, int block, int count, int kind, Light light, const real* vertices, const int* faces, const real* materials,
                    const real* positions, const real* normals, const real* face_normals, const real* directions,
                    const uint* stream, const int* index, int dimension, int followed, const int* met, const real* met_at,
                    const int* rays, const real* adj_value, const real* throughput, const real* color, const int* dark, real* adj_throughput, real* adj_materials, real* adj_positions,
                    real* adj_normals, real* adj_directions, double* sums, int* light_face, real* adj_light) {
    GK_EACH(b, n) {
        Vec3d position = {0, 0, 0}, axis = {0, 0, 0}, power = {0, 0, 0};
        for (int i = b * block; i < min((b + 1) * block, count); ++i) {
            if (kind == AREA) light_face[i] = -1;
            if (dark[i]) continue;
            Vec3 adj = row(adj_value, rays[i]);
            add_row(adj_throughput, i, product(adj, row(color, i)));
            adj = product(row(throughput, i), adj);
            if (adj.x == 0 && adj.y == 0 && adj.z == 0) continue;
            Lit s = lit_at(i, materials, positions, normals, face_normals, directions);
            LightSample l = light_at(i, kind, light, vertices, faces, s, followed, met, met_at, stream, index, dimension);
            Arrival a = arriving(kind, light, vertices, faces, l);
            AdjScattered to_bsdf = adj_scattered(s.m, s.n, s.wo, a.wi, product(adj, a.factor * light_power(light)));
            Vec3 adj_arriving_color = product(adj, scattered(s.m, s.n, s.wo, a.wi));
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
