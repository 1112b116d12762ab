// What rays hit, row by row of the hits alone, and what a pixel makes of its rays.
#include "../../render/bsdf.h"
#include "../../spatial/ray_adjoint.h"

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

// What goes back to faces from the hits of a block: rows of `width` sums, of a face's corners and, if there are 18, of the vertices'
// normals there. Hits that are near each other are on few faces: a table finds the latest row of most.
struct Pieces {
    static constexpr int SLOTS = GK_GPU ? 16 : 256;
    int slot[SLOTS], width, found;
    int* face;
    double* sums;

    GK_FN void start(int w, int* f, double* s) {
        width = w, found = 0, face = f, sums = s;
        for (int k = 0; k < SLOTS; ++k) slot[k] = -1;
    }
    GK_FN double* of(int f) {
        int& k = slot[uint(f) % SLOTS];
        if (k < 0 || face[k] != f) {
            k = found++, face[k] = f;
            for (int c = 0; c < width; ++c) sums[width * k + c] = 0;
        }
        return sums + width * k;
    }
};
GK_FN void add_to(double* sums, Vec3d v) { sums[0] += v.x, sums[1] += v.y, sums[2] += v.z; }

// From the cotangents of surfaces to those of rays and faces. Row i is of ray at[i]; adj_t, adj_flat and adj_place are by ray, of its
// t, its face's normal and the position, those that `given` has a bit for: 1, 2, 4; with 8, adj_barycentric is by row. Item b has `block` rows: its pieces[b]
// pieces, with `width` = 9 or 18 sums each, are at rows b * block and on of piece_face and piece_sums.
GK_KERNEL surface_adj(int n, int block, int count, Mesh mesh, double unit, const real* vertex_normals, const int* object_of_face,
                      const int* smooth, int width, const int* at, const int* face, const real* barycentric, const real* directions,
                      const real* t, int given, const real* adj_t, const real* adj_flat, const real* adj_place,
                      const real* adj_barycentric, const real* adj_positions, const real* adj_normals, const real* adj_towards,
                      real* adj_origins, real* adj_directions, int* pieces, int* piece_face, double* piece_sums) {
    GK_EACH(b, n) {
        Pieces all;
        all.start(width, piece_face + (uint64)b * block, piece_sums + width * (uint64)b * block);
        for (int i = b * block; i < min((b + 1) * block, count); ++i) {
            const int j = at[i], f = face[i];
            double* piece = all.of(f);
            const int* corners = mesh.faces + 3 * (uint64)f;
            const real u = barycentric[2 * (uint64)i], v = barycentric[2 * (uint64)i + 1];
            Vec3 adj_normal = row(adj_normals, i), adj_position = row(adj_positions, i);
            real adj_u = given & 8 ? adj_barycentric[2 * (uint64)i] : 0, adj_v = given & 8 ? adj_barycentric[2 * (uint64)i + 1] : 0;
            if (smooth[object_of_face[f]]) {
                // The shading normal is that of the vertices, unless they have none there.
                Vec3 raw = between_corners(vertex_normals, corners, u, v);
                if (dot(raw, raw) > 0) {
                    Vec3 adj = adj_normalized(raw, adj_normal), first = row(vertex_normals, corners[0]);
                    adj_normal = {0, 0, 0};
                    adj_u += dot(adj, row(vertex_normals, corners[1]) - first);
                    adj_v += dot(adj, row(vertex_normals, corners[2]) - first);
                    add_to(piece + 9, to_double((1 - u - v) * adj)), add_to(piece + 12, to_double(u * adj)), add_to(piece + 15, to_double(v * adj));
                }
            }
            if (given & 2) adj_normal += row(adj_flat, j);
            if (given & 4) adj_position += row(adj_place, j);
            HitGradient g = adj_hit(mesh, unit, f, row(directions, i), t[j], u, v, given & 1 ? adj_t[j] : 0, adj_u, adj_v, adj_normal, adj_position);
            for (int k = 0; k < 3; ++k) add_to(piece + 3 * k, g.corner[k]);
            set_row(adj_origins, i, to_real(g.origin));
            set_row(adj_directions, i, to_real(g.direction) + row(adj_towards, i));
        }
        pieces[b] = all.found;
    }
}

// The same of the first hits of a camera that nobody asks for, without surfaces: row i is of ray i, which may have hit nothing.
GK_KERNEL plain_channels_adj(int n, int block, int count, Mesh mesh, double unit, const int* face, const real* barycentric,
                             const real* directions, const real* t, int given, const real* adj_t, const real* adj_flat,
                             const real* adj_place, const real* adj_barycentric, int* pieces, int* piece_face, double* piece_sums) {
    GK_EACH(b, n) {
        Pieces all;
        all.start(9, piece_face + (uint64)b * block, piece_sums + 9 * (uint64)b * block);
        for (int i = b * block; i < min((b + 1) * block, count); ++i) {
            if (face[i] < 0) continue;
            double* piece = all.of(face[i]);
            const real *at = barycentric + 2 * (uint64)i, *adj_at = adj_barycentric + 2 * (uint64)i;
            const Vec3 none = {0, 0, 0}, adj_normal = given & 2 ? row(adj_flat, i) : none, adj_position = given & 4 ? row(adj_place, i) : none;
            HitGradient g = adj_hit(mesh, unit, face[i], row(directions, i), t[i], at[0], at[1], given & 1 ? adj_t[i] : 0,
                                    given & 8 ? adj_at[0] : 0, given & 8 ? adj_at[1] : 0, adj_normal, adj_position);
            for (int k = 0; k < 3; ++k) add_to(piece + 3 * k, g.corner[k]);
        }
        pieces[b] = all.found;
    }
}

// The pieces of all items, one after the other: those of item b from offset[b] on.
GK_KERNEL list_pieces(int n, int block, int width, const int* pieces, const int* offset, const int* piece_face, const double* piece_sums,
                      int* face, double* sums) {
    GK_EACH(b, n) {
        for (int k = 0; k < pieces[b]; ++k) {
            const uint64 from = (uint64)b * block + k, to = (uint64)offset[b] + k;
            face[to] = piece_face[from];
            for (int c = 0; c < width; ++c) sums[width * to + c] = piece_sums[width * from + c];
        }
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
