// Where the backward sweep of a loop finds what the loop carried: a stack that grows, on the CPU.
#pragma once
#include "../core/platform.h"

#if !GK_GPU
extern "C" void* realloc(void*, decltype(sizeof 0)) noexcept;
extern "C" void free(void*) noexcept;

namespace gk {

struct Stack {
    typedef decltype(sizeof 0) Size;
    char* bytes = nullptr;
    Size top = 0, capacity = 0;

    Stack() {}
    Stack(const Stack&) = delete;
    ~Stack() { free(bytes); }

    __attribute__((noinline, cold)) void grow() {
        Size wanted = capacity ? 2 * capacity : 4096;
        void* made = realloc(bytes, wanted);
        if (!made) __builtin_trap();
        bytes = (char*)made, capacity = wanted;
    }
    template <class T> GK_FN void push(T v) {
        if (__builtin_expect(top + sizeof v > capacity, 0)) grow();
        __builtin_memcpy(bytes + top, &v, sizeof v);
        top += sizeof v;
    }
    template <class T> GK_FN T pop() {
        T v;
        top -= sizeof v;
        __builtin_memcpy(&v, bytes + top, sizeof v);
        return v;
    }
};

}  // namespace gk
#endif
