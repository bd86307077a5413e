// SIMD vectors of the compiled instruction set, and mathematical functions on them.
#pragma once

#if defined(__aarch64__)
#include "neon.h"
#elif defined(__AVX512VNNI__)
#include "avx512.h"
#else
#include "avx2.h"
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace headrace {

// e^x to about 1e-7 of its value (Cephes' expf: 2^n times a polynomial on [-ln2/2, ln2/2]); below -150 it is 0.
inline Floats exp(Floats x) {
    x = min(max(x, broadcast(-150.0f)), broadcast(88.37626f));
    const Floats n = nearest(x * broadcast(1.44269504f));
    x = fnmadd(n, broadcast(0.693359375f), x);
    x = fnmadd(n, broadcast(-2.12194440e-4f), x);
    Floats y = broadcast(1.9875691500e-4f);
    y = fmadd(y, x, broadcast(1.3981999507e-3f));
    y = fmadd(y, x, broadcast(8.3334519073e-3f));
    y = fmadd(y, x, broadcast(4.1665795894e-2f));
    y = fmadd(y, x, broadcast(1.6666665459e-1f));
    y = fmadd(y, x, broadcast(5.0000001201e-1f));
    y = fmadd(y, x * x, x + broadcast(1.0f));
    return times_power_of_two(y, n);
}

// 2^x for finite x of 127 at most, to about 3e-6 of its value (2^n times a polynomial of 2^f, f on [-1/2, 1/2]); 1 for
// 0, so that a tile without visible positions changes no sum.
inline Floats fast_exp2(Floats x) {
    const Floats n = nearest(x), f = x - n;
    Floats y = broadcast(9.5828563e-3f);
    y = fmadd(y, f, broadcast(5.5906430e-2f));
    y = fmadd(y, f, broadcast(2.4024099e-1f));
    y = fmadd(y, f, broadcast(6.9312418e-1f));
    y = fmadd(y, f, broadcast(1.0f));
    return times_power_of_two(y, n);
}

// x / (1 + e^-x)
inline Floats silu(Floats x) { return x / (broadcast(1.0f) + exp(-x)); }

// `limit` times the hyperbolic tangent of x / limit.
struct SoftCap {
    Floats limit, factor;

    explicit SoftCap(float limit) : limit(broadcast(limit)), factor(broadcast(2.0f / limit)) {}
    Floats operator()(Floats x) const { return limit - (limit + limit) / (exp(x * factor) + broadcast(1.0f)); }
};

// The largest magnitude of `count` numbers, a multiple of the vector width.
inline float peak(const float* x, int64_t count) {
    Floats highest = abs(load(x));
    for (int64_t i = kWidth; i < count; i += kWidth) highest = max(highest, abs(load(x + i)));
    return largest(highest);
}

inline __attribute__((always_inline)) void transpose(Ints (&x)[kWidth]) {
    Floats same[kWidth];
    for (int i = 0; i < kWidth; ++i) std::memcpy(&same[i], &x[i], sizeof same[i]);
    transpose(same);
    for (int i = 0; i < kWidth; ++i) std::memcpy(&x[i], &same[i], sizeof same[i]);
}

// Keeps an inner loop's sum in its register: if the compiler reorders or copies it, sums spill to the stack.
template <class Vector>
inline Vector in_place(Vector sum) {
#if defined(__aarch64__)
    asm("" : "+w"(sum));
#else
    asm("" : "+v"(sum));
#endif
    return sum;
}

// Calls `body` with the compile-time constants 0 to N - 1, so that arrays that it indexes are kept in registers.
template <int N, class Body>
inline __attribute__((always_inline)) void unrolled(const Body& body) {
    [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
        (body(std::integral_constant<int, i>{}), ...);
    }(std::make_integer_sequence<int, N>{});
}

constexpr int64_t kByteBlock = std::max(32, 4 * kWidth);  // bytes that are packed or multiplied at a time

// The words of `size` bytes in whole blocks.
inline int64_t block_words(int64_t size) { return (size + kByteBlock - 1) / kByteBlock * kByteBlock / 4; }

inline int32_t load_int32(const void* from) {
    int32_t value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// Storage formats of numbers: each has a type `Stored`, and loads and stores a vector.
struct Float32 {
    using Stored = float;
    static Floats load(const Stored* from) { return headrace::load(from); }
    static void store(Stored* to, Floats x) { headrace::store(to, x); }
};

struct Float16 {
    using Stored = uint16_t;
    static Floats load(const Stored* from) { return load_float16(from); }
    static void store(Stored* to, Floats x) { store_float16(to, x); }
};

struct BFloat16 {
    using Stored = uint16_t;
    static Floats load(const Stored* from) { return load_bfloat16(from); }
    static void store(Stored* to, Floats x) { store_bfloat16(to, x); }
};

}  // namespace headrace
