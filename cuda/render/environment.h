// Light from an image of the surroundings: latitude by longitude, y up, the middle of the image at -z and +x to the right of it.
#pragma once
#include "../core/rng.h"
#include "texture.h"

namespace gk {

// How directions are drawn: a row by `rows`, the running sum of the shares of H rows, then a column by that of its row.
struct Surroundings {
    const double* rows;
    const double* columns;
    int width, height;
    real turn;  // by which u of the image is more than that of the direction
};

// The first entry of a running sum above x; x becomes how far it is between that and the one before.
GK_FN int drawn(const double* sums, int count, real& x) {
    int low = 0, high = count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (x < real(sums[middle])) high = middle; else low = middle + 1;
    }
    real before = low > 0 ? real(sums[low - 1]) : 0, share = real(sums[low]) - before;
    x = share > 0 ? min(max((x - before) / share, real(0)), real(1)) : real(0.5);
    return low;
}
GK_FN double share_of(const double* sums, int k) { return sums[k] - (k > 0 ? sums[k - 1] : 0); }

// The image's coordinates of a direction; u is not brought back into [0, 1].
struct Uv {
    real u, v;
};
GK_FN Uv uv_of(Vec3 d, real turn) {
    const real over_pi = real(1 / PI);
    real flat = sqrt(d.x * d.x + d.z * d.z);
    return {real(0.5) + real(0.5) * over_pi * real(atan2(d.x, -d.z)) + turn, real(0.5) + over_pi * real(atan2(d.y, flat))};
}
// Given cotangents of the coordinates, that of the direction; zero straight up and down, where u has none.
GK_FN Vec3 adj_uv_of(Vec3 d, real adj_u, real adj_v) {
    const real over_pi = real(1 / PI);
    real square = d.x * d.x + d.z * d.z, flat = sqrt(square);
    if (!(square > 0)) return {0, 0, 0};
    real a = real(0.5) * over_pi * adj_u / square, b = over_pi * adj_v / (square + d.y * d.y);
    return {-a * d.z - b * d.y * d.x / flat, b * flat, a * d.x - b * d.y * d.z / flat};
}

// How far from a texel's centre, in texels: by a tent, so that drawing texels by their shares draws by what is between them too.
GK_FN real tent(real u) { return u < real(0.5) ? sqrt(2 * u) - 1 : 1 - sqrt(2 * (1 - u)); }

GK_FN Vec3 surrounding_direction(const Surroundings& s, Random2 u) {
    int row = drawn(s.rows, s.height, u.x);
    int column = drawn(s.columns + (uint64)row * s.width, s.width, u.y);
    real y = real(row) + real(0.5) + tent(u.x), x = real(column) + real(0.5) + tent(u.y), height = real(s.height);
    // Beyond a pole is the texel before it.
    y = y < 0 ? -y : y > height ? 2 * height - y : y;
    real angle = real(PI) * y / height, around = real(2 * PI) * (x / real(s.width) - s.turn - real(0.5)), flat = sin(angle);
    return {flat * sin(around), cos(angle), -flat * cos(around)};
}

// Its density per solid angle.
GK_FN real surrounding_density(const Surroundings& s, Vec3 d) {
    Uv at = uv_of(d, s.turn);
    Between u = between(at.u, s.width, REPEAT), v = between(1 - at.v, s.height, CLAMP);
    const double *low = s.columns + (uint64)v.low * s.width, *high = s.columns + (uint64)v.high * s.width;
    real top = real(share_of(s.rows, v.low)) * ((1 - u.t) * real(share_of(low, u.low)) + u.t * real(share_of(low, u.high)));
    real bottom = real(share_of(s.rows, v.high)) * ((1 - u.t) * real(share_of(high, u.low)) + u.t * real(share_of(high, u.high)));
    real flat = max(sqrt(d.x * d.x + d.z * d.z), real(1e-6));
    return (top + v.t * (bottom - top)) * real(s.width) * real(s.height) / (real(2 * PI * PI) * flat);
}

}  // namespace gk
