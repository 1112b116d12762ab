// Stable radix sort of integer keys; the order it finds is all that the callers need.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "pool.h"

#define GK_EXPORT extern "C" __attribute__((visibility("default")))

GK_EXPORT void gk_parallel(gk::Run run, const void* job, int n, int grain);

namespace {

constexpr int BLOCK = 1 << 15;

template <class Body> void for_blocks(int blocks, const Body& body) {
    gk_parallel(
        [](const void* job, int begin, int end) {
            for (int b = begin; b < end; ++b) (*static_cast<const Body*>(job))(b);
        },
        &body, blocks, 1);
}

// A key and where it was: one integer as long as the key leaves room for the index.
struct Narrow {
    uint64_t bits;
    static Narrow make(uint64_t key, int index) { return {key << 32 | (unsigned)index}; }
    uint64_t key() const { return bits >> 32; }
    int index() const { return (int)bits; }
};
struct Wide {
    uint64_t bits;
    int at;
    static Wide make(uint64_t key, int index) { return {key, index}; }
    uint64_t key() const { return bits; }
    int index() const { return at; }
};

// Blocks of fixed size count and scatter in parallel, so the result does not depend on the number of threads.
template <class Item> void sort(const uint64_t* keys, int n, int bits, int* order) {
    int passes = (bits + 11) / 12, digit = (bits + passes - 1) / (passes ? passes : 1), buckets = 1 << digit;
    int blocks = (n + BLOCK - 1) / BLOCK;
    std::unique_ptr<Item[]> from(new Item[n]), to(new Item[n]);
    std::vector<int> counts((size_t)blocks * buckets);
    auto each = [n](int b, const auto& body) {
        for (int i = b * BLOCK, end = n - i < BLOCK ? n : i + BLOCK; i < end; ++i) body(i);
    };
    for_blocks(blocks, [&](int b) { each(b, [&](int i) { from[i] = Item::make(keys[i], i); }); });
    for (int pass = 0; pass < passes; ++pass) {
        auto bucket = [&](int i) { return int(from[i].key() >> (pass * digit)) & (buckets - 1); };
        for_blocks(blocks, [&](int b) {
            int* count = &counts[(size_t)b * buckets];
            std::memset(count, 0, buckets * sizeof(int));
            each(b, [&](int i) { ++count[bucket(i)]; });
        });
        bool constant = false;
        int start = 0;
        for (int d = 0; d < buckets; ++d) {
            int before = start;
            for (int b = 0; b < blocks; ++b) {
                int& count = counts[(size_t)b * buckets + d];
                int next = start + count;
                count = start;
                start = next;
            }
            constant |= start - before == n;
        }
        if (constant) continue;
        for_blocks(blocks, [&](int b) {
            int* next = &counts[(size_t)b * buckets];
            each(b, [&](int i) { to[next[bucket(i)]++] = from[i]; });
        });
        std::swap(from, to);
    }
    for_blocks(blocks, [&](int b) { each(b, [&](int i) { order[i] = from[i].index(); }); });
}

}  // namespace

// order becomes the stable permutation that sorts the n keys, which have no more than `bits` bits.
GK_EXPORT void gk_sort_order(const uint64_t* keys, int n, int bits, int* order) {
    if (bits <= 32) sort<Narrow>(keys, n, bits, order);
    else sort<Wide>(keys, n, bits, order);
}
