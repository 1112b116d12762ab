// A face of a mesh, computed in double whatever the precision of its vertices.
#pragma once
#include "../core/vec.h"

namespace gk {

// Both products of a difference are rounded alike: parallel edges then give exactly zero, and edges that change places
// exactly the opposite. The compiler would fuse one product and not the other.
#if GK_GPU
GK_FN double rounded_product(double a, double b) { return __dmul_rn(a, b); }
#else
GK_FN double rounded_product(double a, double b) {
    double p = a * b;
    keep(p);
    return p;
}
#endif
GK_FN double determinant(double a, double b, double c, double d) { return rounded_product(a, d) - rounded_product(b, c); }
GK_FN Vec3d balanced_cross(Vec3d a, Vec3d b) {
    return {determinant(a.y, a.z, b.y, b.z), determinant(a.z, a.x, b.z, b.x), determinant(a.x, a.y, b.x, b.y)};
}

GK_FN Vec3d at_row(const double* a, int i) { a += 3 * (uint64)i; return {a[0], a[1], a[2]}; }
GK_FN void put_row(double* a, int i, Vec3d v) { a += 3 * (uint64)i; a[0] = v.x; a[1] = v.y; a[2] = v.z; }
GK_FN double largest(Vec3d a) { return max(max(abs(a.x), abs(a.y)), abs(a.z)); }

// A face in a unit of length of its own, a power of two, in which no square overflows or underflows.
struct Face {
    Vec3d edges[3];     // edge k goes from corner k to corner k + 1
    Vec3d normal;       // of length one; zero for a face without area
    double twice_area;  // exactly zero for a face without area
    double unit;        // its length in that of the mesh
};

GK_FN Face face_at(const real* vertices, const int* faces, int f) {
    const int* at = faces + 3 * (uint64)f;
    // Half the coordinates: the difference of any two is finite.
    Vec3d a = 0.5 * to_double(row(vertices, at[0])), b = 0.5 * to_double(row(vertices, at[1]));
    Vec3d c = 0.5 * to_double(row(vertices, at[2]));
    Vec3d ab = b - a, bc = c - b, ac = c - a;
    double unit = 2;
    for (double size = max(largest(ab), largest(ac)); size > 0 && !(size >= 0x1p-100 && size <= 0x1p100);) {
        double step = size < 1 ? 0x1p200 : 0x1p-200;
        ab = step * ab, bc = step * bc, ac = step * ac;
        size *= step, unit /= step;
    }
    Face t = {{ab, bc, -ac}, {0, 0, 0}, 0, unit};

    // A face without area has no normal, and sends no gradients. So does one whose area is the rounding of this difference,
    // below 1e-15 of the product of its edges, or so flat that squares underflow.
    Vec3d across = balanced_cross(ab, ac);
    double square = dot(across, across);
    if (square > max(1e-30 * (dot(ab, ab) * dot(ac, ac)), 1e-200)) {
        t.twice_area = sqrt(square);
        t.normal = {across.x / t.twice_area, across.y / t.twice_area, across.z / t.twice_area};
    }
    return t;
}

// Given the cotangent of the area vector (b - a) x (c - a), that of corner k.
GK_FN Vec3d adj_area_vector(const Face& t, Vec3d adj_across, int k) { return cross(adj_across, t.edges[(k + 1) % 3]); }

// Given the cotangent of the normal, that of the area vector in the face's unit; zero for a face without area.
GK_FN Vec3d adj_normal_of(const Face& t, Vec3d adj_normal) {
    double scale = t.twice_area > 0 ? 1 / t.twice_area : 0;
    return scale * (adj_normal - dot(t.normal, adj_normal) * t.normal);
}

}  // namespace gk
