// The closest hits of a block of rays.
#pragma once
#include "ray_walk.h"

namespace gk {

// What LANES rays see nearest; face -1 is nothing.
struct alignas(64) Nearest {
    real first[LANES], last[LANES], u[LANES], v[LANES];
    int face[LANES];

    GK_FN Seen at(int lane) const { return {first[lane], last[lane], u[lane], v[lane], face[lane]}; }
    GK_FN void set(int lane, const Seen& a) { first[lane] = a.first, last[lane] = a.last, u[lane] = a.u, v[lane] = a.v, face[lane] = a.face; }
};

// The closest hit of each ray of a block; the lowest face of a tie. What is nearer beyond doubt is not computed until the end.
struct FindClosest {
    static constexpr bool ONCE = false, TOGETHER = true, ANY_ORDER = false;
    const Bvh& bvh;
    const Mesh& mesh;
    const Rays& rays;
    Block& block;
    const real* face_normals;
    Nearest* best;
    int cull, begin;

    GK_FN void operator()(int i, const Seen& seen, real& last) const {
        Nearest& group = best[uint(i) / LANES];
        const Seen known = group.at(Block::lane(i));
        if (!in_range(bvh, mesh, rays, begin + i, block.first(i), block.end(i), seen)) return;
        if (known.face >= 0 && seen.last >= known.first) {
            double t = cross_face(bvh, mesh, rays, begin + i, seen), t_known = cross_face(bvh, mesh, rays, begin + i, known);
            if (t > t_known || (t == t_known && seen.face > known.face)) return;
        }
        group.set(Block::lane(i), seen);
        last = min(last, seen.last);
        fetch(seen.face);
    }

    // What is beyond doubt.
    GK_FN uint together(int i, uint hits, const SeenByAll& seen, RayGroup& g) const {
        Nearest& known = best[uint(i) / LANES];
        const uint sure = hits & bits((seen.first > load(g.first) + SLACK) & (seen.last < load(g.end) - SLACK) & (seen.last < load(known.first)));
        if (!sure) return hits;
        const Mask mask = mask_of(sure);
        store(known.first, select(mask, seen.first, load(known.first))), store(known.last, select(mask, seen.last, load(known.last)));
        store(known.u, select(mask, seen.u, load(known.u))), store(known.v, select(mask, seen.v, load(known.v)));
        for (int lane = 0; lane < LANES; ++lane) known.face[lane] = sure >> lane & 1 ? seen.face : known.face[lane];
        store(g.last, select(mask, min(load(g.last), seen.last), load(g.last)));
        fetch(seen.face);
        return hits & ~sure;
    }

    GK_FN void fetch(int face) const {
        prefetch(mesh.faces + 3 * (uint64)face);
        prefetch(face_normals + 3 * (uint64)face);
    }
};

// Where hits of a block go, from its first ray on. A miss has t infinite, face -1, and zeros.
struct HitRows {
    real* t;
    int* face;
    real* barycentric;
    real* normal;
};

// Finds the hits of rays begin to end - 1, which are also in columns. `invalid` becomes the first that is no ray, or -1; the answer
// is how many hit.
template <int N>
GK_FN int closest_hits(const Bvh& bvh, const Mesh& mesh, const Rays& rays, int cull, const real* face_normals, int begin, int end,
                       const Columns<N>& in, Block& block, Nearest* best, const HitRows& out, int& invalid) {
    const int m = end - begin;
    for (int k = 0; k * LANES < m; ++k) {
        store(best[k].first, splat(INFINITE));
        for (int lane = 0; lane < LANES; ++lane) best[k].face[lane] = -1;
    }
    FindClosest find = {bvh, mesh, rays, block, face_normals, best, cull, begin};
    invalid = walk_columns(bvh, rays, begin, end, in, block, find);
    // Misses at once, hits LANES at a time.
    for (int i = 0; i < m; ++i) out.t[i] = real(infinity());
    for (int i = 0; i < m; ++i) out.face[i] = -1;
    for (int i = 0; i < 2 * m; ++i) out.barycentric[i] = 0;
    for (int i = 0; i < 3 * m; ++i) out.normal[i] = 0;
    int hits[RAYS + LANES], n_hits = 0;
    for (int k = 0; k * LANES < m; ++k) {
        int some = -1;
        for (int lane = 0; lane < LANES; ++lane) some &= best[k].face[lane];
        // All bits of -1 are set; no other face has its sign.
        if (some < 0) continue;
        for (int i = k * LANES; i < min((k + 1) * LANES, m); ++i) {
            const int f = out.face[i] = best[k].face[Block::lane(i)];
            hits[n_hits] = i;
            if (f < 0) continue;
            ++n_hits;
            for (int c = 0; c < 3; ++c) prefetch(mesh.vertices + 3 * (uint64)mesh.faces[3 * (uint64)f + c]);
        }
    }
    for (int first = 0; first < n_hits; first += LANES) {
        Seen found[LANES];
        const Seen* seen[LANES];
        int row_of[LANES];
        for (int lane = 0; lane < LANES; ++lane) {
            const int i = row_of[lane] = hits[min(first + lane, n_hits - 1)];
            found[lane] = best[uint(i) / LANES].at(Block::lane(i)), seen[lane] = found + lane;
        }
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
