// Diffuse hits under a constant or a point light, LANES at a time: the arithmetic of light.h and bsdf.h without their branches.
#pragma once
#include "light.h"

namespace gk {

constexpr int PART = GK_GPU ? 1 : 64;  // hits whose columns are at hand

GK_FN bool is_plain(int kind) { return kind == CONSTANT || kind == POINT; }

// The rows of hits first to first + m - 1 as columns.
struct DiffuseHits {
    alignas(64) real albedo[3][PART], two_sided[PART], p[3][PART], n[3][PART], flat[3][PART], d[3][PART];
    alignas(64) real drawn[3][PART];  // directions by the cosine, about the z axis

    GK_FN void read(int first, int m, const real* materials, const real* positions, const real* normals, const real* face_normals,
                    const real* directions) {
        columns(p, positions, first, m), columns(n, normals, first, m), columns(flat, face_normals, first, m), columns(d, directions, first, m);
        const real* own = materials + MATERIAL * (uint64)first;
        for (int k = 0; k < m; ++k)
            albedo[0][k] = own[MATERIAL * k], albedo[1][k] = own[MATERIAL * k + 1], albedo[2][k] = own[MATERIAL * k + 2], two_sided[k] = own[MATERIAL * k + 6];
    }
    // As `sampled_direction` of a diffuse surface.
    GK_FN void draw(const real* x, const real* y, int m) {
        for (int k = 0; k < m; ++k) {
            Turn<real> phi = turned(y[k]);
            real r = sqrt(x[k]);
            drawn[0][k] = r * phi.cosine, drawn[1][k] = r * phi.sine, drawn[2][k] = sqrt(max(real(0), 1 - x[k]));
        }
    }
    GK_FN static void columns(real (*to)[PART], const real* rows, int first, int m) {
        const real* own = rows + 3 * (uint64)first;
        for (int k = 0; k < m; ++k) to[0][k] = own[3 * k], to[1][k] = own[3 * k + 1], to[2][k] = own[3 * k + 2];
    }
    GK_FN static Vec3L at(const real (*columns)[PART], int k) { return {load(columns[0] + k), load(columns[1] + k), load(columns[2] + k)}; }
};
GK_FN Vec3 column(const real (*columns)[PART], int k) { return {columns[0][k], columns[1][k], columns[2][k]}; }
GK_FN void put(real (*columns)[PART], int k, Vec3L a) { store(columns[0] + k, a.x), store(columns[1] + k, a.y), store(columns[2] + k, a.z); }

GK_FN Vec3L normalized_lanes(Vec3L a) {
    const Lanes none = splat(real(0));
    Lanes l = length(a), inverse = 1 / l;
    return select(l > none, inverse * a, Vec3L{none, none, none});
}

// As Lit, LightSample and Arrival.
struct DiffuseLit {
    Vec3L albedo, n, flat, to, wi;
    Lanes side, square, distance, factor, ni;
    uint lit;  // which of them see the light if nothing is in the way
};
GK_FN DiffuseLit diffuse_lit(int kind, const Light& light, const DiffuseHits& hits, int k) {
    const Lanes none = splat(real(0)), one = splat(real(1));
    DiffuseLit s;
    s.albedo = DiffuseHits::at(hits.albedo, k);
    Vec3L wo = -normalized_lanes(DiffuseHits::at(hits.d, k));
    s.flat = DiffuseHits::at(hits.flat, k);
    s.side = select(dot(s.flat, wo) < none, -one, one);
    s.n = s.side * DiffuseHits::at(hits.n, k), s.flat = s.side * s.flat;
    if (kind == CONSTANT) {
        Lanes sign = select(s.n.z >= none, one, -one), a = -1 / (sign + s.n.z), b = s.n.x * s.n.y * a;
        Vec3L local = DiffuseHits::at(hits.drawn, k);
        Vec3L x = {1 + sign * s.n.x * s.n.x * a, sign * b, -sign * s.n.x}, y = {b, sign + s.n.y * s.n.y * a, -s.n.y};
        s.to = s.wi = local.x * x + local.y * y + local.z * s.n;
        s.ni = dot(s.n, s.wi), s.square = s.distance = one;
        Lanes density = s.ni * real(1 / PI);
        s.factor = select(density > none, 1 / density, none);
    } else {
        s.to = splat(light_position(light)) - DiffuseHits::at(hits.p, k);
        s.square = dot(s.to, s.to), s.distance = sqrt(s.square);
        s.wi = (1 / s.distance) * s.to;
        s.ni = dot(s.n, s.wi);
        s.factor = select(s.square > none, 1 / s.square, none);
    }
    s.lit = bits((s.side > none) | (load(hits.two_sided + k) != none)) & bits((s.factor > none) & (dot(s.flat, s.wi) > none) & (s.ni > none));
    return s;
}

// Cotangents of PART hits, those of what arrives given: as `adj_scattered` and `adj_arriving`. Columns of hits that see nothing
// of the light are not to be read.
struct AdjDiffuseHits {
    alignas(64) real adj[3][PART], throughput[3][PART];
    alignas(64) real to_throughput[3][PART], albedo[3][PART], n[3][PART], to[3][PART], power[3][PART];
    uint lit[PART / LANES];

    GK_FN void find(int kind, const Light& light, const DiffuseHits& hits, int m) {
        const Vec3L given = splat(light_power(light));
        const real over_pi = real(1 / PI);
        for (int k = 0; k < m; k += LANES) {
            DiffuseLit s = diffuse_lit(kind, light, hits, k);
            Vec3L arrives = s.factor * given, reflected = (s.ni * over_pi) * s.albedo, seen = DiffuseHits::at(adj, k);
            put(to_throughput, k, product(seen, product(reflected, arrives)));
            seen = product(DiffuseHits::at(throughput, k), seen);
            Vec3L to_bsdf = product(seen, arrives), color = product(seen, reflected);
            Lanes adj_ni = over_pi * dot(s.albedo, to_bsdf);
            put(albedo, k, (s.ni * over_pi) * to_bsdf), put(n, k, s.side * (adj_ni * s.wi));
            put(power, k, s.factor * color);
            lit[k / LANES] = s.lit;
            if (kind == CONSTANT) continue;
            Vec3L adj_wi = adj_ni * s.n;
            Lanes adj_square = -s.factor / s.square * dot(given, color);
            put(to, k, (1 / s.distance) * (adj_wi - dot(s.wi, adj_wi) * s.wi) + (2 * adj_square) * s.to);
        }
    }
};

}  // namespace gk
