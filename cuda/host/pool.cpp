// A fork-safe thread pool with dynamic chunks, and what Python asks about the processor.
//
// Workers spin for a moment, then sleep. A launch does not wait for a worker that wakes late: it takes the chunks itself
// and only waits for workers that have started. A launch from inside a job, or while another thread's job runs, is done
// by its own thread alone, so nothing can dead-lock and results never depend on who runs a chunk.
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>

#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define GK_EXPORT extern "C" __attribute__((visibility("default")))

namespace gk {
namespace {

void pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

constexpr int SPINS = 4000;  // about 40 microseconds: longer than the Python between two launches of one operation

struct Pool {
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<bool> busy{false};
    std::atomic<unsigned> generation{0};
    std::atomic<int> next{0};
    std::atomic<int> working{0};
    bool open = false;
    Run run = nullptr;
    const void* job = nullptr;
    int n = 0, grain = 1;
    int workers = 0;  // threads alive besides the caller's

    void take_chunks(Run run, const void* job, int n, int grain) {
        for (int begin; (begin = next.fetch_add(grain, std::memory_order_relaxed)) < n;)
            run(job, begin, n - begin < grain ? n : begin + grain);
    }

    static void* work(void* self) {
        static_cast<Pool*>(self)->loop();
        return nullptr;
    }

    [[noreturn]] void loop() {
        unsigned seen = 0;
        for (;;) {
            for (int i = 0; i < SPINS && generation.load(std::memory_order_acquire) == seen; ++i) pause();
            std::unique_lock<std::mutex> lock(mutex);
            wake.wait(lock, [&] { return generation.load() != seen; });
            seen = generation.load();
            if (!open) continue;
            working.fetch_add(1);
            Run r = run;
            const void* j = job;
            int count = n, g = grain;
            lock.unlock();
            take_chunks(r, j, count, g);
            working.fetch_sub(1, std::memory_order_release);
        }
    }

    void spawn(int threads) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, 8 << 20);
        for (pthread_t id; workers < threads - 1; ++workers)
            if (pthread_create(&id, &attributes, work, this)) break;  // fewer threads give the same result, later
        pthread_attr_destroy(&attributes);
    }

    void launch(Run r, const void* j, int count, int g, int threads) {
        spawn(threads);
        {
            std::lock_guard<std::mutex> lock(mutex);
            run = r, job = j, n = count, grain = g;
            next.store(0);
            open = true;
            generation.fetch_add(1, std::memory_order_release);
        }
        wake.notify_all();
        take_chunks(r, j, count, g);
        {
            std::lock_guard<std::mutex> lock(mutex);
            open = false;
        }
        while (working.load(std::memory_order_acquire)) pause();
    }
};

int default_threads() {
    if (const char* text = getenv("GEOMKIT_NUM_THREADS")) {
        int n = atoi(text);
        if (n > 0) return n;
    }
    int n = (int)std::thread::hardware_concurrency();
    return n > 0 ? n : 1;
}

alignas(Pool) char storage[sizeof(Pool)];
Pool& pool = *new (storage) Pool;  // never destroyed: workers may outlive static destructors
std::atomic<int> threads{default_threads()};

// The child of a fork has none of its parent's workers and maybe a locked mutex: it starts afresh.
const int at_fork = pthread_atfork(nullptr, nullptr, [] { new (storage) Pool; });

}  // namespace
}  // namespace gk

GK_EXPORT void gk_parallel(gk::Run run, const void* job, int n, int grain) {
    using namespace gk;
    int count = threads.load(std::memory_order_relaxed);
    if (n <= grain || count == 1 || pool.busy.exchange(true, std::memory_order_acquire)) {
        if (n > 0) run(job, 0, n);
        return;
    }
    pool.launch(run, job, n, grain, count);
    pool.busy.store(false, std::memory_order_release);
}

// Digest of the source that these libraries were built from.
GK_EXPORT const char* gk_source_digest() { return GK_SOURCE_DIGEST; }

GK_EXPORT void gk_set_threads(int n) { gk::threads.store(n); }
GK_EXPORT int gk_threads() { return gk::threads.load(); }

// 2, 3: the x86-64 level whose instructions this processor has; 0 on other processors.
GK_EXPORT int gk_x86_level() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return 3;
    return __builtin_cpu_supports("sse4.2") ? 2 : 1;
#else
    return 0;
#endif
}
