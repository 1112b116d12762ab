// Isotropic remeshing after Botsch and Kobbelt (2004): sweeps of splits, collapses and flips, and tangential smoothing.
//
// One thread, edges in the order of their half-edges, so the result is the same everywhere. Python projects between the
// sweeps (geomkit/spatial/isotropic_remesh.py).
#include <algorithm>
#include <new>

#include "surface.h"

#define GK_EXPORT extern "C" __attribute__((visibility("default")))

namespace gk {
namespace {

constexpr double LONG = 4.0 / 3, SHORT = 4.0 / 5;  // in units of the wanted length
constexpr int MOST_SWEEPS = 10;                     // the sweeps of one kind end before, when nothing is left to do
constexpr double TURN = 0.5;                        // cosine of the angle by which a face may turn
constexpr double ROUND = 0.1;                       // quality that no operation makes a face worse than

class Remesher : public Surface {
  public:
    void split_long() {
        for (int sweep = 0; sweep < MOST_SWEEPS; ++sweep) {
            int done = 0;
            for (int h = 0, end = half_edges(); h < end; ++h)
                if (is_edge(h) && relative2(tail[h], head(h)) > LONG * LONG) split(h), ++done;
            if (!done) return;
        }
    }

    void collapse_short() {
        for (int sweep = 0; sweep < MOST_SWEEPS; ++sweep) {
            int done = 0;
            for (int h = 0; h < half_edges(); ++h) {
                if (!is_edge(h) || relative2(tail[h], head(h)) >= SHORT * SHORT) continue;
                int a = tail[h], b = head(h);
                if (collapsible(h, a, b)) collapse(h, a, b), ++done;
                else if (collapsible(h, b, a)) collapse(h, b, a), ++done;
            }
            if (!done) return;
        }
    }

    void even_degrees() {
        for (int sweep = 0; sweep < MOST_SWEEPS; ++sweep) {
            int done = 0;
            for (int h = 0; h < half_edges(); ++h)
                if (is_edge(h) && evens(h) && can_flip(h) && keeps_shape(h)) flip(h), ++done;
            if (!done) return;
        }
    }

    // Moves smooth vertices, within their tangent planes, to where the faces about them have their centre, and those on
    // lines between their two neighbours there.
    void smooth(int steps) {
        std::vector<Place> moved(place.size());
        for (int step = 0; step < steps; ++step) {
            for (int v = 0; v < (int)place.size(); ++v)
                moved[v] = leaving[v] < 0 || kind[v] == FIXED ? place[v] : kind[v] == SMOOTH ? centred(v) : between(v);
            place.swap(moved);
        }
    }

    // Takes back the motion of the faces that would turn over: place becomes what is wanted where that is possible, before
    // where it is not.
    void settle(const std::vector<Place>& before) {
        for (bool again = true; again;) {
            again = false;
            for (int h = 0; h < half_edges(); h += 3) {
                int v[3] = {tail[h], tail[h + 1], tail[h + 2]};
                if (v[0] < 0) continue;
                Place old = cross(before[v[1]] - before[v[0]], before[v[2]] - before[v[0]]), now = area_vector(h / 3);
                if (turns_little(old, now, 0.2)) continue;
                for (int k : v)
                    if (moves(k, before)) place[k] = before[k], again = true;
            }
        }
    }

    Place normal(int v) const {
        Place sum{0, 0, 0};
        each_leaving(v, [&](int h) { sum = sum + area_vector(h / 3); });
        double size = std::sqrt(dot(sum, sum));
        return size > 0 ? (1 / size) * sum : sum;
    }

    // Drops what is gone and numbers the rest anew, neighbours near one another: so they are in memory, too. Faces are in the
    // order of a search in breadth, vertices in that of their first face.
    void compact() {
        std::vector<int> order, vertex(place.size(), -1), half(tail.size(), -1);
        order.reserve(tail.size() / 3);
        Surface old;
        std::swap(static_cast<Surface&>(*this), old);
        for (int first = 0; first < old.half_edges(); first += 3) {
            if (old.tail[first] < 0 || half[first] >= 0) continue;
            visit(first, order, half);
            for (size_t at = order.size() - 1; at < order.size(); ++at)
                for (int k = 0; k < 3; ++k) {
                    int t = old.twin[order[at] + k];
                    if (t >= 0 && half[t] < 0) visit(t - t % 3, order, half);
                }
        }
        tail.reserve(3 * order.size()), twin.reserve(3 * order.size()), line.reserve(3 * order.size());
        for (int face : order)
            for (int h = face; h < face + 3; ++h) {
                int v = old.tail[h];
                if (vertex[v] < 0) {
                    vertex[v] = (int)place.size();
                    place.push_back(old.place[v]), target.push_back(old.target[v]), kind.push_back(old.kind[v]);
                    bordering.push_back(old.bordering[v]), degree.push_back(old.degree[v]);
                    leaving.push_back(half[h]);
                }
                tail.push_back(vertex[v]), line.push_back(old.line[h]);
                twin.push_back(old.twin[h] < 0 ? -1 : half[old.twin[h]]);
            }
    }

