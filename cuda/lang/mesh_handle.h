// A mesh as kernels take it, by value: what its queries read, and where the gradients of its vertices go.
#pragma once
#include "../core/platform.h"

namespace gk {

struct Node;
struct Packet;
struct Frame;
struct Moments;
struct MeshHandle;

// A query. `given` and `known` are its arguments, `made` and `found` its results.
typedef void (*MeshFunction)(const MeshHandle& mesh, const real* given, const int* known, real* made, int* found);

// On the CPU programs call functions that were compiled ahead of time, by their number in a table; on the GPU they contain them.
enum MeshFunctionNumber {
    CLOSEST_POINT, ADJ_CLOSEST_POINT, SIGNED_DISTANCE, ADJ_SIGNED_DISTANCE, RAY, ADJ_RAY, WINDING_NUMBER, ADJ_WINDING_NUMBER
};

// Edges that do not cancel, and how often they are passed.
struct Edges {
    const int* ends;  // (E, 2)
    const int* multiplicity;
    int count;
};

struct MeshHandle {
    const Node* nodes;  // the tree
    const Packet* packets;
    const Frame* frames;
    const Moments* moments;
    double center[3], scale;
    const real* vertices;  // (V, 3) as the caller gave them
    const int* faces;      // (F, 3)
    const int* welded;     // pseudonormals: faces with equal positions made one
    const real* normals_of_faces;
    const real* normals_of_edges;
    const real* normals_of_vertices;
    const real* face_normals;  // of rays
    Edges by_position, by_index;  // of winding numbers: with equal positions made one, and as they are
    double* grad;  // (V, 3), or null where nobody asks for it
    const MeshFunction* functions;
    double boundary, beta;  // how fast the winding number changes, and its accuracy
    int face_count, sign, inverted;
};

}  // namespace gk
