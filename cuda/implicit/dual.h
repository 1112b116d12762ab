// Dual surfaces: a vertex in each cell that the surface passes, and a quad around each edge that it crosses.
#pragma once
#include "grid.h"

namespace gk {

// The vertices on the crossed edges of a row's cells, as marching cubes numbers them.
struct EdgeNumbers {
    int z[4], y[2], x[2];

    // first[3 row ...] are the numbers of the first vertices along z, y and x of each row.
    GK_FN static EdgeNumbers at(const int* first, const Signs& s, int i, int j) {
        const int* own = first + 3 * ((uint64)i * s.ny + j);
        const int *above = own + 3, *beyond = own + 3 * (uint64)s.ny, *across = beyond + 3;
        return {{own[0], above[0], beyond[0], across[0]}, {own[1], beyond[1]}, {own[2], above[2]}};
    }
    // The crossed edges of cell k of a stretch: their vertices, and which of the twelve edges they are on.
    GK_FN int of_cell(const Stretch& s, int k, int* id) const {
        uint below = (1u << k) - 1;
        int n = 0;
        for (int e = 0; e < 4; ++e)
            if (s.z[e] >> k & 1) id[n++] = z[e] + count_bits(s.z[e] & below);
        for (int e = 0; e < 2; ++e) {
            int from = y[e] + count_bits(s.y[e] & below), here = s.y[e] >> k & 1;
            if (here) id[n++] = from;
            if ((s.sign[2 * e] ^ s.sign[2 * e + 1]) >> (k + 1) & 1) id[n++] = from + here;
        }
        for (int e = 0; e < 2; ++e) {
            int from = x[e] + count_bits(s.x[e] & below), here = s.x[e] >> k & 1;
            if (here) id[n++] = from;
            if ((s.sign[e] ^ s.sign[e + 2]) >> (k + 1) & 1) id[n++] = from + here;
        }
        return n;
    }
    GK_FN void advance(const Stretch& s) {
        for (int e = 0; e < 4; ++e) z[e] += count_bits(s.z[e]);
        for (int e = 0; e < 2; ++e) y[e] += count_bits(s.y[e]), x[e] += count_bits(s.x[e]);
    }
};

// The edges of row (i, j) that are crossed and have four cells around them.
struct Quads {
    uint z, y, x;
};
GK_FN Quads quads_of(const Signs& s, int i, int j, int w) {
    uint64 a = s.window(i, j, w);
    bool up = j + 1 < s.ny, on = i + 1 < s.nx, inner_i = i > 0 && on, inner_j = j > 0 && up;
    uint inner = first_bits(s.nz - 1 - 32 * w);
    if (w == 0) inner &= ~1u;
    Quads q = {};
    if (inner_i && inner_j) q.z = s.cross_z(i, j, w, a);
    if (inner_i && up) q.y = s.cross_y(i, j, w, a, s.window(i, j + 1, w)) & inner;
    if (inner_j && on) q.x = s.cross_x(i, j, w, a, s.window(i + 1, j, w)) & inner;
    if (s.use_live && (q.z | q.y | q.x)) {
        uint back = s.live_word(i - 1, j, w), down = s.live_word(i, j - 1, w), here = s.live_word(i, j, w);
        uint before = here << 1 | s.live_word(i, j, w - 1) >> 31;
        q.z &= here & back & down & s.live_word(i - 1, j - 1, w);
        q.y &= here & back & before & (back << 1 | s.live_word(i - 1, j, w - 1) >> 31);
        q.x &= here & down & before & (down << 1 | s.live_word(i, j - 1, w - 1) >> 31);
    }
    return q;
}

// Of n points with normals: the point that minimises the squared distances to their planes, and, weighted by `weight`, the
// squared distances to the points' mean. With weight < 0 the mean itself.
//
// Normals count in a unit of their own, so that no square leaves the range of the numbers.
struct Feature {
    Vec3d mean, offset;  // the point is mean + offset
    double unit;         // of the normals, as large as the largest component
    double xx, yy, zz, yx, zx, zy;  // the matrix is L D L^T: 1 / D, and L under its diagonal

    GK_FN Vec3d solve(Vec3d b) const {
        b.y -= yx * b.x;
        b.z -= zx * b.x + zy * b.y;
        b = {xx * b.x, yy * b.y, zz * b.z};
        b.y -= zy * b.z;
        b.x -= yx * b.y + zx * b.z;
        return b;
    }
    GK_FN Vec3d normal(const real* normals, int i) const { return (1 / unit) * to_double(row(normals, i)); }
};

// The pull towards the mean is at least so much of the largest normal's: less drowns in the rounding of the matrix.
constexpr double LEAST_PULL = 1e-9;

GK_FN Feature find_feature(const real* points, const real* normals, const int* id, int n, double weight) {
    Feature f = {};
    for (int e = 0; e < n; ++e) f.mean += to_double(row(points, id[e]));
    f.mean = (1.0 / n) * f.mean;
    if (weight < 0) return f;
    f.unit = sqrt(weight);
    for (int e = 0; e < n; ++e) {
        Vec3 m = row(normals, id[e]);
        f.unit = max(f.unit, double(max(max(abs(m.x), abs(m.y)), abs(m.z))));
    }
    double pull = n * max(weight / f.unit / f.unit, LEAST_PULL);
    double a = pull, b = 0, c = 0, d = pull, e = 0, g = pull;  // the matrix: a b c, b d e, c e g
    Vec3d right = {0, 0, 0};
    for (int k = 0; k < n; ++k) {
        Vec3d m = f.normal(normals, id[k]), p = to_double(row(points, id[k])) - f.mean;
        a += m.x * m.x, b += m.x * m.y, c += m.x * m.z, d += m.y * m.y, e += m.y * m.z, g += m.z * m.z;
        right += dot(m, p) * m;
    }
    f.xx = 1 / a, f.yx = f.xx * b, f.zx = f.xx * c;
    f.yy = 1 / (d - f.yx * b), e -= f.yx * c, f.zy = f.yy * e;
    f.zz = 1 / (g - f.zx * c - f.zy * e);
    f.offset = f.solve(right);
    return f;
}

}  // namespace gk