    // A number of the line that a vertex is on; -1 for a smooth vertex, -2 for a fixed one.
    int line_of(int v) const {
        if (kind[v] != ON_LINE) return kind[v] == SMOOTH ? -1 : -2;
        int found = -1;
        each_leaving(v, [&](int h) { found = std::max(found, std::max(line[h], line[previous(h)])); });
        return found;
    }

  private:
    // Puts a face at the end of the order.
    static void visit(int face, std::vector<int>& order, std::vector<int>& half) {
        for (int k = 0; k < 3; ++k) half[face + k] = 3 * (int)order.size() + k;
        order.push_back(face);
    }

    static bool turns_little(Place old, Place now, double cosine) {
        double a = dot(old, old), b = dot(now, now);
        return !(a > 0) || (b > 0 && dot(old, now) > cosine * std::sqrt(a) * std::sqrt(b));
    }

    bool moves(int v, const std::vector<Place>& before) const {
        Place d = place[v] - before[v];
        return d.x != 0 || d.y != 0 || d.z != 0;
    }

    // 1 for an equilateral triangle, 0 for one without area.
    double quality(int a, int b, int c) const {
        Place n = area_vector(a, b, c);
        double sum = length2(a, b) + length2(b, c) + length2(c, a);
        return sum > 0 ? 3.4641016151377544 * std::sqrt(dot(n, n)) / sum : 0;
    }

    bool collapsible(int h, int gone, int kept) {
        if (!can_collapse(h, gone, kept)) return false;
        bool good = true;
        each_neighbour(gone, [&](int w) { good &= w == kept || !(relative2(kept, w) > LONG * LONG); });
        if (!good) return false;
        each_leaving(gone, [&](int k) {
            int p = head(k), q = apex(k);
            if (p == kept || q == kept || !good) return;
            good = turns_little(area_vector(gone, p, q), area_vector(kept, p, q), TURN) &&
                   quality(kept, p, q) >= std::min(ROUND, quality(gone, p, q));
        });
        return good;
    }

    int wanted_degree(int v) const { return bordering[v] ? 4 : 6; }

    bool evens(int h) const {
        int t = twin[h];
        if (t < 0 || line[h] >= 0) return false;
        int before = 0, after = 0, v[4] = {tail[h], tail[t], apex(h), apex(t)};
        for (int k = 0; k < 4; ++k) {
            int off = degree[v[k]] - wanted_degree(v[k]), then = off + (k < 2 ? -1 : 1);
            before += off * off, after += then * then;
        }
        // In a stretched surface even degrees alone would make long edges.
        double now = relative2(v[0], v[1]), then = relative2(v[2], v[3]);
        return after < before && then <= std::max(LONG * LONG, now);
    }

    // Whether the faces after a flip look where those before did, and are no worse than slivers.
    bool keeps_shape(int h) const {
        int t = twin[h], a = tail[h], b = tail[t], c = apex(h), d = apex(t);
        Place one = area_vector(h / 3), other = area_vector(t / 3), p = area_vector(a, d, c), q = area_vector(d, b, c);
        double n = std::sqrt(dot(one, one)), m = std::sqrt(dot(other, other));
        Place mean = (n > 0 ? 1 / n : 0) * one + (m > 0 ? 1 / m : 0) * other;
        if (!turns_little(mean, p, TURN) || !turns_little(mean, q, TURN)) return false;
        double bend = n > 0 && m > 0 ? dot(one, other) / (n * m) : 0;
        if (!turns_little(p, q, std::min(bend, 0.8) - 0.1)) return false;
        double worst = std::min(quality(a, b, c), quality(b, a, d));
        return std::min(quality(a, d, c), quality(d, b, c)) >= std::min(worst, ROUND);
    }

    // The centre of the faces about a vertex, of density 1 / target^3: at rest, edges are as long as is wanted.
    Place centred(int v) const {
        Place sum{0, 0, 0}, normal{0, 0, 0};
        double total = 0;
        each_leaving(v, [&](int h) {
            int b = head(h), c = apex(h);
            Place across = area_vector(h / 3);
            double wanted = (target[v] + target[b] + target[c]) / (3 * target[v]);
            double weight = std::sqrt(dot(across, across)) / (wanted * wanted * wanted);
            sum = sum + (weight / 3) * ((place[b] - place[v]) + (place[c] - place[v]));
            normal = normal + across;
            total += weight;
        });
        double square = dot(normal, normal);
        if (!(total > 0) || !(square > 0)) return place[v];
        Place step = (1 / total) * sum;
        return place[v] + (step - (dot(step, normal) / square) * normal);
    }

