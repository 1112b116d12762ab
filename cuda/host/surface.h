// A triangle mesh that changes: half-edges, and the operations that keep a surface what it is.
#pragma once
#include <cmath>
#include <vector>

namespace gk {

struct Place {
    double x, y, z;
    Place operator+(Place b) const { return {x + b.x, y + b.y, z + b.z}; }
    Place operator-(Place b) const { return {x - b.x, y - b.y, z - b.z}; }
};
inline Place operator*(double s, Place a) { return {s * a.x, s * a.y, s * a.z}; }
inline double dot(Place a, Place b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline Place cross(Place a, Place b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }

// Half-edge 3 f + k goes from corner k of face f to the next one. Each vertex has one fan of faces about it, closed or open.
//
// A line is a chain of edges that must stay on the curve where it is: borders and features. Its edges have its number, all
// others -1. A vertex is smooth, on a line, or fixed.
class Surface {
  public:
    enum Kind : char { SMOOTH, ON_LINE, FIXED };

    std::vector<Place> place;
    std::vector<double> target;  // wanted edge length at a vertex
    std::vector<Kind> kind;
    std::vector<char> bordering;
    std::vector<int> leaving;  // a half-edge that starts at the vertex; -1 when it is gone
    std::vector<int> degree;   // number of edges at the vertex
    std::vector<int> tail;     // vertex where a half-edge starts; -1 when its face is gone
    std::vector<int> twin;     // -1 at the border
    std::vector<int> line;

    static int next(int h) { return h % 3 == 2 ? h - 2 : h + 1; }
    static int previous(int h) { return h % 3 == 0 ? h + 2 : h - 1; }
    int head(int h) const { return tail[next(h)]; }
    int apex(int h) const { return tail[previous(h)]; }
    int half_edges() const { return (int)tail.size(); }
    // Whether h is there, and is the one of its edge's two halves that stands for it.
    bool is_edge(int h) const { return tail[h] >= 0 && h > twin[h]; }
    double length2(int a, int b) const { Place d = place[a] - place[b]; return dot(d, d); }
    // Squared length of an edge in units of what is wanted there.
    double relative2(int a, int b) const {
        double wanted = 0.5 * (target[a] + target[b]);
        return length2(a, b) / (wanted * wanted);
    }
    Place area_vector(int f) const { return area_vector(tail[3 * f], tail[3 * f + 1], tail[3 * f + 2]); }
    Place area_vector(int a, int b, int c) const { return cross(place[b] - place[a], place[c] - place[a]); }

    // Calls visit(h) for each half-edge that starts at v, in the order of the fan.
    template <class Visit> void each_leaving(int v, const Visit& visit) const {
        int start = leaving[v], h = start;
        do {
            int back = twin[previous(h)];
            visit(h);
            if (back < 0) {
                for (int k = start; (k = twin[k]) >= 0;) visit(k = next(k));
                return;
            }
            h = back;
        } while (h != start);
    }
    // Calls visit(w) for each vertex that an edge joins to v.
    template <class Visit> void each_neighbour(int v, const Visit& visit) const {
        each_leaving(v, [&](int h) {
            visit(head(h));
            if (twin[previous(h)] < 0) visit(apex(h));
        });
    }
    bool adjacent(int a, int b) const {
        bool found = false;
        each_neighbour(a, [&](int w) { found |= w == b; });
        return found;
    }

    // Halves the edge of h and the faces at it.
    void split(int h) {
        int t = twin[h], a = tail[h], b = head(h), m = (int)place.size();
        place.push_back(0.5 * (place[a] + place[b]));
        target.push_back(0.5 * (target[a] + target[b]));
        kind.push_back(line[h] >= 0 ? ON_LINE : SMOOTH);
        bordering.push_back(t < 0);
        degree.push_back(t < 0 ? 3 : 4);
        int on_left = halve(h, m), rest = on_left;  // rest: m -> b
        leaving.push_back(rest);
        line[rest] = line[h];
        if (t >= 0) {
            // The twin starts at b; its new face is the one at a, from a to m.
            int back = halve(t, m);  // m -> a
            line[back] = line[t];
            pair(h, back);
            pair(rest, t);
        }
    }

    bool can_flip(int h) const {
        int t = twin[h];
        if (t < 0 || line[h] >= 0) return false;
        int a = tail[h], b = tail[t], c = apex(h), d = apex(t);
        if (c == d || degree[a] <= (bordering[a] ? 2 : 3) || degree[b] <= (bordering[b] ? 2 : 3)) return false;
        return !adjacent(c, d);
    }

    // Turns the edge of h within the quadrangle of its two faces.
    void flip(int h) {
        int t = twin[h], hn = next(h), hp = previous(h), tn = next(t), tp = previous(t);
        int a = tail[h], b = tail[t], c = tail[hp], d = tail[tp];
        int bc = twin[hn], ca = twin[hp], ad = twin[tn], db = twin[tp];
        int bc_line = line[hn], ca_line = line[hp], ad_line = line[tn], db_line = line[tp];
        tail[h] = d, tail[hn] = c, tail[hp] = a, tail[t] = c, tail[tn] = d, tail[tp] = b;
        join(hn, ca), join(hp, ad), join(tn, db), join(tp, bc);
        line[hn] = ca_line, line[hp] = ad_line, line[tn] = db_line, line[tp] = bc_line;
        leaving[a] = hp, leaving[b] = tp, leaving[c] = hn, leaving[d] = h;
        --degree[a], --degree[b], ++degree[c], ++degree[d];
    }

    // Whether one end of the edge of h can be merged into the other without changing what the surface is, its borders, or its
    // lines: the link condition of Dey, Edelsbrunner, Guha and Nekhayev (1999).
    bool can_collapse(int h, int gone, int kept) {
        int t = twin[h];
        if (kind[gone] == FIXED || (kind[gone] == ON_LINE && line[h] < 0)) return false;
        if (!mergeable(h) || (t >= 0 && (!mergeable(t) || apex(t) == apex(h)))) return false;
        stamp_.resize(place.size(), 0);
        ++now_;
        each_neighbour(gone, [&](int w) { stamp_[w] = now_; });
        int common = 0;
        each_neighbour(kept, [&](int w) { common += stamp_[w] == now_; });
        return common == (t < 0 ? 1 : 2);
    }

    void collapse(int h, int gone, int kept) {
        int t = twin[h];
        each_leaving(gone, [&](int k) { moving_.push_back(k); });
        for (int k : moving_) tail[k] = kept;
        moving_.clear();
        degree[kept] += degree[gone] - (t < 0 ? 3 : 4);
        merge(h);
        if (t >= 0) merge(t);
        leaving[gone] = -1;
    }

  private:
    std::vector<int> stamp_, moving_;
    int now_ = 0;

    void join(int h, int k) {
        twin[h] = k;
        if (k >= 0) twin[k] = h;
    }
    void pair(int h, int k) { twin[h] = k, twin[k] = h; }

    // The face of h: a -> b, of apex c, becomes (a, m, c) and a new one (m, b, c). Returns the half-edge from m to b, which
    // has no twin yet.
    int halve(int h, int m) {
        int hn = next(h), b = tail[hn], c = apex(h), at = half_edges();
        tail.insert(tail.end(), {m, b, c});
        line.insert(line.end(), {-1, line[hn], -1});
        twin.insert(twin.end(), {-1, -1, -1});
        join(at + 1, twin[hn]);
        pair(hn, at + 2);
        tail[hn] = m;
        line[hn] = -1;
        leaving[b] = at + 1;
        ++degree[c];
        return at;
    }

    // Whether the two other sides of the face of h can become one edge.
    bool mergeable(int h) const {
        int one = next(h), other = previous(h), p = twin[one], q = twin[other];
        if ((p < 0 && q < 0) || (line[one] >= 0 && line[other] >= 0)) return false;
        // With three faces at the apex, two would remain that are the same.
        return p < 0 || q < 0 || apex(p) != apex(q);
    }

    // Removes the face of h, whose ends are one vertex by now, and makes its two other sides one edge.
    void merge(int h) {
        int one = next(h), other = previous(h), b = tail[one], c = tail[other], p = twin[one], q = twin[other];
        int number = line[one] >= 0 ? line[one] : line[other];
        if (p >= 0) twin[p] = q, line[p] = number;
        if (q >= 0) twin[q] = p, line[q] = number;
        leaving[b] = q >= 0 ? q : next(p);
        leaving[c] = p >= 0 ? p : next(q);
        --degree[c];
        tail[h] = tail[one] = tail[other] = -1;
    }
};

}  // namespace gk
