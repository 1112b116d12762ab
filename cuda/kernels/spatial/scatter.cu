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

// The first piece of each face that has one.
GK_KERNEL first_pieces(int n, const int* piece_face, int* piece_of) {
    GK_EACH(i, n) {
        if (i == 0 || piece_face[i - 1] != piece_face[i]) piece_of[piece_face[i]] = i;
    }
}

// Sums at each vertex what the pieces of its faces have for its corner: corners[offset[v] .. offset[v + 1]) are the places
// 3 face + corner where vertex v stands; piece_of is -1 for a face without pieces.
GK_KERNEL sum_pieces_at_vertices(int n, const int* offset, const int* corners, const int* piece_of, int pieces, const int* piece_face,
                                 const double* sums, real* adj_vertices) {
    GK_EACH(v, n) {
        Vec3d total = {0, 0, 0};
        for (int j = offset[v]; j < offset[v + 1]; ++j) {
            const int face = corners[j] / 3, k = corners[j] - 3 * face;
            if (piece_of[face] < 0) continue;
            Vec3d own = {0, 0, 0};
            for (int i = piece_of[face]; i < pieces && piece_face[i] == face; ++i) {
                const double* c = sums + 9 * (uint64)i + 3 * k;
                own += Vec3d{c[0], c[1], c[2]};
            }
            total += own;
        }
        set_row(adj_vertices, v, to_real(total));
    }
}

}  // namespace gk
