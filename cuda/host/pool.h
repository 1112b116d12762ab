// The thread pool that every kernel library borrows from the host library.
#pragma once

#include <atomic>
#include <utility>

namespace gk {

// Runs chunk [begin, end) of a job.
typedef void (*Run)(const void* job, int begin, int end);
// Calls `run` on chunks of [0, n), `grain` items at a time, on all threads; returns when every chunk is done.
typedef void (*Parallel)(Run run, const void* job, int n, int grain);

// Set when a library is loaded, see gk_connect in launch.h.
inline Parallel parallel = nullptr;

// parallel_for(n, grain, [&](int begin, int end) { ... })
template <class Body> void parallel_for(int n, int grain, const Body& body) {
    parallel([](const void* job, int begin, int end) { (*static_cast<const Body*>(job))(begin, end); }, &body, n, grain);
}

}  // namespace gk
