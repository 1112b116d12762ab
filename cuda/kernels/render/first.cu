// What the rays of a window of pixels hit first, from the camera to the random numbers of the hits.
//
// Item b has rays b * block to b * block + block - 1 of `count`, of which hits[b] hit something; invalid[b] receives the first of
// them that is no ray, or -1.
#include "../../render/camera.h"
#include "../../spatial/closest_hit.h"

namespace gk {

// Rays of a block, as rows and in columns; the origins of the columns are in the tree's coordinates.
struct Cast {
    Columns<RAYS> columns;
    real origin[3 * RAYS], direction[3 * RAYS];

    GK_FN void set_origin(const Bvh& bvh, int i, Vec3 p) {
        Vec3d at = to_local(bvh, &p.x, 0);
        set_row(origin, i, p);
        columns.origin[0][i] = real(at.x), columns.origin[1][i] = real(at.y), columns.origin[2][i] = real(at.z);
    }
    // A pixel that the lens has no ray for, of a direction that is NaN, sees nothing: a ray away from the mesh takes its place.
    GK_FN void replace_blind(const Bvh& bvh, const double from, int m) {
        const real* x = columns.direction[0];
        int blind = 0;
        for (int i = 0; i < m; ++i) blind |= x[i] != x[i];
        for (int i = 0; i < (blind ? m : 0); ++i) {
            if (x[i] == x[i]) continue;
            set_origin(bvh, i, to_real({bvh.center[0] + from, bvh.center[1] + from, bvh.center[2] + from}));
            for (int k = 0; k < 3; ++k) columns.direction[k][i] = direction[3 * i + k] = 1;
        }
    }
};

// stream[i] tells the pixel of ray i from others of the image, `width` pixels wide: its number there, xor `mixed`. index[i] is the
// number of the sample within it. A pixel without a ray, of a direction that is NaN, sees nothing. Where the hits are `known`, t, face and barycentric are read.
GK_KERNEL find_hits(int n, int block, int count, Camera camera, Pixels pixels, int width, int mixed, int known, Bvh bvh, Mesh mesh,
                         const real* face_normals, real* directions, uint* stream, int* index, real* t, int* face, real* barycentric,
                         real* normal, int* hits, int* invalid) {
    GK_SCRATCH Block scratch;
    GK_SCRATCH Nearest found[RAYS / LANES];
    GK_SCRATCH Cast scratch_cast;
    Block* rays_of_block = located(&scratch);
    Nearest* best = located(found);
    Cast& cast = *located(&scratch_cast);
    GK_EACH(b, n) {
        const int begin = b * block, end = min(begin + block, count), m = end - begin, samples = pixels.samples * pixels.samples;
        real(*towards)[RAYS] = cast.columns.direction, (*from)[RAYS] = cast.columns.origin;
        for (int i = 0; i < m; i += LANES) {
            Sight sight = seen_at(camera, pixels_at(pixels, begin + i, end));
            for (int k = 0; k < LANES; ++k) {
                Vec3 d = to_real(ray_through(camera, sight.at.at(k)).direction);
                towards[0][i + k] = d.x, towards[1][i + k] = d.y, towards[2][i + k] = d.z;
            }
            if (camera.orthographic && !known)
                for (int k = 0; k < min(LANES, m - i); ++k) cast.set_origin(bvh, i + k, to_real(ray_through(camera, sight.at.at(k)).origin));
        }
        real* to = directions + 3 * (uint64)begin;
        for (int i = 0; i < m; ++i) to[3 * i] = towards[0][i], to[3 * i + 1] = towards[1][i], to[3 * i + 2] = towards[2][i];
        int cell = begin / samples, sample = begin - cell * samples, line = cell / pixels.columns, column = cell - line * pixels.columns;
        for (int i = begin; i < end; sample = 0) {
            const uint own = uint((pixels.top + line) * width + pixels.left + column) ^ uint(mixed);
            const int stop = min(end, i + samples - sample);
            for (; i < stop; ++i) stream[i] = own, index[i] = sample++;
            if (++column == pixels.columns) column = 0, ++line;
        }
        if (known) {
            hits[b] = 0, invalid[b] = -1;
            for (int i = begin; i < end; ++i) {
                set_row(normal, i, face[i] < 0 ? Vec3{0, 0, 0} : row(face_normals, face[i]));
                hits[b] += face[i] >= 0;
            }
            continue;
        }
        if (!camera.orthographic) {
            cast.set_origin(bvh, 0, to_real(ray_through(camera, {0, 0}).origin));
            const Vec3 p = row(cast.origin, 0), local = {from[0][0], from[1][0], from[2][0]};
            for (int i = 0; i < m; ++i) cast.origin[3 * i] = p.x, cast.origin[3 * i + 1] = p.y, cast.origin[3 * i + 2] = p.z;
            for (int i = 0; i < m; ++i) from[0][i] = local.x, from[1][i] = local.y, from[2][i] = local.z;
        }
        // The rows of rays without a lens are those that the caller wants.
        if (camera.distorted)
            for (int i = 0; i < 3 * m; ++i) cast.direction[i] = to[i];
        if (camera.distorted) cast.replace_blind(bvh, 4 * bvh.scale, m);
        cast.columns.repeat_last(m);
        const Rays rays = {cast.origin, camera.distorted ? cast.direction : to, nullptr, nullptr, 0, infinity()};
        HitRows out = {t + begin, face + begin, barycentric + 2 * (uint64)begin, normal + 3 * (uint64)begin};
        hits[b] = closest_hits(bvh, mesh, rays, CULL_NONE, face_normals, 0, m, cast.columns, *rays_of_block, best, out, invalid[b]);
        if (invalid[b] >= 0) invalid[b] += begin;
        if (!camera.distorted) continue;
        for (int i = begin; i < end; ++i) {
            const real x = directions[3 * (uint64)i];
            if (x == x) continue;
            hits[b] -= face[i] >= 0;
            t[i] = real(infinity()), face[i] = -1, barycentric[2 * (uint64)i] = barycentric[2 * (uint64)i + 1] = 0;
            set_row(normal, i, {0, 0, 0});
        }
    }
}

GK_KERNEL count_hits(int n, int block, int count, const int* face, int* hits) {
    GK_EACH(b, n) {
        int total = 0;
        for (int i = b * block; i < min(b * block + block, count); ++i) total += face[i] >= 0;
        hits[b] = total;
    }
}

// The numbers of the rays that hit something; those of item b go to at[offset[b]] and on.
GK_KERNEL list_hits(int n, int block, int count, const int* face, const int* offset, int* at) {
    GK_EACH(b, n) {
        int to = offset[b];
        for (int i = b * block; i < min(b * block + block, count); ++i)
            if (face[i] >= 0) at[to++] = i;
    }
}

}  // namespace gk
