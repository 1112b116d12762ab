// Rays against a mesh: the closest hit and its adjoint, any hit, all hits.
//
// Kernels work on blocks of rays: item b has rays b * block to b * block + block - 1 of `count`. invalid[b] receives the first
// of them that is no ray, or -1.
#include "../../spatial/closest_hit.h"
#include "../../spatial/ray_adjoint.h"

namespace gk {

GK_KERNEL cast_rays_fwd(int n, int block, int count, Bvh bvh, Mesh mesh, Rays rays, int cull, const real* face_normals, real* t,
                        int* face, real* barycentric, real* normal, int* invalid) {
    GK_SCRATCH Block scratch;
    GK_SCRATCH Nearest found[RAYS / LANES];
    Block* rays_of_block = located(&scratch);
    Nearest* best = located(found);
    GK_EACH(b, n) {
        int begin = b * block, end = min(begin + block, count);
        HitRows out = {t + begin, face + begin, barycentric + 2 * (uint64)begin, normal + 3 * (uint64)begin};
        Columns<RAYS> in;
        in.read(bvh, rays, begin, end - begin);
        closest_hits(bvh, mesh, rays, cull, face_normals, begin, end, in, *rays_of_block, best, out, invalid[b]);
    }
}

// Cotangents of the rays, and of the corners of each ray's face: adj_corners is (N, 3, 3), its rows of misses are not written. `unit`
// is a length of the order of the mesh's.
GK_KERNEL cast_rays_adj(int n, Mesh mesh, double unit, const real* directions, const real* t, const int* face,
                        const real* barycentric, const real* adj_t, const real* adj_barycentric, const real* adj_normal,
                        const real* adj_position, real* adj_origins, real* adj_directions, real* adj_corners) {
    GK_EACH(i, n) {
        if (face[i] < 0) {
            set_row(adj_origins, i, {0, 0, 0});
            set_row(adj_directions, i, {0, 0, 0});
            continue;
        }
        const real *at = barycentric + 2 * (uint64)i, *adj_at = adj_barycentric + 2 * (uint64)i;
        HitGradient g = adj_hit(mesh, unit, face[i], row(directions, i), t[i], at[0], at[1], adj_t[i], adj_at[0], adj_at[1],
                                row(adj_normal, i), row(adj_position, i));
        set_row(adj_origins, i, to_real(g.origin));
        set_row(adj_directions, i, to_real(g.direction));
        for (int k = 0; k < 3; ++k) set_row(adj_corners, 3 * i + k, to_real(g.corner[k]));
    }
}

// Whether each ray of a block hits anything.
struct FindAny {
    static constexpr bool ONCE = false, TOGETHER = false, ANY_ORDER = true;
    const Bvh& bvh;
    const Mesh& mesh;
    const Rays& rays;
    Block& block;
    int* found;
    int cull, begin;

    GK_FN void operator()(int i, const Seen& seen, real& last) const {
        if (!found[begin + i] && in_range(bvh, mesh, rays, begin + i, block.first(i), block.end(i), seen)) {
            found[begin + i] = 1;
            last = NOWHERE;
        }
    }
};

GK_KERNEL occluded_fwd(int n, int block, int count, Bvh bvh, Mesh mesh, Rays rays, int cull, int* found, int* invalid) {
    GK_SCRATCH Block scratch;
    Block* rays_of_block = located(&scratch);
    GK_EACH(b, n) {
        int begin = b * block, end = min(begin + block, count);
        for (int i = begin; i < end; ++i) found[i] = 0;
        FindAny find = {bvh, mesh, rays, *rays_of_block, found, cull, begin};
        invalid[b] = walk_rays(bvh, rays, begin, end, *rays_of_block, find);
    }
}

// How many triangles each ray of a block hits.
struct CountHits {
    static constexpr bool ONCE = true, TOGETHER = false, ANY_ORDER = false;
    const Bvh& bvh;
    const Mesh& mesh;
    const Rays& rays;
    Block& block;
    int* hits;
    int cull, begin;

