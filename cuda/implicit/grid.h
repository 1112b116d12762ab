// A regular grid of samples and the signs of its rows, 32 samples a word, from which all passes of an extraction work.
//
// Samples (i, j, k) lie with k fastest; a row is all k of one (i, j). With `pad` there is one more layer of samples around
// the grid, which is outside: it closes the surface on the grid's border.
#pragma once
#include "../core/vec.h"

namespace gk {

struct Grid {
    const real* samples;
    int nx, ny, nz, pad;
    real level;

    GK_FN int rows_x() const { return nx + 2 * pad; }
    GK_FN int rows_y() const { return ny + 2 * pad; }
    GK_FN int length() const { return nz + 2 * pad; }
    GK_FN int words() const { return (length() + 31) / 32; }
    // The row's samples, from k = pad on; null for a row of padding.
    GK_FN const real* row(int i, int j) const {
        i -= pad, j -= pad;
        return i < 0 || j < 0 || i >= nx || j >= ny ? nullptr : samples + ((uint64)i * ny + j) * nz;
    }
    GK_FN real at(const real* row, int k) const {
        if (!pad) return row[k];
        k -= pad;
        return row && k >= 0 && k < nz ? row[k] : INFINITE;
    }
    // The same at any place.
    GK_FN real at(int i, int j, int k) const {
        const real* there = row(i, j);
        k -= pad;
        return there && k >= 0 && k < nz ? there[k] : INFINITE;
    }
};

constexpr int AHEAD = 1024;  // samples by which reading them all runs ahead of itself
GK_FN void prefetch_stretch(const real* samples) {
    for (int k = 0; k < 32; k += 64 / sizeof(real)) prefetch(samples + k);
}

// The one rule of inside: strictly below the level. Bits of the samples 32 w to 32 w + 31 of a row; `holes` collects NaNs.
GK_FN uint sign_word(const Grid& grid, const real* row, int w, uint& holes) {
    int begin = 32 * w - grid.pad, end = min(begin + 32, grid.nz);
    if (!row) return 0;
    uint word = 0;
    if (begin >= 0 && end == begin + 32) {
        row += begin;
        prefetch_stretch(row + AHEAD);
        for (int k = 0; k < 32; k += LANES) {
            Lanes s = load_any(row + k);
            word |= bits(s < splat(grid.level)) << k;
            holes |= bits(s != s) << k;
        }
        return word;
    }
    for (int k = max(begin, 0); k < end; ++k) {
        word |= (uint)(row[k] < grid.level) << (k - begin);
        holes |= (uint)(row[k] != row[k]) << (k - begin);
    }
    return word;
}

GK_FN uint first_bits(int n) { return n >= 32 ? ~0u : n <= 0 ? 0u : (1u << n) - 1; }

// Where cells and surface are, word by word. `live` has a bit for each cell whose corners are all numbers; it is only read if
// some sample is none, and then an edge counts only where one of its cells is live.
struct Signs {
    const uint *words, *live;
    int use_live, nx, ny, nz, n;  // rows along x and y, length of a row, words of one

    GK_FN const uint* row(int i, int j) const { return words + ((uint64)i * ny + j) * n; }
    // The samples 32 w to 32 w + 63.
    GK_FN uint64 window(int i, int j, int w) const {
        const uint* r = row(i, j) + w;
        return r[0] | (w + 1 < n ? (uint64)r[1] << 32 : 0);
    }
    GK_FN uint live_word(int i, int j, int w) const {
        if (i < 0 || j < 0 || i >= nx - 1 || j >= ny - 1 || w < 0) return 0;
        return live[((uint64)i * ny + j) * n + w];
    }
    // Cells at k or at k - 1.
    GK_FN uint live_pair(int i, int j, int w) const {
        return live_word(i, j, w) | live_word(i, j, w) << 1 | live_word(i, j, w - 1) >> 31;
    }
    // The edges of row (i, j) along each axis that the surface crosses.
    GK_FN uint cross_z(int i, int j, int w, uint64 a) const {
        uint found = uint(a ^ a >> 1) & first_bits(nz - 1 - 32 * w);
        if (use_live && found)
            found &= live_word(i, j, w) | live_word(i - 1, j, w) | live_word(i, j - 1, w) | live_word(i - 1, j - 1, w);
        return found;
    }
    GK_FN uint cross_y(int i, int j, int w, uint64 a, uint64 b) const {
        uint found = uint(a ^ b) & first_bits(nz - 32 * w);
        if (use_live && found) found &= live_pair(i, j, w) | live_pair(i - 1, j, w);
        return found;
    }
    GK_FN uint cross_x(int i, int j, int w, uint64 a, uint64 b) const {
        uint found = uint(a ^ b) & first_bits(nz - 32 * w);
        if (use_live && found) found &= live_pair(i, j, w) | live_pair(i, j - 1, w);
        return found;
    }
};

// What 32 cells of a row hold: the signs of their four rows, (i, j), (i, j + 1), (i + 1, j), (i + 1, j + 1), the edges that
// are crossed, and the cells that have crossed edges. On the last rows there are edges, but no cells.
struct Stretch {
    uint64 sign[4];
    uint z[4], y[2], x[2];  // of all four rows; of rows i and i + 1; of rows j and j + 1
    uint cells;
    bool empty;

