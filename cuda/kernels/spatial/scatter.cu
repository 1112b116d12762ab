// Sums of many contributions to few targets, in an order that does not depend on the threads: contributions are sorted by
// face, summed in pieces of bounded length, then by face; kernels/mesh/corners.cu gathers them by vertex.
#include "../../core/vec.h"

namespace gk {

// Sums nine numbers over each piece [start[i], start[i + 1]) of the order; all of a piece have one face.
GK_KERNEL sum_pieces(int n, const int* start, const int* order, const real* adj_corners, double* sums) {
    GK_EACH(i, n) {
        double total[9] = {};
        for (int j = start[i]; j < start[i + 1]; ++j) {
            const real* c = adj_corners + 9 * (uint64)order[j];
            for (int k = 0; k < 9; ++k) total[k] += c[k];
        }
        for (int k = 0; k < 9; ++k) sums[9 * (uint64)i + k] = total[k];
    }
}

// The same of nine of `width` numbers a row, from `first` on.
GK_KERNEL sum_wide_pieces(int n, const int* start, const int* order, int width, int first, const double* rows, double* sums) {
    GK_EACH(i, n) {
        double total[9] = {};
        for (int j = start[i]; j < start[i + 1]; ++j) {
            const double* c = rows + width * (uint64)order[j] + first;
            for (int k = 0; k < 9; ++k) total[k] += c[k];
        }
        for (int k = 0; k < 9; ++k) sums[9 * (uint64)i + k] = total[k];
    }
}

// The first piece of a face adds up all of them, to what is there.
GK_KERNEL sum_faces(int n, const int* piece_face, const double* sums, double* adj_faces) {
    GK_EACH(i, n) {
        int face = piece_face[i];
        if (i > 0 && piece_face[i - 1] == face) continue;
        double total[9] = {};
        for (int j = i; j < n && piece_face[j] == face; ++j)
            for (int k = 0; k < 9; ++k) total[k] += sums[9 * (uint64)j + k];
        for (int k = 0; k < 9; ++k) adj_faces[9 * (uint64)face + k] += total[k];
    }
}

}  // namespace gk
