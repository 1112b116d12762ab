// How the trilinear interpolant of a cell's corners decides what their signs leave open: which corners are joined across an
// ambiguous face (Nielson and Hamann 1991), and whether two loops bound one tube through the cell instead of two disks.
#pragma once
#include "cell.h"

namespace gk {

// For each axis: the triangle sides that may lie in an ambiguous face perpendicular to it, by whether its lowest corner is
// inside (2) and whether its inside corners are joined (1). Bit 0 is for the two edges along the first of the face's axes, 1
// for those along the second, 2 + 2 u + v for the two at corner (u, v). Where a bit is set only the cell above the face may
// use the side, else only the cell below: so no side is used twice. Found by a search over all cells: with these, cut_ears
// finds triangles for every loop and join_loops for every tube, and no vertex inside the cell is needed.
struct SideRule {
    int bits[3][4];
};
GK_FN constexpr SideRule side_rule() {
    return {{{50, 50, 45, 33}, {63, 41, 20, 26}, {12, 22, 3, 37}}};
}

// The faces whose inside corners the interpolant joins, a bit each. f holds the corners' samples less the level. Both cells at
// a face compute this from the same numbers in the same order.
GK_FN uint joined_faces(int code, const real* f) {
    uint joined = 0;
    for (int face = 0; face < 6; ++face) {
        int axis = face >> 1, u = axis == 0 ? 1 : 0, v = axis == 2 ? 1 : 2;
        int c = face & 1 ? 4 >> axis : 0, du = 4 >> u, dv = 4 >> v;
        bool first = is_inside(code, c);
        if (is_inside(code, c + du + dv) != first || is_inside(code, c + du) == first ||
            is_inside(code, c + dv) == first)
            continue;
        real saddle = difference_of_products(f[c], f[c + du + dv], f[c + du], f[c + dv]);
        if (first ? saddle > 0 : saddle < 0) joined |= 1u << face;
    }
    return joined;
}

// The sides that triangles of this cell may have.
GK_FN Sides allowed_sides(int code, uint joined) {
    constexpr Sides OFF_FACES = sides_off_faces();
    constexpr SideRule RULE = side_rule();
    Sides sides = OFF_FACES;
    for (int face = 0; face < 6; ++face) {
        if (!is_ambiguous(code, face_of_cell(face))) continue;
        int axis = face >> 1, u = axis == 0 ? 1 : 0, v = axis == 2 ? 1 : 2;
        int c = face & 1 ? 4 >> axis : 0, du = 4 >> u, dv = 4 >> v;
        int along_u[2] = {edge_at(u, c), edge_at(u, c + dv)}, along_v[2] = {edge_at(v, c), edge_at(v, c + du)};
        int bits = RULE.bits[axis][2 * is_inside(code, c) + (joined >> face & 1)];
        for (int kind = 0; kind < 6; ++kind) {
            if ((bits >> kind & 1) != (face & 1)) continue;
            int a = kind == 1 ? along_v[0] : along_u[kind == 0 ? 0 : kind & 1];
            int b = kind == 0 ? along_u[1] : kind == 1 ? along_v[1] : along_v[(kind - 2) >> 1];
            sides.with[a] |= 1u << b;
            sides.with[b] |= 1u << a;
        }
    }
    return sides;
}

// Corners of equal label are joined along edges or across faces of the cell.
struct Labels {
    int of[8];
    GK_FN void join(int a, int b) {
        int from = of[a], to = of[b];
        for (int c = 0; c < 8; ++c)
            if (of[c] == from) of[c] = to;
    }
};
GK_FN Labels label_corners(int code, uint joined) {
    Labels labels = {{0, 1, 2, 3, 4, 5, 6, 7}};
    for (int e = 0; e < 12; ++e)
        if (is_inside(code, lower_corner(e)) == is_inside(code, upper_corner(e)))
            labels.join(lower_corner(e), upper_corner(e));
    for (int face = 0; face < 6; ++face) {
        Face f = face_of_cell(face);
        if (!is_ambiguous(code, f)) continue;
        int s = is_inside(code, f.corner[0]) == bool(joined >> face & 1) ? 0 : 1;
        labels.join(f.corner[s], f.corner[s + 2]);
    }
    return labels;
}

// The two loops that bound a tube, {-1, -1} where there is none. In a slice of the cell at height t the interpolant is
// bilinear, so all of a slice's inside is joined to its corners, as is its outside; two opposite corners p and q are joined
// within the slice where p q - r s > 0. That is quadratic in t: an inner maximum above 0 joins what the faces leave apart.
// The pass that counts triangles and the one that writes them must agree to the bit, so there is one copy of this.
struct Tube {
    int a, b;
};
GK_ONCE Tube find_tube(int code, uint joined, const real* f, const Loops& loops) {
    Labels labels = label_corners(code, joined);
    for (int slice = 0; slice < 2; ++slice) {
        int p = slice ? 2 : 0, q = slice ? 4 : 6, r = slice ? 0 : 2, s = slice ? 6 : 4;
        double p0 = f[p], q0 = f[q], r0 = f[r], s0 = f[s];
        double dp = f[p + 1] - p0, dq = f[q + 1] - q0, dr = f[r + 1] - r0, ds = f[s + 1] - s0;
        double a = dp * dq - dr * ds, b = p0 * dq + q0 * dp - r0 * ds - s0 * dr;
        if (!(a < 0 && b > 0 && b < -2 * a)) continue;
        double t = b / (-2 * a), pt = p0 + t * dp, qt = q0 + t * dq, rt = r0 + t * dr, st = s0 + t * ds;
        bool in = pt < 0;
        if ((qt < 0) != in || (rt < 0) == in || (st < 0) == in || !(pt * qt > rt * st)) continue;
        int from = labels.of[is_inside(code, p) == in ? p : p + 1], to = labels.of[is_inside(code, q) == in ? q : q + 1];
        if (from == to) continue;
        // The tube's loops touch the two parts that it joins, and on the other side one and the same part.
        for (int i = 0; i < loops.count; ++i)
            for (int j = 0; j < loops.count; ++j) {
                int ei = loops.edge[loops.start[i]], ej = loops.edge[loops.start[j]];
                bool li = is_inside(code, lower_corner(ei)) == in, lj = is_inside(code, lower_corner(ej)) == in;
                int near_i = li ? lower_corner(ei) : upper_corner(ei), far_i = li ? upper_corner(ei) : lower_corner(ei);
                int near_j = lj ? lower_corner(ej) : upper_corner(ej), far_j = lj ? upper_corner(ej) : lower_corner(ej);
                if (labels.of[near_i] == from && labels.of[near_j] == to && labels.of[far_i] == labels.of[far_j])
                    return {max(i, j), min(i, j)};
            }
    }
    return {-1, -1};
}

// The triangles between two loops, walked in opposite directions, the one that lags first; no side twice. Returns their
// number, or 0.
GK_FN int join_loops(const int* a, int m, const int* b, int n, const Sides& sides, int* out) {
    for (int begin = 0; begin < n; ++begin) {
        if (!(sides.with[a[0]] >> b[begin] & 1)) continue;
        int i = 0, j = 0, at = begin;
        uint64 used = 0;
        while (i < m || j < n) {
            uint64 side = 1ull << (i % m * n + at);
            if (used & side) break;
            used |= side;
            int ahead = a[(i + 1) % m], back = (at + n - 1) % n;
            bool step_a = i < m && (sides.with[ahead] >> b[at] & 1), step_b = j < n && (sides.with[a[i % m]] >> b[back] & 1);
            if (!step_a && !step_b) break;
            int* t = out + 3 * (i + j);
            if (step_a && (i * n <= j * m || !step_b)) {
                t[0] = a[i % m], t[1] = ahead, t[2] = b[at];
                ++i;
            } else {
                t[0] = b[back], t[1] = b[at], t[2] = a[i % m];
                ++j, at = back;
            }
        }
        if (i == m && j == n) return m + n;
    }
    return 0;
}

// Number of triangles of a cell whose table entry is ambiguous.
GK_FN int count_trilinear(int code, const real* f) {
    uint joined = joined_faces(code, f);
    Loops loops = trace_loops(code, joined);
    bool tube = loops.count > 1 && find_tube(code, joined, f, loops).a >= 0;
    return loops.start[loops.count] - 2 * loops.count + (tube ? 4 : 0);
}

// Three edges of each triangle of such a cell; at most 12 triangles. Returns their number.
GK_FN int trilinear_triangles(int code, const real* f, int* out) {
    uint joined = joined_faces(code, f);
    Loops loops = trace_loops(code, joined);
    Sides sides = allowed_sides(code, joined);
    Tube tube = loops.count > 1 ? find_tube(code, joined, f, loops) : Tube{-1, -1};
    int n = 0;
    for (int l = 0; l < loops.count; ++l) {
        int start = loops.start[l], length = loops.start[l + 1] - start;
        if (l == tube.a) {
            int other = loops.start[tube.b];
            n += join_loops(loops.edge + start, length, loops.edge + other, loops.start[tube.b + 1] - other, sides, out + 3 * n);
        } else if (l != tube.b) {
            n += cut_ears(loops.edge + start, length, sides, out + 3 * n);
        }
    }
    return n;
}

}  // namespace gk
