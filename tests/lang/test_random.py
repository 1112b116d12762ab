"""The random numbers of the kernel language: their definition, spelt out in NumPy, and how even they are."""

import numpy as np

from tests.lang import toolchain

TEXT = """#include "random.h"
extern "C" void f(int n, const unsigned* seed, const unsigned* counter, unsigned* bits, float* single, double* wide) {
    for (int i = 0; i < n; ++i) {
        bits[i] = gkl::random_bits(seed[i], counter[i]);
        single[i] = gkl::random_uniform(seed[i], counter[i]), wide[i] = gkl::random_uniform_d(seed[i], counter[i]);
    }
}
"""


def numbers(tmp_path, seed, counter):
    n = len(seed)
    out = np.empty(n, np.uint32), np.empty(n, np.float32), np.empty(n)
    toolchain.call(toolchain.build(tmp_path, TEXT), "f", seed.astype(np.uint32), counter.astype(np.uint32), *out)
    return out


def test_value(tmp_path):
    seed, counter = np.array([0, 0, 7, 2**32 - 1], np.uint64), np.array([0, 1, 12345, 2**32 - 1], np.uint64)
    bits, single, wide = numbers(tmp_path, seed, counter)
    step = np.uint64(0x9E3779B97F4A7C15)
    x = (seed << np.uint64(32) | counter) * step + step
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    np.testing.assert_array_equal(bits, (x >> np.uint64(32)).astype(np.uint32))
    np.testing.assert_array_equal(single, (x >> np.uint64(40)).astype(np.float32) * np.float32(2**-24))
    np.testing.assert_array_equal(wide, (x >> np.uint64(11)).astype(np.float64) * 2**-53)
    assert bits[0] == 0xE220A839  # the first number of splitmix64 from 0


def test_numbers_are_even_along_seeds_and_counters(tmp_path):
    i = np.arange(1 << 16)
    for seed, counter in ((i, 0 * i), (0 * i, i), (i & 255, i >> 8)):
        _, single, wide = numbers(tmp_path, seed, counter)
        for u in (single, wide):
            assert u.min() >= 0 and u.max() < 1
            count = np.bincount((u * 64).astype(int), minlength=64)
            assert np.abs(count - 1024).max() < 6 * 32
            assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.02
