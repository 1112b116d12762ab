// What a cell of a grid holds of an isosurface: the loops in which the surface meets the cell's faces, and triangles in them.
//
// Corner c of a cell is at x = c >> 2, y = c >> 1 & 1, z = c & 1. Edges 0 to 3 run along z, 4 to 7 along y, 8 to 11 along x,
// each from its lower corner. Face 2 a + s is perpendicular to axis a, at its lower (s = 0) or upper end.
// A code has bit c set where corner c is inside, that is below the level. Triangles look outwards.
#pragma once
#include "../core/vec.h"

namespace gk {

constexpr int LONGEST_LOOP = 12, MOST_LOOPS = 4;  // edges of one, number in a cell

// The edge along an axis that starts at a corner.
GK_FN constexpr int edge_at(int axis, int corner) {
    return axis == 2 ? corner >> 1 : axis == 1 ? 4 + (corner & 1) + 2 * (corner >> 2) : 8 + (corner & 3);
}
GK_FN constexpr int axis_of_edge(int edge) { return 2 - (edge >> 2); }
GK_FN constexpr int lower_corner(int edge) {
    int place = edge & 3;
    return edge < 4 ? 2 * place : edge < 8 ? (place & 1) + 4 * (place >> 1) : place;
}
GK_FN constexpr int upper_corner(int edge) { return lower_corner(edge) + (4 >> axis_of_edge(edge)); }

// A face, seen from outside the cell: its corners counter-clockwise, and the edge from each corner to the next.
struct Face {
    int corner[4], edge[4];
};
GK_FN constexpr Face face_of_cell(int face) {
    int axis = face >> 1, upper = face & 1;
    // Of the other two axes, u and then v turn counter-clockwise about the outward normal.
    int u = (axis + (upper ? 1 : 2)) % 3, v = (axis + (upper ? 2 : 1)) % 3;
    int base = upper ? 4 >> axis : 0, du = 4 >> u, dv = 4 >> v;
    return {{base, base + du, base + du + dv, base + dv},
            {edge_at(u, base), edge_at(v, base + du), edge_at(u, base + dv), edge_at(v, base)}};
}
GK_FN constexpr bool is_inside(int code, int corner) { return code >> corner & 1; }
// Whether inside and outside corners alternate around a face.
GK_FN constexpr bool is_ambiguous(int code, Face f) {
    bool first = is_inside(code, f.corner[0]);
    return is_inside(code, f.corner[2]) == first && is_inside(code, f.corner[1]) != first &&
           is_inside(code, f.corner[3]) != first;
}

// Loops one after the other: loop l has the edges from start[l] up to start[l + 1].
struct Loops {
    int count;
    int start[MOST_LOOPS + 1];
    int edge[LONGEST_LOOP];
};

// On every face the surface goes from where the boundary, followed counter-clockwise, enters the inside to where it leaves
// it. So on the face that two cells share they go opposite ways: the surface is closed and oriented, whatever the samples.
// On an ambiguous face the inside corners are apart, unless the face's bit in `joined` is set.
GK_FN constexpr Loops trace_loops(int code, uint joined) {
    int next[12] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    for (int face = 0; face < 6; ++face) {
        Face f = face_of_cell(face);
        bool before = is_ambiguous(code, f) && (joined >> face & 1);
        for (int s = 0; s < 4; ++s) {
            if (is_inside(code, f.corner[s]) || !is_inside(code, f.corner[(s + 1) & 3])) continue;
            int leave = before ? s + 3 : s + 1;
            while (!before && is_inside(code, f.corner[(leave + 1) & 3])) ++leave;
            next[f.edge[s]] = f.edge[leave & 3];
        }
    }
    Loops loops = {};
    int n = 0;
    for (int first = 0; first < 12; ++first) {
        if (next[first] < 0) continue;
        for (int e = first; next[e] >= 0;) {
            int after = next[e];
            next[e] = -1;
            loops.edge[n++] = e;
            e = after;
        }
        loops.start[++loops.count] = n;
    }
    return loops;
}

// For each edge the edges with which it may span the side of a triangle inside the cell. A side that lies in a face could be
// one of the neighbour's, too, and four triangles would meet in it: so none does, but for those of `allow_sides`.
struct Sides {
    uint with[12];
};
GK_FN constexpr Sides sides_off_faces() {
    Sides sides = {};
    for (int e = 0; e < 12; ++e) sides.with[e] = 0xfff;
    for (int face = 0; face < 6; ++face) {
        Face f = face_of_cell(face);
        for (int s = 0; s < 4; ++s)
            for (int t = 0; t < 4; ++t) sides.with[f.edge[s]] &= ~(1u << f.edge[t]);
    }
    return sides;
}

// Cuts ears off a loop until a triangle is left; three edges a triangle go to out. Returns the triangles, 0 if it is stuck.
GK_FN constexpr int cut_ears(const int* loop, int length, const Sides& sides, int* out) {
    int left[LONGEST_LOOP] = {}, n = length, triangles = 0;
    for (int i = 0; i < n; ++i) left[i] = loop[i];
    while (n > 3) {
        int i = 0;
        while (i < n && !(sides.with[left[(i + n - 1) % n]] >> left[(i + 1) % n] & 1)) ++i;
        if (i == n) return 0;
        out[3 * triangles] = left[(i + n - 1) % n];
        out[3 * triangles + 1] = left[i];
        out[3 * triangles + 2] = left[(i + 1) % n];
        ++triangles;
        for (--n; i < n; ++i) left[i] = left[i + 1];
    }
    for (int k = 0; k < 3; ++k) out[3 * triangles + k] = left[k];
    return triangles + 1;
}

// For each code up to five triangles of three edges, four bits an edge; their number in bits 60 to 62; bit 63 is set where
// the trilinear interpolant may differ: a face is ambiguous, or there are two loops.
struct CellTable {
    uint64 triangles[256];
};
GK_FN constexpr CellTable make_cell_table() {
    CellTable table = {};
    Sides sides = sides_off_faces();
    for (int code = 0; code < 256; ++code) {
        Loops loops = trace_loops(code, 0);
        int edges[36] = {}, n = 0;
        for (int l = 0; l < loops.count; ++l) {
            int start = loops.start[l];
            n += cut_ears(loops.edge + start, loops.start[l + 1] - start, sides, edges + 3 * n);
        }
        uint64 packed = (uint64)n << 60;
        for (int i = 0; i < 3 * n; ++i) packed |= (uint64)edges[i] << (4 * i);
        bool ambiguous = loops.count > 1;
        for (int face = 0; face < 6; ++face) ambiguous = ambiguous || is_ambiguous(code, face_of_cell(face));
        table.triangles[code] = packed | (uint64)ambiguous << 63;
    }
    return table;
}
GK_TABLE CellTable CELLS = make_cell_table();

// Every loop of every code is cut up: a loop of n edges into n - 2 triangles.
GK_FN constexpr bool is_complete(const CellTable& table) {
    for (int code = 0; code < 256; ++code) {
        Loops loops = trace_loops(code, 0);
        if ((int)(table.triangles[code] >> 60 & 7) != loops.start[loops.count] - 2 * loops.count) return false;
    }
    return true;
}
static_assert(is_complete(make_cell_table()), "a loop of a cell has no triangles");

}  // namespace gk
