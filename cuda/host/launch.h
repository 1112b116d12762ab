// How Python calls a kernel: its arguments lie in one buffer, as the fields of a C struct would.
#pragma once

#include <cstddef>
#include <cstring>
#include <tuple>

#include "../core/platform.h"
#include "pool.h"

#define GK_EXPORT extern "C" __attribute__((visibility("default")))

namespace gk {

struct Arguments {
    const char* base;
    size_t offset = 0;

    template <class T> T next() {
        T value;
        offset = (offset + alignof(T) - 1) & ~(alignof(T) - 1);
        std::memcpy(&value, base + offset, sizeof value);
        offset += sizeof value;
        return value;
    }
};

template <class... A> void call(void (*kernel)(A...), const void* buffer) {
    Arguments arguments{static_cast<const char*>(buffer)};
    std::tuple<A...> values{arguments.next<A>()...};
    std::apply(kernel, values);
}

}  // namespace gk

// Exports kernel NAME to gk_launch.
#define GK_ENTRY(NAME)                                                     \
    GK_EXPORT void NAME##_call(const void* arguments, int begin, int end) { \
        gk::chunk = {begin, end};                                          \
        gk::call(gk::NAME, arguments);                                     \
    }
