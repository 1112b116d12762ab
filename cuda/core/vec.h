// Three numbers: a point, a direction or a gradient. T is a scalar or a register of lanes.
#pragma once
#include "lanes.h"

namespace gk {

template <class T> struct Vec {
    T x, y, z;
};

typedef Vec<real> Vec3;
typedef Vec<double> Vec3d;

template <class T> GK_FN Vec<T> operator+(Vec<T> a, Vec<T> b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
template <class T> GK_FN Vec<T> operator-(Vec<T> a, Vec<T> b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
template <class T> GK_FN Vec<T> operator-(Vec<T> a) { return {-a.x, -a.y, -a.z}; }
template <class T> GK_FN Vec<T> operator*(T s, Vec<T> a) { return {s * a.x, s * a.y, s * a.z}; }
template <class T> GK_FN Vec<T>& operator+=(Vec<T>& a, Vec<T> b) { a = a + b; return a; }
template <class T> GK_FN T dot(Vec<T> a, Vec<T> b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
template <class T> GK_FN T length(Vec<T> a) { return sqrt(dot(a, a)); }
template <class T> GK_FN Vec<T> cross(Vec<T> a, Vec<T> b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
// The cross product with every component right to its last digits, however much cancels.
template <class T> GK_FN Vec<T> exact_cross(Vec<T> a, Vec<T> b) {
    return {difference_of_products(a.y, b.z, a.z, b.y), difference_of_products(a.z, b.x, a.x, b.z),
            difference_of_products(a.x, b.y, a.y, b.x)};
}
template <class M, class T> GK_FN Vec<T> select(M m, Vec<T> a, Vec<T> b) {
    return {select(m, a.x, b.x), select(m, a.y, b.y), select(m, a.z, b.z)};
}
GK_FN Vec3 min(Vec3 a, Vec3 b) { return {min(a.x, b.x), min(a.y, b.y), min(a.z, b.z)}; }
GK_FN Vec3 max(Vec3 a, Vec3 b) { return {max(a.x, b.x), max(a.y, b.y), max(a.z, b.z)}; }

// Row i of an (N, 3) array.
GK_FN Vec3 row(const real* a, int i) { a += 3 * (uint64)i; return {a[0], a[1], a[2]}; }
GK_FN void set_row(real* a, int i, Vec3 v) { a += 3 * (uint64)i; a[0] = v.x; a[1] = v.y; a[2] = v.z; }
GK_FN void add_row(real* a, int i, Vec3 v) { a += 3 * (uint64)i; a[0] += v.x; a[1] += v.y; a[2] += v.z; }

GK_FN Vec3d to_double(Vec3 a) { return {double(a.x), double(a.y), double(a.z)}; }
GK_FN Vec3 to_real(Vec3d a) { return {real(a.x), real(a.y), real(a.z)}; }

// A vector of length one, or zero where there is no direction.
template <class T> GK_FN Vec<T> normalized(Vec<T> a) {
    T l = length(a);
    return l > T(0) ? (T(1) / l) * a : Vec<T>{T(0), T(0), T(0)};
}
// Given v = normalized(a) and the cotangent of v, the cotangent of a; zero where there is no direction.
template <class T> GK_FN Vec<T> adj_normalized(Vec<T> a, Vec<T> adj_v) {
    T l = length(a);
    Vec<T> v = normalized(a);
    return l > T(0) ? (T(1) / l) * (adj_v - dot(v, adj_v) * v) : Vec<T>{T(0), T(0), T(0)};
}

typedef Vec<Lanes> Vec3L;
GK_FN Vec3L load3(const real (*rows)[WIDTH], int lane) { return {load(rows[0] + lane), load(rows[1] + lane), load(rows[2] + lane)}; }
GK_FN Vec3L splat(Vec3 a) { return {splat(a.x), splat(a.y), splat(a.z)}; }

}  // namespace gk
