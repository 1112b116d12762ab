// What the rays of a window of pixels hit first, from the camera to the random numbers of the hits.
//
// Item b has rays b * block to b * block + block - 1 of `count`, of which hits[b] hit something; invalid[b] receives the first of
// them that is no ray, or -1.
#include "../../render/camera.h"
#include "../../spatial/closest_hit.h"

namespace gk {

// Rays of a block.
struct Cast {
    real origin[3 * RAYS], direction[3 * RAYS];
};

GK_FN bool is_blind(const Cast& cast, int i) {
    Vec3 d = row(cast.direction, i);
    return !(d.x == d.x && d.y == d.y && d.z == d.z);
}

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
        const int begin = b * block, end = min(begin + block, count), samples = pixels.samples * pixels.samples;
        for (int i = begin; i < end; i += LANES) {
            Sight sight = seen_at(camera, pixels_at(pixels, i, end));
            for (int k = 0; k < LANES && i + k < end; ++k) {
                CameraRay ray = ray_through(camera, sight.at.at(k));
                set_row(cast.origin, i + k - begin, to_real(ray.origin));
                set_row(cast.direction, i + k - begin, to_real(ray.direction));
            }
        }
        for (int i = 0; i < 3 * (end - begin); ++i) directions[3 * (uint64)begin + i] = cast.direction[i];
        if (camera.distorted)
            for (int i = 0; i < end - begin; ++i)
                if (!(cast.direction[3 * i] == cast.direction[3 * i])) {
                    // Away from the mesh.
                    const double from = 4 * bvh.scale;
                    set_row(cast.origin, i, to_real({bvh.center[0] + from, bvh.center[1] + from, bvh.center[2] + from}));
                    set_row(cast.direction, i, {1, 1, 1});
                }
        int cell = begin / samples, sample = begin - cell * samples, line = cell / pixels.columns, column = cell - line * pixels.columns;
        for (int i = begin; i < end; ++i) {
            stream[i] = uint((pixels.top + line) * width + pixels.left + column) ^ uint(mixed), index[i] = sample;
            if (++sample < samples) continue;
            sample = 0;
            if (++column < pixels.columns) continue;
            column = 0, ++line;
        }
        if (known) {
            hits[b] = 0, invalid[b] = -1;
            for (int i = begin; i < end; ++i) {
                set_row(normal, i, face[i] < 0 ? Vec3{0, 0, 0} : row(face_normals, face[i]));
                hits[b] += face[i] >= 0;
            }
            continue;
        }
        // A pixel that the lens has no ray for sees nothing: another ray takes its place.
        for (int i = 0; i < end - begin; ++i)
            if (is_blind(cast, i)) set_row(cast.origin, i, {real(bvh.center[0]), real(bvh.center[1]), real(bvh.center[2])}), set_row(cast.direction, i, {1, 1, 1});
        const Rays rays = {cast.origin, cast.direction, nullptr, nullptr, 0, infinity()};
        HitRows out = {t + begin, face + begin, barycentric + 2 * (uint64)begin, normal + 3 * (uint64)begin};
        hits[b] = closest_hits(bvh, mesh, rays, CULL_NONE, face_normals, 0, end - begin, *rays_of_block, best, out, invalid[b]);
        if (invalid[b] >= 0) invalid[b] += begin;
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
