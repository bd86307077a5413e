// Eight floats at a time: what AVX2, FMA and F16C give, and the few functions they lack. Knows numbers only.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace headrace {

inline float horizontal_sum(__m256 x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

inline float horizontal_max(__m256 x) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

// The sums of four vectors, in order.
inline __m128 horizontal_sums(__m256 a, __m256 b, __m256 c, __m256 d) {
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

// e^x to about 1e-7 of its value (Cephes' expf: 2^n times a polynomial on [-ln2/2, ln2/2]); below -87 it is 0.
inline __m256 exp(__m256 x) {
    const __m256 smallest = _mm256_set1_ps(-87.33654f);
    const __m256 nothing = _mm256_cmp_ps(x, smallest, _CMP_LT_OQ);
    x = _mm256_min_ps(_mm256_max_ps(x, smallest), _mm256_set1_ps(88.37626f));
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    x = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
    x = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), x);
    __m256 y = _mm256_set1_ps(1.9875691500e-4f);
    y = _mm256_fmadd_ps(y, x, _mm256_set1_ps(1.3981999507e-3f));
    y = _mm256_fmadd_ps(y, x, _mm256_set1_ps(8.3334519073e-3f));
    y = _mm256_fmadd_ps(y, x, _mm256_set1_ps(4.1665795894e-2f));
    y = _mm256_fmadd_ps(y, x, _mm256_set1_ps(1.6666665459e-1f));
    y = _mm256_fmadd_ps(y, x, _mm256_set1_ps(5.0000001201e-1f));
    y = _mm256_fmadd_ps(y, _mm256_mul_ps(x, x), _mm256_add_ps(x, _mm256_set1_ps(1.0f)));
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_andnot_ps(nothing, _mm256_mul_ps(y, _mm256_castsi256_ps(power)));
}

// x / (1 + e^-x)
inline __m256 silu(__m256 x) {
    const __m256 negative = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), exp(negative)));
}

inline int32_t load_int32(const void* from) {
    int32_t value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// How numbers lie in memory: each has `Stored`, and loads and stores eight of them.
struct Float32 {
    using Stored = float;
    static __m256 load(const Stored* from) { return _mm256_loadu_ps(from); }
    static void store(Stored* to, __m256 x) { _mm256_storeu_ps(to, x); }
};

struct Float16 {
    using Stored = uint16_t;
    static __m256 load(const Stored* from) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from)); }
    static void store(Stored* to, __m256 x) {
        _mm_storeu_si128((__m128i*)to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
};

struct BFloat16 {
    using Stored = uint16_t;
    static __m256 load(const Stored* from) {
        const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)from));
        return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
    }
    // Rounds to the nearest, ties to even. A NaN may become an infinity: both spoil a sequence alike.
    static void store(Stored* to, __m256 x) {
        const __m256i bits = _mm256_castps_si256(x);
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        const __m256i rounded =
            _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
        const __m256i packed = _mm256_packus_epi32(rounded, rounded);
        const __m256i ordered = _mm256_permute4x64_epi64(packed, 0b1000);
        _mm_storeu_si128((__m128i*)to, _mm256_castsi256_si128(ordered));
    }
};

}  // namespace headrace
