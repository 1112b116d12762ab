// Marching cubes, and its adjoint. Every item works on rows of samples by itself, so no result depends on the threads.
#include "../../implicit/grid.h"
#include "../../implicit/trilinear.h"

namespace gk {

// The eight samples around a cell less the level.
GK_FN void load_cell(const Grid& grid, int i, int j, int k, real* f) {
    for (int c = 0; c < 8; ++c) f[c] = grid.at(i + (c >> 2), j + (c >> 1 & 1), k + (c & 1)) - grid.level;
}

// Each item is a row. Its crossed edges along z, y and x go to vertices[3 row + 1 ...], its triangles to triangles[row + 1].
// topology is 0 for the table's, 1 for the trilinear interpolant's, -1 for no triangles.
GK_KERNEL count_rows(int n, const real* samples, int nx, int ny, int nz, int pad, real level, int topology,
                     const uint* words, const uint* live, int use_live, int* vertices, uint64* triangles) {
    Grid grid = {samples, nx, ny, nz, pad, level};
    Signs signs = {words, live, use_live, grid.rows_x(), grid.rows_y(), grid.length(), grid.words()};
    GK_EACH(row, n) {
        int i = row / signs.ny, j = row - i * signs.ny, z = 0, y = 0, x = 0, t = 0;
        for (int w = is_uniform(signs, i, j) ? signs.n : 0; w < signs.n; ++w) {
            Stretch s = stretch(signs, i, j, w);
            if (s.empty) continue;
            z += count_bits(s.z[0]);
            y += count_bits(s.y[0]);
            x += count_bits(s.x[0]);
            for (uint rest = topology < 0 ? 0 : s.cells; rest; rest &= rest - 1) {
                int k = lowest_bit(rest), code = s.code(k);
                uint64 entry = CELLS.triangles[code];
                if (topology > 0 && entry >> 63) {
                    real f[8];
                    load_cell(grid, i, j, 32 * w + k, f);
                    t += count_trilinear(code, f);
                } else {
                    t += int(entry >> 60) & 7;
                }
            }
        }
        int* v = vertices + 3 * (uint64)row + 1;
        v[0] = z, v[1] = y, v[2] = x;
        triangles[(uint64)row + 1] = t;
    }
}

// Each item is a row: its vertices, and the triangles of the cells between it and the next. first_vertex[3 row ...] are the
// numbers of its first vertices along z, y and x, first_triangle[row] that of its first triangle. topology as above.
GK_KERNEL marching_cubes_fwd(int n, const real* samples, int nx, int ny, int nz, int pad, real level, int topology,
                             double sx, double sy, double sz, double ox, double oy, double oz, const uint* words,
                             const uint* live, int use_live, const int* first_vertex, const uint64* first_triangle,
                             real* vertices, int* faces) {
    Grid grid = {samples, nx, ny, nz, pad, level};
    Signs signs = {words, live, use_live, grid.rows_x(), grid.rows_y(), grid.length(), grid.words()};
    Frame frame = {sx, sy, sz, ox, oy, oz};
    GK_EACH(row, n) {
        int i = row / signs.ny, j = row - i * signs.ny;
        const int* own = first_vertex + 3 * (uint64)row;
        if (own[3] == own[0] && first_triangle[row + 1] == first_triangle[row]) continue;
        bool last_y = j + 1 == signs.ny, last_x = i + 1 == signs.nx, cells = topology >= 0 && !last_x && !last_y;
        const int* above = cells ? own + 3 : own;
        const int* beyond = cells ? own + 3 * (uint64)signs.ny : own;
        const int* across = cells ? beyond + 3 : own;
        // The next vertex of each kind: along z of the four rows, along y of rows i and i + 1, along x of rows j and j + 1.
        int z[4] = {own[0], above[0], beyond[0], across[0]}, y[2] = {own[1], beyond[1]}, x[2] = {own[2], above[2]};
        const real *here = grid.row(i, j), *next_y = grid.row(i, j + 1), *next_x = grid.row(i + 1, j);
        const real *soon_y = grid.row(i, j + 3), *soon_x = grid.row(i + 1, j + 2);
        double pi = i - pad, pj = j - pad;
        real px = frame.x(pi), py = frame.y(pj);
        int* out = faces + 3 * first_triangle[row];
        for (int w = 0; w < signs.n; ++w) {
            Stretch s = stretch(signs, i, j, w);
            if (s.empty) continue;
            int at = z[0], begin = 32 * w;
            if (soon_y) prefetch_stretch(soon_y + begin);
            if (soon_x) prefetch_stretch(soon_x + begin);
            for (uint rest = s.z[0]; rest; rest &= rest - 1) {
                int k = begin + lowest_bit(rest);
                real t = crossing(grid.at(here, k), grid.at(here, k + 1), level);
                set_row(vertices, at++, {px, py, frame.z(k - pad + double(t))});
            }
            at = y[0];
            for (uint rest = s.y[0]; rest; rest &= rest - 1) {
                int k = begin + lowest_bit(rest);
                real t = crossing(grid.at(here, k), grid.at(next_y, k), level);
                set_row(vertices, at++, {px, frame.y(pj + double(t)), frame.z(k - pad)});
            }
            at = x[0];
            for (uint rest = s.x[0]; rest; rest &= rest - 1) {
                int k = begin + lowest_bit(rest);
                real t = crossing(grid.at(here, k), grid.at(next_x, k), level);
                set_row(vertices, at++, {frame.x(pi + double(t)), py, frame.z(k - pad)});
            }
            if (cells) {
                for (uint rest = s.cells; rest; rest &= rest - 1) {
                    int k = lowest_bit(rest), code = s.code(k), id[12];
                    uint below = (1u << k) - 1;
                    for (int e = 0; e < 4; ++e) id[e] = z[e] + count_bits(s.z[e] & below);
                    for (int e = 0; e < 2; ++e) {
                        id[4 + 2 * e] = y[e] + count_bits(s.y[e] & below);
                        id[5 + 2 * e] = id[4 + 2 * e] + int(s.y[e] >> k & 1);
                        id[8 + 2 * e] = x[e] + count_bits(s.x[e] & below);
                        id[9 + 2 * e] = id[8 + 2 * e] + int(s.x[e] >> k & 1);
                    }
                    uint64 entry = CELLS.triangles[code];
                    if (topology > 0 && entry >> 63) {
                        real f[8];
                        int edges[36];
                        load_cell(grid, i, j, begin + k, f);
                        int m = 3 * trilinear_triangles(code, f, edges);
                        for (int e = 0; e < m; ++e) *out++ = id[edges[e]];
                    } else {
                        for (int m = int(entry >> 60) & 7; m > 0; --m, entry >>= 12, out += 3) {
                            out[0] = id[entry & 15], out[1] = id[entry >> 4 & 15], out[2] = id[entry >> 8 & 15];
                        }
                    }
                }
                for (int e = 1; e < 4; ++e) z[e] += count_bits(s.z[e]);
                y[1] += count_bits(s.y[1]);
                x[1] += count_bits(s.x[1]);
            }
            z[0] += count_bits(s.z[0]);
            y[0] += count_bits(s.y[0]);
            x[0] += count_bits(s.x[0]);
        }
    }
}

// Cotangents of the samples at the lower and upper end of an edge, for the vertex on it; that of the level is -(a + b).
struct EdgeGradient {
    real t, a, b;
};

// The slope of the samples along an axis, of central differences where both neighbours are numbers.
GK_FN real slope(const Grid& grid, int i, int j, int k, int axis, real h) {
    int at = axis == 0 ? i : axis == 1 ? j : k, last = (axis == 0 ? grid.nx : axis == 1 ? grid.ny : grid.nz) - 1;
    if (!grid.pad && at > 0 && at < last) {
        const real* p = grid.samples + ((uint64)i * grid.ny + j) * grid.nz + k;
        uint64 stride = axis == 0 ? (uint64)grid.ny * grid.nz : axis == 1 ? grid.nz : 1;
        real d = p[stride] - *(p - stride);
        if (abs(d) < INFINITE) return real(0.5) * d / h;
    }
    int di = axis == 0, dj = axis == 1, dk = axis == 2;
    real here = grid.at(i, j, k), before = grid.at(i - di, j - dj, k - dk), after = grid.at(i + di, j + dj, k + dk);
    bool low = abs(before) < INFINITE, high = abs(after) < INFINITE;
    if (!low && !high) return 0;
    return ((high ? after : here) - (low ? before : here)) / (low && high ? 2 * h : h);
}

// The adjoint of crossing() on the edge that starts at (i, j, k). Where the ends differ by less than their own rounding, the
// derivative is that of a difference as large as the rounding: it stays finite. Padding and infinite samples get none. Where the
// level does not lie between the ends, the vertex is of another field: t is NaN, which the sums show.
template <bool NORMAL>
GK_FN EdgeGradient adj_crossing(const Grid& grid, Vec3 h, int axis, int i, int j, int k, real a, real b, Vec3 adj) {
    real d = b - a, largest = max(abs(a), abs(b)), least = EPSILON * largest + TINY;
    if (!(largest < INFINITE && abs(d) < INFINITE)) return {crossing(a, b, grid.level), 0, 0};
    real t = (a < grid.level) != (b < grid.level) ? (grid.level - a) / d : real(double_of(0x7ff8ull << 48));
    if (abs(d) < least) d = d < 0 ? -least : least;
    real c;
    if constexpr (NORMAL) {
        // The vertex moves along the field's gradient by what the field changes over the gradient's length.
        int ei = i + (axis == 0), ej = j + (axis == 1), ek = k + (axis == 2);
        Vec3 g;
        g.x = axis == 0 ? d / h.x : (1 - t) * slope(grid, i, j, k, 0, h.x) + t * slope(grid, ei, ej, ek, 0, h.x);
        g.y = axis == 1 ? d / h.y : (1 - t) * slope(grid, i, j, k, 1, h.y) + t * slope(grid, ei, ej, ek, 1, h.y);
        g.z = axis == 2 ? d / h.z : (1 - t) * slope(grid, i, j, k, 2, h.z) + t * slope(grid, ei, ej, ek, 2, h.z);
        real size = max(max(abs(g.x), abs(g.y)), abs(g.z));
        Vec3 unit = (1 / size) * g;
        c = dot(unit, adj) / (size * dot(unit, unit));
    } else {
        c = (axis == 0 ? h.x * adj.x : axis == 1 ? h.y * adj.y : h.z * adj.z) / d;
    }
    return {t, -(1 - t) * c, -t * c};
}

// Cotangents of the level, the spacing (3) and the origin (3), summed in double.
struct Sums {
    double level, x, y, z, ox, oy, oz;
};

// What a block of rows needs for its share of the gradient.
struct Gather {
    Grid grid;
    Signs signs;
    Vec3 h;
    const int* first_vertex;
    const real* adj_vertices;
    real* adj_samples;

