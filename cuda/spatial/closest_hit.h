// The closest hits of a block of rays.
#pragma once
#include "ray_walk.h"

namespace gk {

// The closest hit of each ray of a block; the lowest face of a tie. What is nearer beyond doubt is not computed until the end.
struct FindClosest {
    static constexpr bool ONCE = false;
    const Bvh& bvh;
    const Mesh& mesh;
    const Rays& rays;
    Block& block;
    const real* face_normals;
    Seen* best;
    int cull, begin;

    GK_FN void operator()(int i, const Seen& seen, real& last) const {
        Seen& known = best[i];
        if (!in_range(bvh, mesh, rays, begin + i, block.first(i), block.end(i), seen)) return;
        if (known.face >= 0 && seen.last >= known.first) {
            double t = cross_face(bvh, mesh, rays, begin + i, seen), t_known = cross_face(bvh, mesh, rays, begin + i, known);
            if (t > t_known || (t == t_known && seen.face > known.face)) return;
        }
        known = seen;
        last = min(last, seen.last);
        prefetch(mesh.faces + 3 * (uint64)seen.face);
        prefetch(face_normals + 3 * (uint64)seen.face);
    }
};

// Where hits of a block go, from its first ray on. A miss has t infinite, face -1, and zeros.
struct HitRows {
    real* t;
    int* face;
    real* barycentric;
    real* normal;
};

// Finds the hits of rays begin to end - 1. `invalid` becomes the first that is no ray, or -1; the answer is how many hit.
GK_FN int closest_hits(const Bvh& bvh, const Mesh& mesh, const Rays& rays, int cull, const real* face_normals, int begin, int end,
                       Block& block, Seen* best, const HitRows& out, int& invalid) {
    const int m = end - begin;
    for (int i = 0; i < m; ++i) best[i].face = -1;
    FindClosest find = {bvh, mesh, rays, block, face_normals, best, cull, begin};
    invalid = walk_rays(bvh, rays, begin, end, block, find);
    // Misses at once, hits LANES at a time.
    for (int i = 0; i < m; ++i) out.t[i] = real(infinity());
    for (int i = 0; i < 2 * m; ++i) out.barycentric[i] = 0;
    for (int i = 0; i < 3 * m; ++i) out.normal[i] = 0;
    int hits[RAYS + LANES], n_hits = 0;
    for (int i = 0; i < m; ++i) {
        out.face[i] = best[i].face;
        hits[n_hits] = i;
        if (best[i].face < 0) continue;
        ++n_hits;
        for (int k = 0; k < 3; ++k) prefetch(mesh.vertices + 3 * (uint64)mesh.faces[3 * (uint64)best[i].face + k]);
    }
    for (int first = 0; first < n_hits; first += LANES) {
        const Seen* seen[LANES];
        int row_of[LANES];
        for (int lane = 0; lane < LANES; ++lane) row_of[lane] = hits[min(first + lane, n_hits - 1)], seen[lane] = best + row_of[lane];
        Crossings at;
        cross_faces(bvh, mesh, rays, [&](int lane) { return begin + row_of[lane]; }, seen, at);
        for (int lane = 0; lane < min(LANES, n_hits - first); ++lane) {
            int i = row_of[lane];
            out.t[i] = real(at.t[lane]);
            out.barycentric[2 * i] = real(at.u[lane]), out.barycentric[2 * i + 1] = real(at.v[lane]);
            set_row(out.normal, i, row(face_normals, out.face[i]));
        }
    }
    return n_hits;
}

}  // namespace gk
