// Which samples of a field are inside, and which are no numbers.
#include "../../implicit/grid.h"

namespace gk {

// Each item is a word of 32 samples. found[0] becomes 1 if some sample is not a number.
GK_KERNEL sample_signs(int n, const real* samples, int nx, int ny, int nz, int pad, real level, uint* words, int* found) {
    Grid grid = {samples, nx, ny, nz, pad, level};
    int length = grid.words(), rows = grid.rows_y();
    uint holes = 0;
    GK_EACH(u, n) {
        int r = u / length, i = r / rows;
        words[u] = sign_word(grid, grid.row(i, r - i * rows), u - r * length, holes);
    }
    if (holes) found[0] = 1;
}

// The cells of each word whose eight samples are all numbers.
GK_KERNEL live_cells(int n, const real* samples, int nx, int ny, int nz, int pad, real level, uint* live) {
    Grid grid = {samples, nx, ny, nz, pad, level};
    int length = grid.words(), rows = grid.rows_y();
    GK_EACH(u, n) {
        int r = u / length, i = r / rows, j = r - i * rows, w = u - r * length;
        live[u] = 0;
        if (i + 1 >= grid.rows_x() || j + 1 >= rows) continue;
        uint dead = 0;
        for (int c = 0; c < 4; ++c) {
            const real* row = grid.row(i + (c >> 1), j + (c & 1));
            uint holes = 0, next = 0;
            sign_word(grid, row, w, holes);
            if (w + 1 < length) sign_word(grid, row, w + 1, next);
            dead |= holes | holes >> 1 | next << 31;
        }
        live[u] = ~dead & first_bits(grid.length() - 1 - 32 * w);
    }
}

}  // namespace gk
