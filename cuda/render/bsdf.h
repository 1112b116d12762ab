// How a surface scatters light: a diffuse base, glTF's metallic-roughness model above it, and the sampling of directions.
#pragma once
#include "../core/rng.h"
#include "../core/vec.h"

namespace gk {

// One row of the array of materials at hits.
struct Material {
    Vec3 albedo;
    real metallic, roughness;
    real specular;   // 0 for a diffuse surface, 1 for metallic-roughness
    real two_sided;  // 0 if the back is black
};
constexpr int MATERIAL = 7;  // numbers in a row

GK_FN Material material_at(const real* rows, int i) {
    const real* a = rows + MATERIAL * (uint64)i;
    return {{a[0], a[1], a[2]}, a[3], a[4], a[5], a[6]};
}
GK_FN void add_material(real* rows, int i, const Material& m) {
    real* a = rows + MATERIAL * (uint64)i;
    a[0] += m.albedo.x, a[1] += m.albedo.y, a[2] += m.albedo.z, a[3] += m.metallic, a[4] += m.roughness;
}

template <class T> GK_FN Vec<T> product(Vec<T> a, Vec<T> b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
GK_FN real sum(Vec3 a) { return a.x + a.y + a.z; }
GK_FN Vec3 grey(real a) { return {a, a, a}; }
GK_FN real fifth(real a) { return a * a * (a * a) * a; }

constexpr real LEAST_ROUGHNESS = real(0.03);  // below that a highlight is thinner than a float's digits
constexpr real DIELECTRIC = real(0.04);       // reflectance along the normal, of an index of refraction of 1.5
constexpr real LEAST_COSINE = real(1e-4);

// Squared width of the microfacets' slopes. Below LEAST_ROUGHNESS it stays, and so does its derivative.
GK_FN real alpha2(real roughness) {
    real a = max(roughness, LEAST_ROUGHNESS);
    return a * a * (a * a);
}

// GGX, Smith's height-correlated shadowing over 4 cos cos, Schlick's Fresnel term (Walter 2007; Heitz 2014; glTF 2.0, appendix B).
struct Lobe {
    Vec3 half;
    real nh, vh, t, d, v;
};
// nh^2 (a2 - 1) + 1, without the cancellation near a highlight.
GK_FN real facet_root(Vec3 n, Vec3 h, real nh, real a2) {
    Vec3 across = cross(n, h);
    return a2 * nh * nh + dot(across, across);
}
GK_FN real lambda_root(real c, real a2) { return sqrt(c * c * (1 - a2) + a2); }

GK_FN Lobe lobe(Vec3 n, Vec3 wo, Vec3 wi, real no, real ni, real a2) {
    Lobe s;
    s.half = normalized(wo + wi);
    s.nh = dot(n, s.half), s.vh = dot(wo, s.half);
    s.t = facet_root(n, s.half, s.nh, a2);
    s.d = a2 / (real(PI) * s.t * s.t);
    s.v = real(0.5) / (ni * lambda_root(no, a2) + no * lambda_root(ni, a2));
    return s;
}

// The share of light from everywhere that a dielectric's facets reflect towards a cosine, a + b (1 - cosine)^p: a fit to its
// integral, for roughness from LEAST_ROUGHNESS to 1 never below it and on average 0.014 above.
struct Coat {
    real r, a, b, p;
};
GK_FN Coat coat_of(real roughness) {
    real r = max(roughness, LEAST_ROUGHNESS), q = r * r;
    real a = real(0.046) + q * (real(0.0113) * q - real(0.0199));
    real b = real(0.96) / (1 - real(0.1321) * r + q * (real(12.0254) + real(7.3191) * r));
    return {r, a, b, 5 - real(11.4234) * r + q * (real(18.4747) - real(5.4322) * r)};
}
GK_FN real beside(real cosine) { return max(1 - cosine, real(1e-6)); }
GK_FN real coat_power(const Coat& c, real cosine) { return c.b * exp(c.p * log(beside(cosine))); }
GK_FN real coat_mean(const Coat& c) { return c.a + 2 * c.b / ((c.p + 1) * (c.p + 2)); }

// The part of the base that shows through the coat, both ways and between them: coat and white base together reflect no more
// than arrives (Kelemen and Szirmay-Kalos, 2001). glTF's own product with 1 - F makes up to 1.6 of 1.
GK_FN real through_coat(const Coat& c, real no, real ni) {
    return (1 - c.a - coat_power(c, no)) * (1 - c.a - coat_power(c, ni)) / (1 - coat_mean(c));
}
struct AdjCoat {
    real no, ni, r;
};
GK_FN AdjCoat adj_through_coat(const Coat& c, real no, real ni, real adj) {
    real to = coat_power(c, no), ti = coat_power(c, ni), lo = log(beside(no)), li = log(beside(ni));
    real o = 1 - c.a - to, i = 1 - c.a - ti, mean = 1 - coat_mean(c), value = o * i / mean, pp = (c.p + 1) * (c.p + 2);
    real adj_o = -i / mean * adj, adj_i = -o / mean * adj, adj_mean = value / mean * adj;
    real adj_a = adj_o + adj_i + adj_mean;
    real adj_b = (to * adj_o + ti * adj_i) / c.b + 2 / pp * adj_mean;
    real adj_p = lo * to * adj_o + li * ti * adj_i - 2 * c.b * (2 * c.p + 3) / (pp * pp) * adj_mean;
    real r = c.r, q = r * r;
    real by_r = adj_a * r * (real(0.0452) * q - real(0.0398)) -
                adj_b * c.b * c.b / real(0.96) * (real(24.0508) * r + real(21.9573) * q - real(0.1321)) +
                adj_p * (real(36.9494) * r - real(16.2966) * q - real(11.4234));
    return {-c.p * to / beside(no) * adj_o, -c.p * ti / beside(ni) * adj_i, by_r};
}

// Whether a direction is on the side of n that light comes from and is seen from. An interpolated normal may turn away from a
// viewer who sees the face, near every silhouette: what is diffuse is then as bright as ever, for a black rim would be an edge
// that no edge of the mesh follows, and whose motion gradients would miss.
GK_FN bool reflects(const Material& m, Vec3 n, Vec3 wo, Vec3 wi) {
    return dot(n, wi) > 0 && (dot(n, wo) > LEAST_COSINE || m.specular == 0);
}

// The BSDF times the cosine at the light's side. n is the normal on the side of wo.
GK_FN Vec3 scattered(const Material& m, Vec3 n, Vec3 wo, Vec3 wi) {
    real ni = dot(n, wi), no = dot(n, wo);
    if (!reflects(m, n, wo, wi)) return {0, 0, 0};
    const real over_pi = real(1 / PI);
    if (m.specular == 0) return (ni * over_pi) * m.albedo;
    Lobe s = lobe(n, wo, wi, no, ni, alpha2(m.roughness));
    real w = fifth(1 - s.vh);
    Vec3 f0 = grey(DIELECTRIC * (1 - m.metallic)) + m.metallic * m.albedo;
    Vec3 fresnel = f0 + w * (grey(1) - f0);
    real base = (1 - m.metallic) * through_coat(coat_of(m.roughness), no, ni) * over_pi;
    return ni * (base * m.albedo + (s.d * s.v) * fresnel);
}

// Given the cotangent of what `scattered` returns, those of its arguments.
struct AdjScattered {
    Material m;
    Vec3 n, wo, wi;
};
GK_FN AdjScattered adj_scattered(const Material& m, Vec3 n, Vec3 wo, Vec3 wi, Vec3 adj) {
    const Vec3 zero = {0, 0, 0};
    AdjScattered a = {{zero, 0, 0, 0, 0}, zero, zero, zero};
    real ni = dot(n, wi), no = dot(n, wo);
    if (!reflects(m, n, wo, wi)) return a;
    const real over_pi = real(1 / PI);
    real adj_ni = 0, adj_no = 0;
    if (m.specular == 0) {
        a.m.albedo = (ni * over_pi) * adj;
        adj_ni = over_pi * dot(m.albedo, adj);
    } else {
        real a2 = alpha2(m.roughness);
        Lobe s = lobe(n, wo, wi, no, ni, a2);
        real w = fifth(1 - s.vh);
        Vec3 f0 = grey(DIELECTRIC * (1 - m.metallic)) + m.metallic * m.albedo;
        Vec3 fresnel = f0 + w * (grey(1) - f0);
        Coat coat = coat_of(m.roughness);
        real through = through_coat(coat, no, ni), base = (1 - m.metallic) * through * over_pi, dv = s.d * s.v;
        adj_ni = dot(base * m.albedo + dv * fresnel, adj);
        adj = ni * adj;

        real adj_base = dot(m.albedo, adj), adj_dv = dot(fresnel, adj);
        Vec3 adj_fresnel = dv * adj, adj_f0 = (1 - w) * adj_fresnel;
        real adj_w = dot(grey(1) - f0, adj_fresnel);
        a.m.albedo = base * adj + m.metallic * adj_f0;
        a.m.metallic = -adj_base * through * over_pi + dot(m.albedo - grey(DIELECTRIC), adj_f0);
        AdjCoat to_coat = adj_through_coat(coat, no, ni, (1 - m.metallic) * over_pi * adj_base);
        adj_no += to_coat.no, adj_ni += to_coat.ni;

        real u = 1 - s.vh, adj_vh = -5 * u * u * (u * u) * adj_w;
        real adj_d = s.v * adj_dv, adj_v = s.d * adj_dv;
        real adj_t = -2 * s.d / s.t * adj_d;
        real adj_a2 = s.d / a2 * adj_d + s.nh * s.nh * adj_t;
        real adj_nh = 2 * s.nh * (a2 - 1) * adj_t;
        real ro = lambda_root(no, a2), ri = lambda_root(ni, a2);
        real adj_sum = -2 * s.v * s.v * adj_v;
        real adj_ro = ni * adj_sum, adj_ri = no * adj_sum;
        adj_ni += ro * adj_sum + ni * (1 - a2) / ri * adj_ri;
        adj_no += ri * adj_sum + no * (1 - a2) / ro * adj_ro;
        adj_a2 += real(0.5) * ((1 - no * no) / ro * adj_ro + (1 - ni * ni) / ri * adj_ri);
        real r = m.roughness;
        a.m.roughness = r > LEAST_ROUGHNESS ? 4 * r * r * r * adj_a2 + to_coat.r : 0;

        Vec3 adj_half = adj_nh * n + adj_vh * wo;
        Vec3 to_both = adj_normalized(wo + wi, adj_half);
        a.n = adj_nh * s.half;
        a.wo = adj_vh * s.half + to_both;
        a.wi = to_both;
    }
    a.n += adj_ni * wi + adj_no * wo;
    a.wi += adj_ni * n;
    a.wo += adj_no * n;
    return a;
}

// Two directions that make a right-handed frame with n (Duff et al., 2017).
struct Basis {
    Vec3 s, t, n;
};
GK_FN Basis frame_of(Vec3 n) {
    real sign = n.z >= 0 ? real(1) : real(-1);
    real a = -1 / (sign + n.z), b = n.x * n.y * a;
    return {{1 + sign * n.x * n.x * a, sign * b, -sign * n.x}, {b, sign + n.y * n.y * a, -n.y}, n};
}
GK_FN Vec3 from_frame(const Basis& f, Vec3 a) { return a.x * f.s + a.y * f.t + a.z * f.n; }
GK_FN Vec3 to_frame(const Basis& f, Vec3 a) { return {dot(a, f.s), dot(a, f.t), dot(a, f.n)}; }

// Density of the direction that `sampled_direction` draws, per solid angle.
GK_FN real direction_density(const Material& m, Vec3 n, Vec3 wo, Vec3 wi) {
    real ni = dot(n, wi), no = dot(n, wo);
    if (!reflects(m, n, wo, wi)) return 0;
    real cosine = ni * real(1 / PI);
    if (m.specular == 0) return cosine;
    real a2 = alpha2(m.roughness);
    // Visible normals: D G1 / (4 cos), with G1 = 2 cos / (cos + root).
    Lobe s = lobe(n, wo, wi, no, ni, a2);
    return real(0.5) * (cosine + s.d / (2 * (no + lambda_root(no, a2))));
}

// A direction by the cosine, or, half the time for metallic-roughness, by the visible normals of the microfacets (Heitz, 2018).
GK_FN Vec3 sampled_direction(const Material& m, Vec3 n, Vec3 wo, Random2 u) {
    Basis f = frame_of(n);
    bool facet = m.specular != 0 && u.x < real(0.5);
    if (m.specular != 0) u.x = facet ? 2 * u.x : 2 * u.x - 1;
    Turn<real> phi = turned(u.y);
    if (!facet) {
        real r = sqrt(u.x);
        return from_frame(f, {r * phi.cosine, r * phi.sine, sqrt(max(real(0), 1 - u.x))});
    }
    real a = sqrt(alpha2(m.roughness));
    Vec3 v = to_frame(f, wo);
    Vec3 stretched = normalized(Vec3{a * v.x, a * v.y, v.z});
    real flat = stretched.x * stretched.x + stretched.y * stretched.y;
    Vec3 t1 = flat > 0 ? (1 / sqrt(flat)) * Vec3{-stretched.y, stretched.x, 0} : Vec3{1, 0, 0};
    Vec3 t2 = cross(stretched, t1);
    real r = sqrt(u.x), x = r * phi.cosine, y = r * phi.sine, k = real(0.5) * (1 + stretched.z);
    y = (1 - k) * sqrt(max(real(0), 1 - x * x)) + k * y;
    Vec3 h = x * t1 + y * t2 + sqrt(max(real(0), 1 - x * x - y * y)) * stretched;
    h = from_frame(f, normalized(Vec3{a * h.x, a * h.y, max(real(0), h.z)}));
    return 2 * dot(wo, h) * h - wo;
}

}  // namespace gk