    GK_FN int code(int k) const {
        return int(sign[0] >> k & 3) | int(sign[1] >> k & 3) << 2 | int(sign[2] >> k & 3) << 4 | int(sign[3] >> k & 3) << 6;
    }
};
GK_FN Stretch stretch(const Signs& s, int i, int j, int w) {
    int di = i + 1 < s.nx, dj = j + 1 < s.ny;
    Stretch r;
    r.sign[0] = s.window(i, j, w);
    r.sign[1] = s.window(i, j + dj, w);
    r.sign[2] = s.window(i + di, j, w);
    r.sign[3] = s.window(i + di, j + dj, w);
    uint64 any = r.sign[0] | r.sign[1] | r.sign[2] | r.sign[3], all = r.sign[0] & r.sign[1] & r.sign[2] & r.sign[3];
    int length = s.nz - 32 * w;
    uint64 valid = length > 32 ? 0x1ffffffffull : first_bits(length);
    r.empty = !(any & valid) || (all & valid) == valid;
    if (r.empty) return r;
    r.z[0] = s.cross_z(i, j, w, r.sign[0]);
    r.y[0] = s.cross_y(i, j, w, r.sign[0], r.sign[1]);
    r.x[0] = s.cross_x(i, j, w, r.sign[0], r.sign[2]);
    r.cells = 0;
    if (!(di && dj)) return r;
    r.z[1] = s.cross_z(i, j + 1, w, r.sign[1]);
    r.z[2] = s.cross_z(i + 1, j, w, r.sign[2]);
    r.z[3] = s.cross_z(i + 1, j + 1, w, r.sign[3]);
    r.y[1] = s.cross_y(i + 1, j, w, r.sign[2], r.sign[3]);
    r.x[1] = s.cross_x(i, j + 1, w, r.sign[1], r.sign[3]);
    r.cells = uint((any | any >> 1) & ~(all & all >> 1)) & first_bits(length - 1);
    if (s.use_live) r.cells &= s.live_word(i, j, w);
    return r;
}

// Whether the cells of row (i, j), and the edges that start there, are all on one side. Most rows are: it must be quick.
GK_FN bool is_uniform(const Signs& s, int i, int j) {
    int di = i + 1 < s.nx, dj = j + 1 < s.ny;
    const uint *a = s.row(i, j), *b = s.row(i, j + dj), *c = s.row(i + di, j), *d = s.row(i + di, j + dj);
    uint any = 0, all = ~0u;
    for (int w = 0; w < s.n; ++w) {
        any |= a[w] | b[w] | c[w] | d[w];
        all &= a[w] & b[w] & c[w] & d[w];
    }
    return !any || all == ~0u;
}

// Where the surface crosses the edge from a sample a to the next, b: the part of the edge before it, in [0, 1].
GK_FN real crossing(real a, real b, real level) {
    real d = b - a;
    bool far_a = !(abs(a) < INFINITE), far_b = !(abs(b) < INFINITE);
    if (abs(d) < INFINITE && !far_a && !far_b) return (level - a) / d;
    if (far_a || far_b) return far_a && far_b ? real(0.5) : far_a ? real(1) : real(0);
    return (real(0.5) * level - real(0.5) * a) / (real(0.5) * b - real(0.5) * a);
}

// Index to world: origin + index * spacing, in double until it is stored.
struct Frame {
    double sx, sy, sz, ox, oy, oz;
    GK_FN real x(double i) const { return real(ox + i * sx); }
    GK_FN real y(double j) const { return real(oy + j * sy); }
    GK_FN real z(double k) const { return real(oz + k * sz); }
};

}  // namespace gk
