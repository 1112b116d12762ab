// Light from an image of the surroundings: latitude by longitude, y up, the middle of the image at -z and +x to the right of it.
#pragma once
#include "../core/rng.h"
#include "../core/vec.h"

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

// A direction, evenly within its texel.
GK_FN Vec3 surrounding_direction(const Surroundings& s, Random2 u) {
    int row = drawn(s.rows, s.height, u.x);
    int column = drawn(s.columns + (uint64)row * s.width, s.width, u.y);
    real top = cos(real(PI) * real(row) / real(s.height)), bottom = cos(real(PI) * real(row + 1) / real(s.height));
    real y = top + u.x * (bottom - top), flat = sqrt(max(real(0), 1 - y * y));
    real angle = real(2 * PI) * ((real(column) + u.y) / real(s.width) - s.turn - real(0.5));
    return {flat * sin(angle), y, -flat * cos(angle)};
}

// Its density per solid angle.
GK_FN real surrounding_density(const Surroundings& s, Vec3 d) {
    Uv at = uv_of(d, s.turn);
    int column = min(max(int((at.u - floor(at.u)) * real(s.width)), 0), s.width - 1);
    int row = min(max(int((1 - at.v) * real(s.height)), 0), s.height - 1);
    real share = real(share_of(s.rows, row) * share_of(s.columns + (uint64)row * s.width, column));
    real middle = real(PI) * (real(row) + real(0.5)) / real(s.height), half = real(0.5 * PI) / real(s.height);
    real angle = 4 * real(PI) / real(s.width) * sin(middle) * sin(half);  // of a texel: the difference of two cosines
    return share / angle;
}

}  // namespace gk
