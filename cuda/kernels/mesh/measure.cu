// Areas, normals and volume of a mesh, and their adjoints. All of it is computed in double and rounded once.
//
// Adjoints write the cotangents of each face's corners, (F, 3, 3), which sum_corners adds up at each vertex.
#include "../../geometry/face.h"

namespace gk {

GK_FN double area_of(const Face& t) { return t.unit * (t.unit * (0.5 * t.twice_area)); }

// The angle at corner k, accurate at any size.
GK_FN double angle_of(const Face& t, int k) { return atan2(t.twice_area, -dot(t.edges[k], t.edges[(k + 2) % 3])); }

// Given the cotangent of the area, those of the corners.
GK_FN void adj_area_of(const Face& t, double adj_area, double* adj_corners, int f) {
    for (int k = 0; k < 3; ++k) put_row(adj_corners, 3 * f + k, adj_area_vector(t, (0.5 * adj_area * t.unit) * t.normal, k));
}

GK_KERNEL face_areas_fwd(int n, const real* vertices, const int* faces, real* areas) {
    GK_EACH(f, n) areas[f] = real(area_of(face_at(vertices, faces, f)));
}

GK_KERNEL face_areas_adj(int n, const real* vertices, const int* faces, const real* adj_areas, double* adj_corners) {
    GK_EACH(f, n) adj_area_of(face_at(vertices, faces, f), adj_areas[f], adj_corners, f);
}

// Areas of blocks of `block` faces; n is the number of blocks, count that of faces.
GK_KERNEL area_fwd(int n, int block, int count, const real* vertices, const int* faces, double* areas) {
    GK_EACH(b, n) {
        double total = 0;
        for (int f = b * block; f < min(b * block + block, count); ++f) total += area_of(face_at(vertices, faces, f));
        areas[b] = total;
    }
}

GK_KERNEL area_adj(int n, const real* vertices, const int* faces, double adj_area, double* adj_corners) {
    GK_EACH(f, n) adj_area_of(face_at(vertices, faces, f), adj_area, adj_corners, f);
}

GK_KERNEL face_normals_fwd(int n, const real* vertices, const int* faces, real* normals) {
    GK_EACH(f, n) set_row(normals, f, to_real(face_at(vertices, faces, f).normal));
}

GK_KERNEL face_normals_adj(int n, const real* vertices, const int* faces, const real* adj_normals, double* adj_corners) {
    GK_EACH(f, n) {
        Face t = face_at(vertices, faces, f);
        Vec3d adj_across = adj_normal_of(t, to_double(row(adj_normals, f)));
        for (int k = 0; k < 3; ++k) put_row(adj_corners, 3 * f + k, (1 / t.unit) * adj_area_vector(t, adj_across, k));
    }
}

// At each corner of each face the normal times the angle, (F, 3, 3): what a face gives to the normals of its vertices.
GK_KERNEL corner_normals_fwd(int n, const real* vertices, const int* faces, double* corner_normals) {
    GK_EACH(f, n) {
        Face t = face_at(vertices, faces, f);
        for (int k = 0; k < 3; ++k) put_row(corner_normals, 3 * f + k, angle_of(t, k) * t.normal);
    }
}

template <class T> GK_FN bool is_zero(const T* rows, int i) {
    rows += 3 * (uint64)i;
    return rows[0] == 0 && rows[1] == 0 && rows[2] == 0;
}
template <class T> GK_FN bool is_zero_at(const T* rows, const int* faces, int f) {
    faces += 3 * (uint64)f;
    return is_zero(rows, faces[0]) && is_zero(rows, faces[1]) && is_zero(rows, faces[2]);
}

// The same of the faces at vertices whose normals have a cotangent; the rows of others are left as they are.
GK_KERNEL some_corner_normals(int n, const real* vertices, const int* faces, const real* adj_normals, double* corner_normals) {
    GK_EACH(f, n) {
        if (is_zero_at(adj_normals, faces, f)) continue;
        Face t = face_at(vertices, faces, f);
        for (int k = 0; k < 3; ++k) put_row(corner_normals, 3 * f + k, angle_of(t, k) * t.normal);
    }
}

// adj_sums is the cotangent of the sum of corner normals at each vertex.
GK_KERNEL corner_normals_adj(int n, const real* vertices, const int* faces, const double* adj_sums, double* adj_corners) {
    GK_EACH(f, n) {
        if (is_zero_at(adj_sums, faces, f)) {
            for (int k = 0; k < 3; ++k) put_row(adj_corners, 3 * f + k, {0, 0, 0});
            continue;
        }
        Face t = face_at(vertices, faces, f);
        double adj_angle[3];
        Vec3d adj_normal = {0, 0, 0}, adj[3];
        for (int k = 0; k < 3; ++k) {
            Vec3d adj_corner = at_row(adj_sums, faces[3 * (uint64)f + k]);
            adj_angle[k] = dot(t.normal, adj_corner);
            adj_normal += angle_of(t, k) * adj_corner;
        }
        Vec3d adj_across = adj_normal_of(t, adj_normal);
        for (int k = 0; k < 3; ++k) adj[k] = adj_area_vector(t, adj_across, k);

        // An edge that turns changes the angles at its two ends by as much, one up and one down.
        for (int k = 0; k < 3 && t.twice_area > 0; ++k) {
            int next = (k + 1) % 3;
            double turn = (adj_angle[k] - adj_angle[next]) / dot(t.edges[k], t.edges[k]);
            Vec3d along = turn * cross(t.normal, t.edges[k]);
            adj[k] = adj[k] + along;
            adj[next] = adj[next] - along;
        }
        for (int k = 0; k < 3; ++k) put_row(adj_corners, 3 * f + k, (1 / t.unit) * adj[k]);
    }
}

// The sum of corner normals at vertex v. Where they cancel but for rounding, as on a sheet with two sides, it is zero: no
// direction, and no gradient.
GK_FN Vec3d normal_sum(const int* offset, const int* corners, const double* corner_normals, int v) {
    Vec3d total = {0, 0, 0};
    double squares = 0;
    for (int j = offset[v]; j < offset[v + 1]; ++j) {
        Vec3d c = at_row(corner_normals, corners[j]);
        total += c;
        squares += dot(c, c);
    }
    return dot(total, total) > 1e-28 * squares ? total : Vec3d{0, 0, 0};
}

GK_KERNEL vertex_normals_fwd(int n, const int* offset, const int* corners, const double* corner_normals, real* normals) {
    GK_EACH(v, n) {
        Vec3d sum = normal_sum(offset, corners, corner_normals, v);
        set_row(normals, v, to_real(normalized(sum)));
    }
}

GK_KERNEL vertex_normals_adj(int n, const int* offset, const int* corners, const double* corner_normals,
                             const real* adj_normals, double* adj_sums) {
    GK_EACH(v, n) {
        if (is_zero(adj_normals, v)) {
            put_row(adj_sums, v, {0, 0, 0});
            continue;
        }
        Vec3d sum = normal_sum(offset, corners, corner_normals, v);
        put_row(adj_sums, v, adj_normalized(sum, to_double(row(adj_normals, v))));
    }
}

// Corner k of face f, seen from the centre c and scaled; c is scaled already.
GK_FN Vec3d from_center(const real* vertices, const int* faces, int f, int k, Vec3d c, double scale) {
    return scale * to_double(row(vertices, faces[3 * (uint64)f + k])) - c;
}

// Six times the volumes between blocks of faces and the centre, all lengths times `scale`.
GK_KERNEL volume_fwd(int n, int block, int count, const real* vertices, const int* faces, double cx, double cy, double cz,
                     double scale, double* volumes) {
    GK_EACH(b, n) {
        double total = 0;
        for (int f = b * block; f < min(b * block + block, count); ++f) {
            Vec3d p[3];
            for (int k = 0; k < 3; ++k) p[k] = from_center(vertices, faces, f, k, {cx, cy, cz}, scale);
            total += dot(p[0], balanced_cross(p[1], p[2]));
        }
        volumes[b] = total;
    }
}

// The centre stays where it is; moving it is the caller's.
GK_KERNEL volume_adj(int n, const real* vertices, const int* faces, double cx, double cy, double cz, double scale,
                     double adj_volume, double* adj_corners) {
    GK_EACH(f, n) {
        Vec3d p[3];
        for (int k = 0; k < 3; ++k) p[k] = from_center(vertices, faces, f, k, {cx, cy, cz}, scale);
        for (int k = 0; k < 3; ++k) {
            Vec3d adj = (adj_volume / 6) * balanced_cross(p[(k + 1) % 3], p[(k + 2) % 3]);
            put_row(adj_corners, 3 * f + k, (1 / scale) * ((1 / scale) * adj));
        }
    }
}

}  // namespace gk
