// The points of an area light that light_fwd draws, where what they emit differs from point to point.
#include "../../render/light.h"

namespace gk {

GK_KERNEL emitter_points(int n, Light light, const uint* stream, const int* index, int dimension, int* face, real* barycentric) {
    GK_EACH(i, n) {
        FacePoint p = drawn_face(light, random2(hashed(stream[i], (uint)dimension), (uint)index[i]));
        face[i] = p.face;
        barycentric[2 * (uint64)i] = p.weights.y, barycentric[2 * (uint64)i + 1] = p.weights.z;
    }
}

}  // namespace gk
