// Edges on the film: their pieces within pixels, what is seen of those, the rays beside them, and the way back.
#include "../../render/edge.h"

namespace gk {

GK_FN Bounds whole(int left, int top, int right, int bottom) { return {double(left), double(top), double(right), double(bottom)}; }

// One copy: pieces are counted and listed alike.
GK_ONCE Line line_at(const Camera& c, const real* vertices, const int* ends, int i, double least, const Bounds& bounds) {
    return line_of(c, edge_of(vertices, ends, i), least, bounds);
}

GK_KERNEL count_edge_pieces(int n, Camera camera, double least, int left, int top, int right, int bottom, const real* vertices, const int* ends,
                       int* count) {
    const Bounds bounds = whole(left, top, right, bottom);
    GK_EACH(i, n) {
        Line l = line_at(camera, vertices, ends, i, least, bounds);
        count[i] = l.high > l.low ? 1 + Crossings1(l.begin.x, l.step.x).left + Crossings1(l.begin.y, l.step.y).left : 0;
    }
}

// The pieces of edge i are offset[i] to offset[i + 1] - 1, which are one more than there are borders of pixels: spans (left, middle
// and right, as weights of the edge's second end) and points in the middle. Those of no length and those whose middle is not within
// the bounds are NaN.
GK_KERNEL list_edge_pieces(int n, Camera camera, double least, int left, int top, int right, int bottom, const real* vertices, const int* ends,
                      const int* offset, double* spans, real* points) {
    const Bounds bounds = whole(left, top, right, bottom);
    const double none = infinity() - infinity();
    GK_EACH(i, n) {
        int to = offset[i];
        const int stop = offset[i + 1];
        if (to == stop) continue;
        const Edge edge = edge_of(vertices, ends, i);
        const Line l = line_at(camera, vertices, ends, i, least, bounds);
        double passed = l.weight(0);
        each_piece(l, [&](double from, double end) {
            if (to == stop) return;
            // A piece begins where the one before it ends, to the last digit.
            double left = passed, middle = l.weight(0.5 * (from + end));
            passed = l.weight(end);
            Vec3 x = edge.at(middle);
            if (!bounds.hold(projected(camera, x))) return;
            double* span = spans + 3 * (uint64)to;
            span[0] = left, span[1] = middle, span[2] = passed;
            set_row(points, to, x);
            ++to;
        });
        for (; to < stop; ++to)
            for (int k = 0; k < 3; ++k) spans[3 * (uint64)to + k] = none, points[3 * (uint64)to + k] = 0;
    }
}

// A face before each point, or -1.
GK_KERNEL hide_edge_pieces(int n, int block, int count, Bvh bvh, Mesh mesh, double x, double y, double z, double before, int parallel,
                      const double* spans, const real* points, int* hider) {
    constexpr int ROWS = GK_GPU ? 1 : 256;
    GK_SCRATCH Block scratch;
    GK_SCRATCH real scratch_origins[3 * ROWS], scratch_directions[3 * ROWS];
    Block* rays_of_block = located(&scratch);
    real *origins = located(scratch_origins), *directions = located(scratch_directions);
    const Eye eye = {{x, y, z}, before, parallel};
    GK_EACH(b, n) {
        const int begin = b * block, m = min(block, count - begin);
        for (int i = 0; i < m; ++i) {
            ray_to(eye, row(points, begin + i), origins + 3 * i, directions + 3 * i);
            // No ray, which hits nothing.
            if (!(spans[3 * (uint64)(begin + i)] == spans[3 * (uint64)(begin + i)])) set_row(directions, i, {0, 0, 0});
        }
        find_hiders(bvh, mesh, eye, origins, directions, m, *rays_of_block, hider + begin);
    }
}

// What is seen of the pieces of each edge, at most two parts of a piece: a piece that is seen from cuts[0] to cuts[1], of one that
// is hidden in its middle what is before cuts[0] and after cuts[1]. Pieces that follow one another, of which one is hidden and the
// other is not, are cut between their middles; edges of at least `longest` pieces are looked at near their ends, too, an `inset`
// from them. count[i] is the number of parts.
GK_KERNEL cut_edge_pieces(int n, Bvh bvh, Mesh mesh, double x, double y, double z, double before, int parallel, int longest, double inset,
                     const int* ends, const int* offset, const double* spans, const int* hider, double* cuts, int* count) {
    GK_SCRATCH Block scratch;
    Block& block = *located(&scratch);
    const Eye eye = {{x, y, z}, before, parallel};
    GK_EACH(i, n) {
        const Edge edge = edge_of(mesh.vertices, ends, i);
        const int begin = offset[i], stop = offset[i + 1];
        int total = 0, chain = begin;
        for (int p = begin; p < stop; ++p) cuts[2 * (uint64)p] = spans[3 * (uint64)p], cuts[2 * (uint64)p + 1] = spans[3 * (uint64)p + 2];
        for (int p = begin; p < stop; ++p) {
            const double* span = spans + 3 * (uint64)p;
            if (!(span[0] == span[0])) break;
            const bool follows = p > begin && span[0] == span[-1], followed = p + 1 < stop && span[3] == span[2];
            if (!follows) chain = p;
            if (followed && (hider[p] < 0) != (hider[p + 1] < 0)) {
                const bool on = hider[p] >= 0;
                double cut = hidden_until(bvh, mesh, eye, edge, span[on ? 1 : 4], hider[on ? p : p + 1], span[on ? 4 : 1], block);
                if (cut < span[2]) cuts[2 * (uint64)p + 1] = cut;
                else cuts[2 * (uint64)p + 2] = cut;
            }
            if (followed) continue;
            if (p - chain + 1 < longest) continue;
            for (int last = 0; last < 2; ++last) {
                const int at = last ? p : chain;
                const double *own = spans + 3 * (uint64)at, margin = inset * (own[2] - own[0]), place = last ? own[2] - margin : own[0] + margin;
                const int face = hider_of(bvh, mesh, eye, edge.at(place), block);
                if ((face < 0) == (hider[at] < 0)) continue;
                const bool on = face >= 0;
                cuts[2 * (uint64)at + last] = hidden_until(bvh, mesh, eye, edge, on ? place : own[1], on ? face : hider[at], on ? own[1] : place, block);
            }
        }
        for (int p = begin; p < stop; ++p) {
            const double *span = spans + 3 * (uint64)p, *cut = cuts + 2 * (uint64)p;
            total += hider[p] < 0 ? cut[1] > cut[0] : (cut[0] > span[0]) + (span[2] > cut[1]);
        }
        count[i] = total;
    }
}

// The parts of edge i go to offset_of_parts[i] and on: its number, and begin, middle and end of the part.
GK_KERNEL list_edge_parts(int n, const int* offset, const double* spans, const int* hider, const double* cuts, const int* offset_of_parts,
                     int* edge, double* parts) {
    GK_EACH(i, n) {
        int to = offset_of_parts[i];
        auto put = [&](double from, double middle, double end) {
            double* part = parts + 3 * (uint64)to;
            edge[to] = i, part[0] = from, part[1] = middle, part[2] = end, ++to;
        };
        for (int p = offset[i]; p < offset[i + 1]; ++p) {
            const double *span = spans + 3 * (uint64)p, *cut = cuts + 2 * (uint64)p;
            if (hider[p] < 0) {
                const bool uncut = cut[0] == span[0] && cut[1] == span[2];
                if (cut[1] > cut[0]) put(cut[0], uncut ? span[1] : 0.5 * (cut[0] + cut[1]), cut[1]);
                continue;
            }
            if (cut[0] > span[0]) put(span[0], 0.5 * (span[0] + cut[0]), cut[0]);
            if (span[2] > cut[1]) put(cut[1], 0.5 * (cut[1] + span[2]), span[2]);
        }
    }
}

// For the places t of edges: the point, its pixel, and `across`, what a step of t covers on the film, turned by a right angle; and
// two rays `aside` of it in pixels, before and after it in that direction, with the number of their pixel, xor `mixed`.
GK_KERNEL rays_beside(int n, int block, int count, Camera camera, int width, int mixed, double aside, const real* vertices, const int* ends,
                      const int* edge, const double* t, real* points, real* pixel, double* across, real* origins, real* directions,
                      uint* stream) {
    GK_EACH(b, n) {
        const int begin = b * block, stop = min(begin + block, count);
        for (int i = begin; i < stop; i += LANES) {
            PlanePoints sides[2];
            for (int k = 0; k < LANES; ++k) {
                const int j = min(i + k, stop - 1);
                const Edge e = edge_of(vertices, ends, edge[j]);
                const Vec3 x = e.at(t[j]);
                const Plane at = projected(camera, x);
                const real place[2] = {real(at.x), real(at.y)};
                CameraSums unused = {};
                Vec3d by_x = adj_projected(camera, to_double(x), {1, 0}, 0, unused), by_y = adj_projected(camera, to_double(x), {0, 1}, 0, unused);
                const double turned[2] = {dot(by_y, e.step), -dot(by_x, e.step)};
                double size = sqrt(turned[0] * turned[0] + turned[1] * turned[1]), share = size > 0 ? aside / size : 0;
                for (int side = 0; side < 2; ++side) {
                    double way = side ? share : -share;
                    sides[side].set(k, {double(real(place[0] + way * turned[0])), double(real(place[1] + way * turned[1]))});
                }
                if (i + k >= stop) continue;
                set_row(points, j, x);
                for (int axis = 0; axis < 2; ++axis) pixel[2 * (uint64)j + axis] = place[axis], across[2 * (uint64)j + axis] = turned[axis];
                stream[2 * (uint64)j] = stream[2 * (uint64)j + 1] = uint(int(floor(place[1])) * width + int(floor(place[0]))) ^ uint(mixed);
            }
            for (int side = 0; side < 2; ++side) {
                Sight sight = seen_at(camera, sides[side]);
                for (int k = 0; k < LANES && i + k < stop; ++k) {
                    CameraRay ray = ray_through(camera, sight.at.at(k));
                    set_row(origins, 2 * (i + k) + side, to_real(ray.origin));
                    set_row(directions, 2 * (i + k) + side, to_real(ray.direction));
                }
            }
        }
    }
}

// Cotangents of both ends of each part's edge, for those of the image there: the jump times what is swept of the share.
GK_KERNEL edge_parts_adj(int n, int block, int count, Camera camera, int channels, const real* points, const double* t, const double* share,
                    const double* across, const real* jump, const real* adj_image, double* adj_ends, double* sums) {
    GK_EACH(b, n) {
        CameraSums s = {};
        for (int i = b * block; i < min(b * block + block, count); ++i) {
            double weight = 0;
            for (int k = 0; k < channels; ++k) weight += double(adj_image[channels * (uint64)i + k]) * jump[channels * (uint64)i + k];
            weight *= share[i];
            Plane adj = {weight * across[2 * (uint64)i], weight * across[2 * (uint64)i + 1]};
            Vec3d g = adj_projected(camera, to_double(row(points, i)), adj, 0, s);
            const double at[3] = {g.x, g.y, g.z};
            for (int axis = 0; axis < 3; ++axis) {
                adj_ends[6 * (uint64)i + axis] = (1 - t[i]) * at[axis];
                adj_ends[6 * (uint64)i + 3 + axis] = t[i] * at[axis];
            }
        }
        put_sums(sums, b, s);
    }
}

// The sum of rows (3,) that go to vertex to[i]: those of order start[i] to start[i + 1] - 1.
GK_KERNEL sum_segments(int n, const int* start, const int* order, const int* to, const double* rows, double* sums) {
    GK_EACH(i, n) {
        double total[3] = {0, 0, 0};
        for (int j = start[i]; j < start[i + 1]; ++j)
            for (int axis = 0; axis < 3; ++axis) total[axis] += rows[3 * (uint64)order[j] + axis];
        for (int axis = 0; axis < 3; ++axis) sums[3 * (uint64)to[i] + axis] = total[axis];
    }
}

}  // namespace gk
