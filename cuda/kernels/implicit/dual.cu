// Surface nets and dual contouring: a vertex a cell, from the points where the surface crosses the cell's edges.
#include "../../implicit/dual.h"

namespace gk {

// Each item is a row: its cells with a vertex go to vertices[row + 1], its triangles to triangles[row + 1], and the cells, a
// bit each, to cells.
GK_KERNEL count_dual(int n, const real* samples, int nx, int ny, int nz, int pad, real level, const uint* words,
                     const uint* live, int use_live, uint* cells, int* vertices, uint64* triangles) {
    Grid grid = {samples, nx, ny, nz, pad, level};
    Signs signs = {words, live, use_live, grid.rows_x(), grid.rows_y(), grid.length(), grid.words()};
    GK_EACH(row, n) {
        int i = row / signs.ny, j = row - i * signs.ny, v = 0, t = 0;
        uint* own = cells + (uint64)row * signs.n;
        bool uniform = is_uniform(signs, i, j);
        for (int w = 0; w < signs.n; ++w) {
            own[w] = 0;
            if (uniform) continue;
            Stretch s = stretch(signs, i, j, w);
            if (s.empty) continue;
            Quads q = quads_of(signs, i, j, w);
            own[w] = s.cells;
            v += count_bits(s.cells);
            t += 2 * (count_bits(q.z) + count_bits(q.y) + count_bits(q.x));
        }
        vertices[(uint64)row + 1] = v;
        triangles[(uint64)row + 1] = t;
    }
}

// The two samples of an edge that is crossed, and where between them.
struct EdgeNormal {
    bool has[2];  // a normal: not so padding, and samples whose normal is not finite
    uint64 at[2];  // where that is
    Vec3d normal[2];
    double weight[2];
    bool moves;  // whether the mix of the two changes along the edge
};

GK_FN void set_end(EdgeNormal& edge, int end, const Grid& g, const real* normals, int i, int j, int k) {
    i -= g.pad, j -= g.pad, k -= g.pad;
    edge.has[end] = false, edge.at[end] = 0, edge.normal[end] = {0, 0, 0};
    if (i < 0 || j < 0 || k < 0 || i >= g.nx || j >= g.ny || k >= g.nz) {
        edge.moves = false;
        return;
    }
    uint64 at = 3 * (((uint64)i * g.ny + j) * g.nz + k);
    const real* m = normals + at;
    real largest = max(max(abs(m[0]), abs(m[1])), abs(m[2]));
    if (!(largest <= INFINITE && m[0] == m[0] && m[1] == m[1] && m[2] == m[2])) return;
    edge.has[end] = true, edge.at[end] = at, edge.normal[end] = {double(m[0]), double(m[1]), double(m[2])};
}

// Of the edge along an axis from (i, j, k) on, whose crossing is at x along it. Padding has the normal of the sample beside it.
GK_FN EdgeNormal edge_normal(const Grid& g, const real* normals, int axis, int i, int j, int k, double x, double step) {
    EdgeNormal r;
    r.moves = true;
    set_end(r, 0, g, normals, i, j, k);
    bool low = r.moves;
    set_end(r, 1, g, normals, i + (axis == 0), j + (axis == 1), k + (axis == 2));
    double t = clamp(x / step - ((axis == 0 ? i : axis == 1 ? j : k) - g.pad), 0.0, 1.0);
    if (!r.moves) t = low ? 0 : 1;
    r.weight[0] = 1 - t, r.weight[1] = t;
    return r;
}

// Calls visit(vertex, axis, k) for the edges from row (i, j) on that are crossed.
template <class Visit> GK_FN void each_edge(const Signs& s, const int* first_edge, int i, int j, Visit visit) {
    const int* own = first_edge + 3 * ((uint64)i * s.ny + j);
    if (own[3] == own[0]) return;
    int z = own[0], y = own[1], x = own[2];
    for (int w = 0; w < s.n; ++w) {
        Stretch r = stretch(s, i, j, w);
        if (r.empty) continue;
        for (uint rest = r.z[0]; rest; rest &= rest - 1) visit(z++, 2, 32 * w + lowest_bit(rest));
        for (uint rest = r.y[0]; rest; rest &= rest - 1) visit(y++, 1, 32 * w + lowest_bit(rest));
        for (uint rest = r.x[0]; rest; rest &= rest - 1) visit(x++, 0, 32 * w + lowest_bit(rest));
    }
}

// Each item is a row: the normals at the crossings of its edges, between those of the samples (X, Y, Z, 3).
GK_KERNEL edge_normals_fwd(int n, const real* samples, int nx, int ny, int nz, int pad, real level, double sx, double sy,
                           double sz, const uint* words, const uint* live, int use_live, const int* first_edge,
                           const real* points, const real* sample_normals, real* normals) {
    Grid grid = {samples, nx, ny, nz, pad, level};
    Signs signs = {words, live, use_live, grid.rows_x(), grid.rows_y(), grid.length(), grid.words()};
    GK_EACH(row, n) {
        int i = row / signs.ny, j = row - i * signs.ny;
        each_edge(signs, first_edge, i, j, [&](int v, int axis, int k) {
            double x = points[3 * (uint64)v + axis], step = axis == 0 ? sx : axis == 1 ? sy : sz;
            EdgeNormal e = edge_normal(grid, sample_normals, axis, i, j, k, x, step);
            set_row(normals, v, to_real(e.weight[0] * e.normal[0] + e.weight[1] * e.normal[1]));
        });
    }
}

// Each item is every second row of every second slab, whose edges end in different samples: `turn` is one of the four ways to
// choose them.
GK_KERNEL edge_normals_adj(int n, int turn, const real* samples, int nx, int ny, int nz, int pad, real level, double sx,
                           double sy, double sz, const uint* words, const uint* live, int use_live, const int* first_edge,
                           const real* points, const real* sample_normals, const real* adj_normals, real* adj_points,
                           real* adj_sample_normals) {
    Grid grid = {samples, nx, ny, nz, pad, level};
    Signs signs = {words, live, use_live, grid.rows_x(), grid.rows_y(), grid.length(), grid.words()};
    int across = (signs.ny + 1 - (turn & 1)) / 2;
    GK_EACH(item, n) {
        int i = 2 * (item / across) + (turn >> 1), j = 2 * (item % across) + (turn & 1);
        each_edge(signs, first_edge, i, j, [&](int v, int axis, int k) {
            double x = points[3 * (uint64)v + axis], step = axis == 0 ? sx : axis == 1 ? sy : sz;
            EdgeNormal e = edge_normal(grid, sample_normals, axis, i, j, k, x, step);
            Vec3d g = to_double(row(adj_normals, v));
            if (e.moves) adj_points[3 * (uint64)v + axis] += real(dot(e.normal[1] - e.normal[0], g) / step);
            for (int end = 0; end < 2; ++end) {
                if (!e.has[end]) continue;
                real* out = adj_sample_normals + e.at[end];
                out[0] += real(e.weight[end] * g.x), out[1] += real(e.weight[end] * g.y), out[2] += real(e.weight[end] * g.z);
            }
        });
    }
}

// A coordinate, held between the cell's first corner, number `at`, and its second; `corner` is the number of the one that
// holds it. Points are relative to the grid's origin, so that they keep their digits far from the world's.
GK_FN double held(double x, int at, double step, int& corner, bool& is_held) {
    double low = at * step, high = (at + 1) * step;
    is_held = x < low || x > high;
    corner = x < low ? at : at + 1;
    return clamp(x, low, high);
}

// Each item is a row: the vertices of its cells. weight < 0 takes means; else normals are those of the crossings, and the
// vertex stays within its cell.
GK_KERNEL dual_vertices_fwd(int n, const real* samples, int nx, int ny, int nz, int pad, real level, double sx, double sy,
                            double sz, double ox, double oy, double oz, const uint* words, const uint* live, int use_live,
                            const int* first_edge, const int* first_cell, const real* points, const real* normals,
                            double weight, real* vertices) {
    Grid grid = {samples, nx, ny, nz, pad, level};
    Signs signs = {words, live, use_live, grid.rows_x(), grid.rows_y(), grid.length(), grid.words()};
    GK_EACH(row, n) {
        int i = row / signs.ny, j = row - i * signs.ny, at = first_cell[row];
        if (at == first_cell[row + 1]) continue;
        EdgeNumbers numbers = EdgeNumbers::at(first_edge, signs, i, j);
        for (int w = 0; w < signs.n; ++w) {
            Stretch s = stretch(signs, i, j, w);
            if (s.empty) continue;
            for (uint rest = s.cells; rest; rest &= rest - 1) {
                int k = lowest_bit(rest), id[12], m = numbers.of_cell(s, k, id);
                Feature f = find_feature(points, normals, id, m, weight);
                Vec3d p = f.mean + f.offset;
                if (weight >= 0) {
                    int corner;
                    bool is_held;
                    p.x = held(p.x, i - pad, sx, corner, is_held);
                    p.y = held(p.y, j - pad, sy, corner, is_held);
                    p.z = held(p.z, 32 * w + k - pad, sz, corner, is_held);
                }
                set_row(vertices, at++, to_real(p + Vec3d{ox, oy, oz}));
            }
            numbers.advance(s);
        }
    }
}

// Each item is every second row of every second slab: such rows have no edges in common, so what their cells send to the
// points and normals of the crossings is added without conflict; `turn` is one of the four ways to choose them. adj_border
// (2 V, 3) gets what cells that hold a vertex back send to origin and spacing.
GK_KERNEL dual_vertices_adj(int n, int turn, const real* samples, int nx, int ny, int nz, int pad, real level, double sx,
                            double sy, double sz, const uint* words, const uint* live, int use_live, const int* first_edge,
                            const int* first_cell, const real* points, const real* normals, double weight,
                            const real* adj_vertices, real* adj_points, real* adj_normals, real* adj_border) {
    Grid grid = {samples, nx, ny, nz, pad, level};
    Signs signs = {words, live, use_live, grid.rows_x(), grid.rows_y(), grid.length(), grid.words()};
    int across = (signs.ny + 1 - (turn & 1)) / 2;
    GK_EACH(item, n) {
        int i = 2 * (item / across) + (turn >> 1), j = 2 * (item % across) + (turn & 1);
        uint64 row_number = (uint64)i * signs.ny + j;
        int at = first_cell[row_number];
        if (at == first_cell[row_number + 1]) continue;
        EdgeNumbers numbers = EdgeNumbers::at(first_edge, signs, i, j);
        for (int w = 0; w < signs.n; ++w) {
            Stretch s = stretch(signs, i, j, w);
            if (s.empty) continue;
            for (uint rest = s.cells; rest; rest &= rest - 1) {
                int k = lowest_bit(rest), id[12], m = numbers.of_cell(s, k, id);
                Vec3d g = to_double(row(adj_vertices, at++));
                if (weight < 0) {
                    for (int e = 0; e < m; ++e) add_row(adj_points, id[e], to_real((1.0 / m) * g));
                    continue;
                }
                Feature f = find_feature(points, normals, id, m, weight);
                Vec3d p = f.mean + f.offset, border = {0, 0, 0}, stretched = {0, 0, 0};
                // Where the vertex is held back by the cell it moves as the cell does.
                int corner;
                bool is_held;
                held(p.x, i - pad, sx, corner, is_held);
                if (is_held) border.x = g.x, stretched.x = corner * g.x, g.x = 0;
                held(p.y, j - pad, sy, corner, is_held);
                if (is_held) border.y = g.y, stretched.y = corner * g.y, g.y = 0;
                held(p.z, 32 * w + k - pad, sz, corner, is_held);
                if (is_held) border.z = g.z, stretched.z = corner * g.z, g.z = 0;
                set_row(adj_border, 2 * (at - 1), to_real(border));
                set_row(adj_border, 2 * (at - 1) + 1, to_real(stretched));
                // offset = A^-1 sum m (m . (p - mean)), with A = sum m m^T + weight 1.
                Vec3d y = f.solve(g), pull = {0, 0, 0};
                for (int e = 0; e < m; ++e) {
                    Vec3d normal = f.normal(normals, id[e]);
                    pull += dot(normal, y) * normal;
                }
                for (int e = 0; e < m; ++e) {
                    Vec3d normal = f.normal(normals, id[e]), to = to_double(row(points, id[e])) - f.mean;
                    double along = dot(normal, y), miss = dot(normal, to - f.offset);
                    add_row(adj_points, id[e], to_real((1.0 / m) * (g - pull) + along * normal));
                    add_row(adj_normals, id[e], to_real((1 / f.unit) * (miss * y + along * (to - f.offset))));
                }
            }
            numbers.advance(s);
        }
    }
}

// Two triangles of a quad whose corners go counter-clockwise as seen from larger values, or clockwise if `flip`; cut along
// the shorter diagonal.
GK_FN void set_quad(const real* vertices, const int* c, bool flip, int*& out) {
    Vec3 p[4];
    for (int k = 0; k < 4; ++k) p[k] = row(vertices, c[k]);
    int s = dot(p[2] - p[0], p[2] - p[0]) <= dot(p[3] - p[1], p[3] - p[1]) ? 0 : 1;
    int a = c[s], b = c[s + 1], d = c[s + 2], e = c[(s + 3) & 3];
    out[0] = a, out[1] = flip ? d : b, out[2] = flip ? b : d;
    out[3] = a, out[4] = flip ? e : d, out[5] = flip ? d : e;
    out += 6;
}

// Each item is a row: the quads around its edges.
GK_KERNEL dual_faces(int n, const real* samples, int nx, int ny, int nz, int pad, real level, const uint* words,
                     const uint* live, int use_live, const uint* cells, const int* first_cell, const uint64* first_triangle,
                     const real* vertices, int* faces) {
    Grid grid = {samples, nx, ny, nz, pad, level};
    Signs signs = {words, live, use_live, grid.rows_x(), grid.rows_y(), grid.length(), grid.words()};
    GK_EACH(row, n) {
        if (first_triangle[row] == first_triangle[(uint64)row + 1]) continue;
        int i = row / signs.ny, j = row - i * signs.ny;
        int* out = faces + 3 * first_triangle[row];
        // Rows of cells around: this one, and those before it along y, along x, along both.
        int number[4];
        const uint* around[4];
        for (int r = 0; r < 4; ++r) {
            bool there = i >= (r >> 1) && j >= (r & 1);
            uint64 other = there ? (uint64)row - (r & 1) - (uint64)(r >> 1) * signs.ny : row;
            number[r] = first_cell[other];
            around[r] = cells + other * signs.n;
        }
        for (int w = 0; w < signs.n; ++w) {
            Quads q = quads_of(signs, i, j, w);
            uint64 sign = signs.window(i, j, w);
            for (uint rest = q.z | q.y | q.x; rest; rest &= rest - 1) {
                int k = lowest_bit(rest), at[4];
                bool flip = !(sign >> k & 1);
                for (int r = 0; r < 4; ++r) at[r] = number[r] + count_bits(around[r][w] & ((1u << k) - 1));
                if (q.z >> k & 1) {
                    int c[4] = {at[3], at[1], at[0], at[2]};
                    set_quad(vertices, c, flip, out);
                }
                if (q.y >> k & 1) {
                    int c[4] = {at[2] - 1, at[2], at[0], at[0] - 1};
                    set_quad(vertices, c, flip, out);
                }
                if (q.x >> k & 1) {
                    int c[4] = {at[1] - 1, at[0] - 1, at[0], at[1]};
                    set_quad(vertices, c, flip, out);
                }
            }
            for (int r = 0; r < 4; ++r) number[r] += count_bits(around[r][w]);
        }
    }
}

}  // namespace gk