    GK_FN real* out(const real* row) const { return row ? adj_samples + (row - grid.samples) - grid.pad : nullptr; }
};

// Adds what the vertices on the edges from row (i, j) to the target, the next row along the axis, send there.
template <bool NORMAL> GK_FN void gather_from(const Gather& g, int i, int j, int axis, const real* target) {
    const Signs& s = g.signs;
    real* out = g.out(target);
    const int* first = g.first_vertex + 3 * ((uint64)i * s.ny + j) + 2 - axis;
    if (!out || first[0] == first[1]) return;
    int at = first[0];
    const real* from = g.grid.row(i, j);
    for (int w = 0; w < s.n; ++w) {
        uint64 here = s.window(i, j, w), there = s.window(i + (axis == 0), j + (axis == 1), w);
        for (uint rest = axis ? s.cross_y(i, j, w, here, there) : s.cross_x(i, j, w, here, there); rest; rest &= rest - 1) {
            int k = 32 * w + lowest_bit(rest);
            Vec3 adj = row(g.adj_vertices, at++);
            out[k] += adj_crossing<NORMAL>(g.grid, g.h, axis, i, j, k, g.grid.at(from, k), g.grid.at(target, k), adj).b;
        }
    }
}

// Adds what the vertices of row (i, j) send to its own samples, and to those of the next rows where `to_y` and `to_x`.
template <bool NORMAL> GK_FN void scatter_row(const Gather& g, int i, int j, bool to_y, bool to_x, Sums& sums) {
    const Grid& grid = g.grid;
    const Signs& s = g.signs;
    const int* first = g.first_vertex + 3 * ((uint64)i * s.ny + j);
    if (first[3] == first[0]) return;
    int z_at = first[0], y_at = first[1], x_at = first[2], di = i + 1 < s.nx, dj = j + 1 < s.ny;
    const real *here = grid.row(i, j), *next_y = grid.row(i, j + 1), *next_x = grid.row(i + 1, j);
    const real *soon_y = grid.row(i, j + 3), *soon_x = grid.row(i + 1, j + 2);
    real *out = g.out(here), *out_y = to_y ? g.out(next_y) : nullptr, *out_x = to_x ? g.out(next_x) : nullptr;
    double level = 0, vx = 0, vy = 0, vz = 0, tx = 0, ty = 0, tz = 0;
    for (int w = 0; w < s.n; ++w) {
        uint64 sign = s.window(i, j, w);
        uint z = s.cross_z(i, j, w, sign), y = s.cross_y(i, j, w, sign, s.window(i, j + dj, w));
        uint x = s.cross_x(i, j, w, sign, s.window(i + di, j, w));
        if (!(z | y | x)) continue;
        int begin = 32 * w;
        if (soon_y) prefetch_stretch(soon_y + begin);
        if (soon_x) prefetch_stretch(soon_x + begin);
        if (soon_x) prefetch_stretch(g.out(soon_x) + begin);
        for (uint rest = z; rest; rest &= rest - 1) {
            int k = begin + lowest_bit(rest);
            Vec3 v = row(g.adj_vertices, z_at++);
            EdgeGradient r = adj_crossing<NORMAL>(grid, g.h, 2, i, j, k, grid.at(here, k), grid.at(here, k + 1), v);
            vx += v.x, vy += v.y, vz += v.z, tz += (k - grid.pad + double(r.t)) * v.z, level -= r.a + r.b;
            if (out && k >= grid.pad) out[k] += r.a;
            if (out && k + 1 - grid.pad < grid.nz) out[k + 1] += r.b;
        }
        for (uint rest = y; rest; rest &= rest - 1) {
            int k = begin + lowest_bit(rest);
            Vec3 v = row(g.adj_vertices, y_at++);
            EdgeGradient r = adj_crossing<NORMAL>(grid, g.h, 1, i, j, k, grid.at(here, k), grid.at(next_y, k), v);
            vx += v.x, vy += v.y, vz += v.z, tz += double(k - grid.pad) * v.z, ty += r.t * v.y, level -= r.a + r.b;
            if (out) out[k] += r.a;
            if (out_y) out_y[k] += r.b;
        }
        for (uint rest = x; rest; rest &= rest - 1) {
            int k = begin + lowest_bit(rest);
            Vec3 v = row(g.adj_vertices, x_at++);
            EdgeGradient r = adj_crossing<NORMAL>(grid, g.h, 0, i, j, k, grid.at(here, k), grid.at(next_x, k), v);
            vx += v.x, vy += v.y, vz += v.z, tz += double(k - grid.pad) * v.z, tx += r.t * v.x, level -= r.a + r.b;
            if (out) out[k] += r.a;
            if (out_x) out_x[k] += r.b;
        }
    }
    sums.level += level, sums.ox += vx, sums.oy += vy, sums.oz += vz;
    sums.x += vx * (i - grid.pad) + tx, sums.y += vy * (j - grid.pad) + ty, sums.z += tz;
}

// Each item is a block of `each` rows out of `rows`. Contributions reach a sample in one order, whatever the blocks: from the
// edge along x that ends there, along y, then those of its own row. Within a block a row hands them on to the next rows; the
// first rows of a block fetch them. adj_samples must be zero; sums is (n, 7): level, spacing, origin.
GK_KERNEL marching_cubes_adj(int n, int each, int rows, const real* samples, int nx, int ny, int nz, int pad, real level,
                             double sx, double sy, double sz, const uint* words, const uint* live, int use_live,
                             const int* first_vertex, int normal, const real* adj_vertices, real* adj_samples, double* sums) {
    Grid grid = {samples, nx, ny, nz, pad, level};
    Signs signs = {words, live, use_live, grid.rows_x(), grid.rows_y(), grid.length(), grid.words()};
    Gather g = {grid, signs, {real(sx), real(sy), real(sz)}, first_vertex, adj_vertices, adj_samples};
    GK_EACH(item, n) {
        Sums total = {};
        int begin = item * each, end = min(begin + each, rows);
        for (int row = begin; row < end; ++row) {
            int i = row / signs.ny, j = row - i * signs.ny;
            const real* here = grid.row(i, j);
            bool from_x = i > 0 && row - signs.ny < begin, from_y = j > 0 && row - 1 < begin;
            bool to_x = end - row > signs.ny, to_y = row + 1 < end && j + 1 < signs.ny;
            if (normal) {
                if (from_x) gather_from<true>(g, i - 1, j, 0, here);
                if (from_y) gather_from<true>(g, i, j - 1, 1, here);
                scatter_row<true>(g, i, j, to_y, to_x, total);
            } else {
                if (from_x) gather_from<false>(g, i - 1, j, 0, here);
                if (from_y) gather_from<false>(g, i, j - 1, 1, here);
                scatter_row<false>(g, i, j, to_y, to_x, total);
            }
        }
        double* out = sums + 7 * (uint64)item;
        out[0] = total.level, out[1] = total.x, out[2] = total.y, out[3] = total.z;
        out[4] = total.ox, out[5] = total.oy, out[6] = total.oz;
    }
}

}  // namespace gk