    Place between(int v) const {
        Place end[2] = {place[v], place[v]};
        int n = 0;
        each_leaving(v, [&](int h) {
            if (line[h] >= 0 && n < 2) end[n++] = place[head(h)];
            if (twin[previous(h)] < 0 && n < 2) end[n++] = place[apex(h)];
        });
        Place along = end[1] - end[0];
        double square = dot(along, along);
        if (n < 2 || !(square > 0)) return place[v];
        Place step = 0.5 * ((end[0] - place[v]) + (end[1] - place[v]));
        return place[v] + (dot(step, along) / square) * along;
    }
};

template <class Body> int guarded(const Body& body) try {
    body();
    return 0;
} catch (const std::bad_alloc&) {
    return 2;
}

}  // namespace
}  // namespace gk

// Starts with nv vertices (places, wanted edge lengths, kinds) and nf faces (corners, twins, lines of their half-edges).
// Returns null if there is not enough memory.
GK_EXPORT void* gk_remesh_new(int nv, const double* place, const double* target, const char* kind, int nf, const int* tail,
                              const int* twin, const int* line) {
    gk::Remesher* r = new (std::nothrow) gk::Remesher;
    if (!r) return nullptr;
    int status = gk::guarded([&] {
        r->place.resize(nv);
        for (int v = 0; v < nv; ++v) r->place[v] = {place[3 * (size_t)v], place[3 * (size_t)v + 1], place[3 * (size_t)v + 2]};
        r->target.assign(target, target + nv);
        r->kind.resize(nv);
        for (int v = 0; v < nv; ++v) r->kind[v] = gk::Surface::Kind(kind[v]);
        r->tail.assign(tail, tail + 3 * (size_t)nf);
        r->twin.assign(twin, twin + 3 * (size_t)nf);
        r->line.assign(line, line + 3 * (size_t)nf);
        r->bordering.assign(nv, 0);
        r->leaving.assign(nv, -1);
        r->degree.assign(nv, 0);
        for (int h = 0; h < 3 * nf; ++h) {
            r->leaving[tail[h]] = h;
            ++r->degree[tail[h]];
            if (twin[h] >= 0) continue;
            r->bordering[tail[h]] = r->bordering[r->head(h)] = 1;
            ++r->degree[r->head(h)];
        }
    });
    if (!status) return r;
    delete r;
    return nullptr;
}

GK_EXPORT void gk_remesh_free(void* remesher) { delete static_cast<gk::Remesher*>(remesher); }

// One round of splits, collapses and flips. counts becomes the numbers of vertices and faces. This and those below return 0,
// or 2 if there is not enough memory.
GK_EXPORT int gk_remesh_sweep(void* remesher, int* counts) {
    gk::Remesher& r = *static_cast<gk::Remesher*>(remesher);
    return gk::guarded([&] {
        r.split_long();
        r.compact();
        r.collapse_short();
        r.even_degrees();
        r.compact();
        counts[0] = (int)r.place.size(), counts[1] = r.half_edges() / 3;
    });
}

// Vertices as they would be after some steps of smoothing, with normals and the numbers of their lines; faces as they are.
GK_EXPORT int gk_remesh_smoothed(void* remesher, int steps, double* place, double* normal, int* line, int* faces) {
    gk::Remesher& r = *static_cast<gk::Remesher*>(remesher);
    return gk::guarded([&] {
        std::vector<gk::Place> before = r.place;
        r.smooth(steps);
        std::copy(r.tail.begin(), r.tail.end(), faces);
        for (size_t v = 0; v < r.place.size(); ++v) {
            gk::Place p = r.place[v], n = r.normal((int)v);
            place[3 * v] = p.x, place[3 * v + 1] = p.y, place[3 * v + 2] = p.z;
            normal[3 * v] = n.x, normal[3 * v + 1] = n.y, normal[3 * v + 2] = n.z;
            line[v] = r.line_of((int)v);
        }
        r.place = before;
    });
}

// Moves the vertices, but for those whose place is not a number or whose faces would turn over; place becomes where they are.
// A wanted length of 0 leaves what is known.
GK_EXPORT int gk_remesh_move(void* remesher, double* place, const double* target) {
    gk::Remesher& r = *static_cast<gk::Remesher*>(remesher);
    return gk::guarded([&] {
        std::vector<gk::Place> before = r.place;
        for (size_t v = 0; v < r.place.size(); ++v) {
            if (!std::isnan(place[3 * v])) r.place[v] = {place[3 * v], place[3 * v + 1], place[3 * v + 2]};
            if (target[v] > 0) r.target[v] = target[v];
        }
        r.settle(before);
        for (size_t v = 0; v < r.place.size(); ++v)
            place[3 * v] = r.place[v].x, place[3 * v + 1] = r.place[v].y, place[3 * v + 2] = r.place[v].z;
    });
}