    GK_FN void operator()(int i, const Seen& seen, real&) const {
        hits[begin + i] += in_range(bvh, mesh, rays, begin + i, block.first(i), block.end(i), seen);
    }
};

GK_KERNEL count_hits_fwd(int n, int block, int count, Bvh bvh, Mesh mesh, Rays rays, int cull, int* hits, int* invalid) {
    GK_SCRATCH Block scratch;
    Block* rays_of_block = located(&scratch);
    GK_EACH(b, n) {
        int begin = b * block, end = min(begin + block, count);
        for (int i = begin; i < end; ++i) hits[i] = 0;
        CountHits find = {bvh, mesh, rays, *rays_of_block, hits, cull, begin};
        invalid[b] = walk_rays(bvh, rays, begin, end, *rays_of_block, find);
    }
}

// Writes the hits of each ray of a block from offset[i] on, LANES at a time, in the order in which they are found.
struct ListHits {
    static constexpr bool ONCE = true, TOGETHER = false, ANY_ORDER = false;
    const Bvh& bvh;
    const Mesh& mesh;
    const Rays& rays;
    Block& block;
    const uint64* offset;
    real* t;
    int* face;
    int* written;  // by ray of the block
    int cull, begin;
    Seen seen[LANES];
    int ray[LANES], waiting;

    GK_FN void operator()(int i, const Seen& triangle, real&) {
        if (!in_range(bvh, mesh, rays, begin + i, block.first(i), block.end(i), triangle)) return;
        seen[waiting] = triangle, ray[waiting] = begin + i;
        if (++waiting == LANES) write();
    }

    GK_FN void write() {
        if (!waiting) return;
        const Seen* of[LANES];
        for (int lane = 0; lane < LANES; ++lane) of[lane] = &seen[min(lane, waiting - 1)];
        Crossings at;
        cross_faces(bvh, mesh, rays, [&](int lane) { return ray[min(lane, waiting - 1)]; }, of, at);
        for (int lane = 0; lane < waiting; ++lane) {
            uint64 k = offset[ray[lane]] + written[ray[lane] - begin]++;
            t[k] = real(at.t[lane]), face[k] = seen[lane].face;
        }
        waiting = 0;
    }
};

// Sorts n hits by t, those of equal t by face (heap sort: in place, and never slow).
GK_FN void sort_hits(real* t, int* face, int n) {
    auto less = [&](int a, int b) { return t[a] < t[b] || (t[a] == t[b] && face[a] < face[b]); };
    auto swap = [&](int a, int b) {
        real x = t[a];
        t[a] = t[b], t[b] = x;
        int y = face[a];
        face[a] = face[b], face[b] = y;
    };
    for (int start = n / 2, end = n; end > 1;) {
        if (start > 0) --start;
        else swap(0, --end);
        for (int root = start, child; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && less(child, child + 1)) ++child;
            if (!less(root, child)) break;
            swap(root, child);
        }
    }
}

GK_KERNEL all_hits_fwd(int n, int block, int count, Bvh bvh, Mesh mesh, Rays rays, int cull, const uint64* offset, real* t, int* face,
                       int* invalid) {
    GK_SCRATCH Block scratch;
    GK_SCRATCH int scratch_written[RAYS];
    Block* rays_of_block = located(&scratch);
    int* written = located(scratch_written);
    GK_EACH(b, n) {
        int begin = b * block, end = min(begin + block, count);
        for (int i = 0; i < end - begin; ++i) written[i] = 0;
        ListHits list = {bvh, mesh, rays, *rays_of_block, offset, t, face, written, cull, begin, {}, {}, 0};
        invalid[b] = walk_rays(bvh, rays, begin, end, *rays_of_block, list);
        list.write();
        for (int i = begin; i < end; ++i) sort_hits(t + offset[i], face + offset[i], written[i - begin]);
    }
}

}  // namespace gk
