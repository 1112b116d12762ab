// What rays hit, row by row of the hits alone, and what a pixel makes of its rays.
#include "../../render/bsdf.h"

namespace gk {

GK_FN Vec3 between_corners(const real* attribute, const int* f, real u, real v) {
    Vec3 a = row(attribute, f[0]);
    return a + u * (row(attribute, f[1]) - a) + v * (row(attribute, f[2]) - a);
}

// Row i is of ray at[i]; rays[at[i]] is its number among those of the camera, which have the random numbers. smooth is by
// object: whether it is shaded with normals of the vertices.
GK_KERNEL surface_fwd(int n, const int* at, const int* rays, const real* vertices, const int* faces, const real* vertex_normals,
                      const int* object_of_face, const int* smooth, const real* object_materials, const int* face,
                      const real* barycentric, const real* normals, const real* directions, const uint* stream, const int* index,
                      int* face_at, real* barycentric_at, int* rays_at, uint* stream_at, int* index_at, real* materials,
                      real* positions, real* shading_normals, real* face_normals, real* directions_at) {
    GK_EACH(i, n) {
        const int j = at[i], f = face[j], ray = rays[j], object = object_of_face[f];
        const int* corners = faces + 3 * (uint64)f;
        const real u = barycentric[2 * (uint64)j], v = barycentric[2 * (uint64)j + 1];
        face_at[i] = f, rays_at[i] = ray, stream_at[i] = stream[ray], index_at[i] = index[ray];
        barycentric_at[2 * (uint64)i] = u, barycentric_at[2 * (uint64)i + 1] = v;
        for (int k = 0; k < MATERIAL; ++k) materials[MATERIAL * (uint64)i + k] = object_materials[MATERIAL * (uint64)object + k];
        set_row(positions, i, between_corners(vertices, corners, u, v));
        Vec3 flat = row(normals, j), n = flat;
        if (smooth[object]) {
            Vec3 raw = between_corners(vertex_normals, corners, u, v);
            if (dot(raw, raw) > 0) n = normalized(raw);
        }
        set_row(shading_normals, i, n);
        set_row(face_normals, i, flat);
        set_row(directions_at, i, row(directions, j));
    }
}

// Takes the cotangents of shading normals and leaves those of face normals; adj_corners (N, 3, 3) is of the vertices' normals.
// adj_barycentric adds up.
GK_KERNEL surface_adj(int n, const int* faces, const real* vertex_normals, const int* object_of_face, const int* smooth,
                      const int* face, const real* barycentric, real* adj_normals, real* adj_barycentric, real* adj_corners) {
    GK_EACH(i, n) {
        const int* corners = faces + 3 * (uint64)face[i];
        const real u = barycentric[2 * (uint64)i], v = barycentric[2 * (uint64)i + 1];
        Vec3 adj = {0, 0, 0};
        if (smooth[object_of_face[face[i]]]) {
            Vec3 raw = between_corners(vertex_normals, corners, u, v);
            if (dot(raw, raw) > 0) {
                adj = adj_normalized(raw, row(adj_normals, i));
                set_row(adj_normals, i, {0, 0, 0});
            }
            Vec3 a = row(vertex_normals, corners[0]);
            adj_barycentric[2 * (uint64)i] += dot(adj, row(vertex_normals, corners[1]) - a);
            adj_barycentric[2 * (uint64)i + 1] += dot(adj, row(vertex_normals, corners[2]) - a);
        }
        set_row(adj_corners, 3 * i, (1 - u - v) * adj);
        set_row(adj_corners, 3 * i + 1, u * adj);
        set_row(adj_corners, 3 * i + 2, v * adj);
    }
}

// Sums of the cotangents of materials by object, (n, objects, 5): item b has `block` hits.
GK_KERNEL sum_materials(int n, int block, int count, int objects, const int* object_of_face, const int* face, const real* rows,
                        double* sums) {
    GK_EACH(b, n) {
        double* own = sums + 5 * (uint64)objects * b;
        for (int k = 0; k < 5 * objects; ++k) own[k] = 0;
        for (int i = b * block; i < min((b + 1) * block, count); ++i)
            for (int k = 0; k < 5; ++k) own[5 * object_of_face[face[i]] + k] += rows[MATERIAL * (uint64)i + k];
    }
}

// ---- what the camera sees that emits

// emission (objects, 4): radiance, and whether both sides emit.
GK_FN bool is_emitting(const real* emission, const real* normals, const real* directions, int i) {
    return emission[3] != 0 || dot(row(normals, i), row(directions, i)) < 0;
}

GK_KERNEL emission_fwd(int n, double r, double g, double b, const real* emission, const int* object_of_face, const int* face,
                       const real* normals, const real* directions, real* value) {
    GK_EACH(i, n) {
        if (face[i] < 0) {
            set_row(value, i, {real(r), real(g), real(b)});
            continue;
        }
        const real* own = emission + 4 * (uint64)object_of_face[face[i]];
        set_row(value, i, is_emitting(own, normals, directions, i) ? Vec3{own[0], own[1], own[2]} : Vec3{0, 0, 0});
    }
}

// Sums (n, objects + 1, 3) of the cotangents of the objects' emission and of the background: item b has `block` rays.
GK_KERNEL emission_adj(int n, int block, int count, int objects, const real* emission, const int* object_of_face, const int* face,
                       const real* normals, const real* directions, const real* adj, double* sums) {
    GK_EACH(b, n) {
        double* own = sums + 3 * (uint64)(objects + 1) * b;
        for (int k = 0; k < 3 * (objects + 1); ++k) own[k] = 0;
        for (int i = b * block; i < min((b + 1) * block, count); ++i) {
            int object = face[i] < 0 ? objects : object_of_face[face[i]];
            if (object < objects && !is_emitting(emission + 4 * (uint64)object, normals, directions, i)) continue;
            for (int k = 0; k < 3; ++k) own[3 * object + k] += adj[3 * (uint64)i + k];
        }
    }
}

// ---- the film

// Pixel i is the mean of its rays, which follow one another.
GK_KERNEL film_fwd(int n, int samples, int channels, const real* values, real* image) {
    GK_EACH(i, n) {
        const real* own = values + (uint64)samples * channels * i;
        real* pixel = image + channels * (uint64)i;
        for (int c = 0; c < channels; ++c) {
            real total = 0;
            for (int s = 0; s < samples; ++s) total += own[s * channels + c];
            pixel[c] = total / samples;
        }
    }
}

GK_KERNEL film_adj(int n, int samples, int channels, const real* adj_image, real* adj_values) {
    GK_EACH(i, n) {
        real* own = adj_values + (uint64)samples * channels * i;
        const real* pixel = adj_image + channels * (uint64)i;
        for (int s = 0; s < samples; ++s)
            for (int c = 0; c < channels; ++c) own[s * channels + c] = pixel[c] / samples;
    }
}

}  // namespace gk
