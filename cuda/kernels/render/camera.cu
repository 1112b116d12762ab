// Rays of pixels and pixels of points, with their adjoints. Items are blocks of `block` pixels or points out of `count`; each
// has a row of sums of its own, which the caller adds up in order.
#include "../../render/camera.h"

namespace gk {

GK_KERNEL camera_rays_fwd(int n, int block, int count, Camera camera, Pixels pixels, real* origins, real* directions) {
    GK_EACH(b, n) {
        int end = min(b * block + block, count);
        for (int i = b * block; i < end; i += LANES) {
            Sight seen = seen_at(camera, pixels_at(pixels, i, end));
            for (int k = 0; k < LANES && i + k < end; ++k) {
                CameraRay ray = ray_through(camera, seen.at.at(k));
                set_row(origins, i + k, to_real(ray.origin));
                set_row(directions, i + k, to_real(ray.direction));
            }
        }
    }
}

// adj_pixels is left alone where the pixels are those of a window.
GK_KERNEL camera_rays_adj(int n, int block, int count, Camera camera, Pixels pixels, const real* adj_origins,
                          const real* adj_directions, real* adj_pixels, double* sums) {
    GK_EACH(b, n) {
        CameraSums s = {};
        int end = min(b * block + block, count);
        for (int i = b * block; i < end; i += LANES) {
            Sight seen = seen_at(camera, pixels_at(pixels, i, end));
            for (int j = i; j < min(i + LANES, end); ++j) {
                Plane adj = adj_ray_through(camera, seen.bent.at(j - i), seen.at.at(j - i), to_double(row(adj_origins, j)),
                                            to_double(row(adj_directions, j)), s);
                if (pixels.at) adj_pixels[2 * (uint64)j] = real(adj.x), adj_pixels[2 * (uint64)j + 1] = real(adj.y);
            }
        }
        put_sums(sums, b, s);
    }
}

// The same for the rays `at` of a window alone: row i of the cotangents is of ray at[i].
GK_KERNEL camera_hits_adj(int n, int block, int count, Camera camera, Pixels pixels, const int* at, const real* adj_origins,
                          const real* adj_directions, double* sums) {
    GK_EACH(b, n) {
        CameraSums s = {};
        int end = min(b * block + block, count);
        for (int i = b * block; i < end; i += LANES) {
            PlanePoints of;
            for (int k = 0; k < LANES; ++k) of.set(k, window_pixel(pixels, at[min(i + k, end - 1)]));
            Sight seen = seen_at(camera, of);
            for (int j = i; j < min(i + LANES, end); ++j)
                adj_ray_through(camera, seen.bent.at(j - i), seen.at.at(j - i), to_double(row(adj_origins, j)), to_double(row(adj_directions, j)), s);
        }
        put_sums(sums, b, s);
    }
}

GK_KERNEL project_fwd(int n, Camera camera, const real* points, real* pixel, real* depth) {
    GK_EACH(i, n) {
        Vec3d p = to_camera(camera, to_double(row(points, i)));
        Plane at = pixel_of(camera, onto_plane(camera, p));
        pixel[2 * (uint64)i] = real(at.x);
        pixel[2 * (uint64)i + 1] = real(at.y);
        depth[i] = real(p.z);
    }
}

GK_KERNEL project_adj(int n, int block, int count, Camera camera, const real* points, const real* adj_pixel,
                      const real* adj_depth, real* adj_points, double* sums) {
    GK_EACH(b, n) {
        CameraSums s = {};
        for (int i = b * block, end = min(i + block, count); i < end; ++i) {
            Plane adj = {adj_pixel[2 * (uint64)i], adj_pixel[2 * (uint64)i + 1]};
            set_row(adj_points, i, to_real(adj_projected(camera, to_double(row(points, i)), adj, adj_depth[i], s)));
        }
        put_sums(sums, b, s);
    }
}

}  // namespace gk
