// The only file that knows which compiler reads the kernels: g++ or clang for the CPU, nvcc or NVRTC for the GPU.
#pragma once

#ifndef GK_REAL
#define GK_REAL float  // precision of the build, float or double
#endif

#if defined(__CUDACC__)

#define GK_GPU 1
#define GK_FN __device__ __forceinline__
#define GK_KERNEL extern "C" __global__ void
#define GK_UNROLL _Pragma("unroll")
#define GK_SCRATCH
// A table that the compiler computes.
#define GK_TABLE __device__ constexpr
// A function with one copy of its code: all callers get the same bits.
#define GK_ONCE __device__ __noinline__
// A grid-stride loop.
#define GK_EACH(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += gridDim.x * blockDim.x)

#else

#define GK_GPU 0
#define GK_FN inline __attribute__((always_inline))
#define GK_KERNEL extern "C" void
#define GK_UNROLL
// Large scratch of one thread: not on its stack, which may be small.
#define GK_SCRATCH static thread_local
#define GK_TABLE constexpr
#define GK_ONCE inline __attribute__((noinline))
// The chunk that the thread pool gave to this thread; n only serves the GPU.
#define GK_EACH(i, n) for (int i = gk::chunk.begin, gk_end = ((void)(n), gk::chunk.end); i < gk_end; ++i)

namespace gk {
struct Chunk { int begin, end; };
inline thread_local Chunk chunk;
}  // namespace gk

#endif

// Entries of a traversal stack. The GPU compiles with a size that fits the tree; the CPU takes the worst case, seven for
// each level of a tree of the greatest depth that a build allows.
#ifndef GK_STACK
#define GK_STACK 680
#endif

namespace gk {

// The address of a thread's scratch, found once: the compiler would ask for it at every use.
#if GK_GPU
template <class T> GK_FN T* located(T* scratch) { return scratch; }
#else
template <class T> GK_FN T* located(T* scratch) {
    asm("" : "+r"(scratch));
    return scratch;
}
#endif

typedef GK_REAL real;
typedef unsigned int uint;
typedef unsigned long long uint64;

constexpr int WIDTH = 8;                 // children of a node, triangles of a packet
constexpr int LANES = GK_GPU ? 1 : 8;    // of those, how many one instruction handles
constexpr int GROUP = GK_GPU ? 1 : 64;   // neighbouring queries that share one traversal
constexpr int MAX_DEPTH = 96;            // levels of nodes; no build can exceed 63 splits and then 28 halvings

}  // namespace gk
