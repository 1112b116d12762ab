// Lights, one sample of each: a direction towards the light, how far it is, and the light that comes from there.
#pragma once
#include "bsdf.h"
#include "environment.h"

namespace gk {

enum LightKind { CONSTANT, POINT, DIRECTIONAL, SPOT, AREA, PATCH, ENVIRONMENT };

// One light, taken by value. What the numbers mean depends on the kind.
struct Light {
    const int* faces;            // area: the faces that emit
    const double* distribution;  // area: the running sum of the faces' shares, the last is 1; environment: see Surroundings
    double x;                    // position; directional: the direction light travels in; environment: the turn of its image;
                                 // area: 1 if directions drawn by the surface are followed to it as well
    double y;
    double z;
    double nx;  // spot: its axis; patch: its normal
    double ny;
    double nz;
    double r;  // radiance of constant, area and patch; intensity of point and spot; irradiance of directional
    double g;
    double b;
    double inner;   // spot: cosines of the cone that is fully lit and of that beyond which it is dark; area: its whole area
    double outer;
    double count;   // area: number of faces; environment: columns of its image
    double sides;   // area, patch: 2 if both sides emit; environment: rows of its image
};

// Where a sample of a light is: what a ray to it needs, and what stays fixed when things move.
struct LightSample {
    Vec3 to;       // from the surface to the light; of length one for lights without a place
    real share;    // 1 over the density of what was drawn
    int face;      // area: the face
    Vec3 weights;  // area: barycentric
};

GK_FN Vec3 light_position(const Light& l) { return {real(l.x), real(l.y), real(l.z)}; }
GK_FN Vec3 light_axis(const Light& l) { return {real(l.nx), real(l.ny), real(l.nz)}; }
GK_FN Vec3 light_power(const Light& l) { return {real(l.r), real(l.g), real(l.b)}; }

// Corners of an emitting face.
struct Corners {
    Vec3 a, b, c;
};
GK_FN Corners corners_of(const real* vertices, const int* faces, int f) {
    const int* at = faces + 3 * (uint64)f;
    return {row(vertices, at[0]), row(vertices, at[1]), row(vertices, at[2])};
}

// A point of an area light: the face by its share, the rest of that number again uniform.
struct FacePoint {
    int face;
    real share;  // of the face
    Vec3 weights;
};
GK_FN FacePoint drawn_face(const Light& l, Random2 u) {
    int k = drawn(l.distribution, int(l.count), u.x);
    real root = sqrt(u.x);
    return {l.faces[k], real(share_of(l.distribution, k)), {1 - root, root * (1 - u.y), root * u.y}};
}

// The vector of a face's area, and how much of it faces a direction that arrives there.
GK_FN Vec3 area_of(const Corners& c) { return real(0.5) * cross(c.b - c.a, c.c - c.a); }
GK_FN real facing_of(const Light& l, Vec3 area, Vec3 wi) {
    real facing = -dot(wi, area);
    return max(l.sides == 2 ? abs(facing) : facing, real(0));
}

// A point of an area light, drawn with the share of its face, or found by a direction that the surface drew: 1 over the sum of
// both densities, the face's area being one (Veach and Guibas, 1995: the balance heuristic).
GK_FN LightSample point_of_light(const Light& l, const real* vertices, const int* faces, int face, real share, Vec3 weights,
                                 const Material& m, Vec3 p, Vec3 n, Vec3 wo) {
    Corners c = corners_of(vertices, faces, face);
    LightSample s = {weights.x * c.a + weights.y * c.b + weights.z * c.c - p, 1 / share, face, weights};
    real square = dot(s.to, s.to);
    if (l.x != 0 && square > 0) {
        Vec3 wi = (1 / sqrt(square)) * s.to;
        s.share = 1 / (share + direction_density(m, n, wo, wi) * facing_of(l, area_of(c), wi) / square);
    }
    return s;
}
GK_FN LightSample met_light(const Light& l, const real* vertices, const int* faces, int face, real u, real v, const Material& m,
                            Vec3 p, Vec3 n, Vec3 wo) {
    if (face < 0) return {{0, 0, 1}, 0, -1, {0, 0, 0}};
    real share = length(area_of(corners_of(vertices, faces, face))) / real(l.inner);
    if (!(share > 0)) return {{0, 0, 1}, 0, -1, {0, 0, 0}};
    return point_of_light(l, vertices, faces, face, share, {1 - u - v, u, v}, m, p, n, wo);
}

GK_FN Surroundings surroundings_of(const Light& l) {
    return {l.distribution, l.distribution + int(l.sides), int(l.count), int(l.sides), real(l.x)};
}

// Whether samples of a light differ.
GK_FN bool is_drawn(int kind) { return kind == CONSTANT || kind == AREA || kind == ENVIRONMENT; }

GK_FN LightSample sampled_light(int kind, const Light& l, const real* vertices, const int* faces, const Material& m, Vec3 p, Vec3 n,
                                Vec3 wo, Random2 u) {
    LightSample s = {{0, 0, 1}, 1, -1, {0, 0, 0}};
    if (kind == CONSTANT) {
        s.to = sampled_direction(m, n, wo, u);
        real density = direction_density(m, n, wo, s.to);
        s.share = density > 0 ? 1 / density : 0;
    } else if (kind == ENVIRONMENT) {
        // Half of the directions by the surface, half by the image, both by the balance heuristic (Veach and Guibas, 1995).
        Surroundings all = surroundings_of(l);
        bool by_surface = u.x < real(0.5);
        u.x = by_surface ? 2 * u.x : 2 * u.x - 1;
        s.to = by_surface ? sampled_direction(m, n, wo, u) : surrounding_direction(all, u);
        real density = real(0.5) * (direction_density(m, n, wo, s.to) + surrounding_density(all, s.to));
        s.share = density > 0 ? 1 / density : 0;
    } else if (kind == DIRECTIONAL) {
        s.to = -light_position(l);
    } else if (kind == AREA) {
        FacePoint drawn = drawn_face(l, u);
        s = point_of_light(l, vertices, faces, drawn.face, drawn.share, drawn.weights, m, p, n, wo);
    } else {
        s.to = light_position(l) - p;
    }
    return s;
}

// What arrives: radiance times solid angle, or the like, over the density: factor times the light's power.
struct Arrival {
    Vec3 wi;
    real factor;
};
GK_FN real cone(const Light& l, Vec3 wi) {
    real t = (-dot(wi, light_axis(l)) - real(l.outer)) / real(l.inner - l.outer);
    t = min(max(t, real(0)), real(1));
    return t * t;
}
GK_FN Arrival arriving(int kind, const Light& l, const real* vertices, const int* faces, const LightSample& s) {
    if (kind == CONSTANT || kind == ENVIRONMENT) return {s.to, s.share};
    if (kind == DIRECTIONAL) return {s.to, 1};
    real square = dot(s.to, s.to);
    if (!(square > 0)) return {{0, 0, 1}, 0};
    real distance = sqrt(square);
    Vec3 wi = (1 / distance) * s.to;
    if (kind == POINT) return {wi, 1 / square};
    if (kind == SPOT) return {wi, cone(l, wi) / square};
    if (kind == AREA && s.face < 0) return {wi, 0};
    Vec3 area = kind == AREA ? area_of(corners_of(vertices, faces, s.face)) : light_axis(l);  // a patch's normal is as long as its area
    return {wi, s.share * facing_of(l, area, wi) / square};
}

// Given cotangents of an arrival: those of the vector to the light, of the light, and of an emitting face's corners.
struct AdjArrival {
    Vec3 to, power, axis;
    Corners corners;
};
GK_FN AdjArrival adj_arriving(int kind, const Light& l, const real* vertices, const int* faces, const LightSample& s, Vec3 adj_wi,
                              Vec3 adj_color) {
    const Vec3 zero = {0, 0, 0};
    AdjArrival a = {zero, zero, zero, {zero, zero, zero}};
    Vec3 power = light_power(l);
    if (kind == CONSTANT || kind == ENVIRONMENT || kind == DIRECTIONAL) {
        a.power = s.share * adj_color;
        // A direction that was drawn stays what it is.
        if (kind == DIRECTIONAL) a.to = adj_wi;
        return a;
    }
    real square = dot(s.to, s.to);
    if (!(square > 0)) return a;
    real distance = sqrt(square);
    Vec3 wi = (1 / distance) * s.to;
    real factor, adj_factor = dot(power, adj_color), adj_square = 0;
    if (kind == POINT) {
        factor = 1 / square;
        adj_square = -factor / square * adj_factor;
    } else if (kind == SPOT) {
        real k = cone(l, wi);
        factor = k / square;
        adj_square = -factor / square * adj_factor;
        real adj_k = adj_factor / square, width = real(l.inner - l.outer);
        if (k > 0 && k < 1) {
            real adj_cosine = 2 * sqrt(k) / width * adj_k;
            adj_wi += -adj_cosine * light_axis(l);
            a.axis = -adj_cosine * wi;
        }
    } else {
        Vec3 area = light_axis(l);
        Corners c = {zero, zero, zero};
        if (kind == AREA) {
            c = corners_of(vertices, faces, s.face);
            area = area_of(c);
        }
        real facing = -dot(wi, area), sign = l.sides == 2 && facing < 0 ? real(-1) : real(1);
        facing = max(sign * facing, real(0));
        factor = s.share * facing / square;
        adj_square = -factor / square * adj_factor;
        if (facing > 0) {
            real adj_facing = -sign * s.share / square * adj_factor;
            adj_wi += adj_facing * area;
            Vec3 adj_area = adj_facing * wi;
            if (kind == AREA) {
                Vec3 e1 = c.b - c.a, e2 = c.c - c.a, half = real(0.5) * adj_area;
                Vec3 adj_e1 = cross(e2, half), adj_e2 = cross(half, e1);
                a.corners = {-(adj_e1 + adj_e2), adj_e1, adj_e2};
            } else {
                a.axis = adj_area;
            }
        }
    }
    a.power = factor * adj_color;
    a.to = (1 / distance) * (adj_wi - dot(wi, adj_wi) * wi) + (2 * adj_square) * s.to;
    if (kind == AREA) {
        a.corners.a += s.weights.x * a.to, a.corners.b += s.weights.y * a.to, a.corners.c += s.weights.z * a.to;
    }
    return a;
}

}  // namespace gk
