// SIMD wrappers for AVX2, FMA and F16C: eight floats per vector. The same interface as `avx512.h`.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace headrace {

constexpr int kWidth = 8;        // floats in a vector
constexpr int kIntegerTile = 4;  // rows whose sums fit the registers beside two vectors of weights
constexpr bool kMultipliesBytes = false;  // the 16-bit partial sums of byte products could overflow
constexpr bool kUnpacksForFree = false;  // unpacking codes where they are used costs as much as multiplying
using Floats = __m256;
using Ints = __m256i;  // of 32 bits, or parts of them

inline Floats zero() { return _mm256_setzero_ps(); }
inline Floats broadcast(float x) { return _mm256_set1_ps(x); }
inline Ints broadcast(int32_t x) { return _mm256_set1_epi32(x); }
inline Floats load(const float* from) { return _mm256_loadu_ps(from); }
inline void store(float* to, Floats x) { _mm256_storeu_ps(to, x); }
inline Ints load(const int32_t* from) { return _mm256_loadu_si256((const __m256i*)from); }
inline void store(int32_t* to, Ints x) { _mm256_storeu_si256((__m256i*)to, x); }
inline Floats fmadd(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats fmsub(Floats a, Floats b, Floats c) { return _mm256_fmsub_ps(a, b, c); }
inline Floats fnmadd(Floats a, Floats b, Floats c) { return _mm256_fnmadd_ps(a, b, c); }
inline Floats min(Floats a, Floats b) { return _mm256_min_ps(a, b); }
inline Floats max(Floats a, Floats b) { return _mm256_max_ps(a, b); }
inline Floats abs(Floats x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
inline Floats nearest(Floats x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Floats to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
inline Ints to_ints(Floats x) { return _mm256_cvtps_epi32(x); }

// x * 2^n for whole numbers n of 127 at most; 0 where n is below -126.
inline Floats times_power_of_two(Floats x, Floats n) {
    const __m256i exponent = _mm256_add_epi32(to_ints(n), _mm256_set1_epi32(127));
    const Floats product = _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
    return _mm256_and_ps(product, _mm256_cmp_ps(n, _mm256_set1_ps(-126.0f), _CMP_GE_OQ));
}

// `x`, but `otherwise` where `measure` is below `limit`.
inline Floats unless_below(Floats measure, Floats limit, Floats x, Floats otherwise) {
    return _mm256_blendv_ps(x, otherwise, _mm256_cmp_ps(measure, limit, _CMP_LT_OQ));
}

inline float sum(Floats x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

inline float first(Floats x) { return _mm256_cvtss_f32(x); }
inline float largest(Floats x) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

// Stores the sums of four vectors, in order.
inline void store_sums(float* to, Floats a, Floats b, Floats c, Floats d) {
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
}

// Transposes: number j of vector i swaps with number i of vector j. First within four vectors, per lane of 128 bits.
inline void transpose(Floats (&x)[kWidth]) {
    Floats fours[kWidth];
    for (int i = 0; i < kWidth; i += 4) {
        const __m256 low = _mm256_unpacklo_ps(x[i], x[i + 1]), high = _mm256_unpackhi_ps(x[i], x[i + 1]);
        const __m256 next_low = _mm256_unpacklo_ps(x[i + 2], x[i + 3]);
        const __m256 next_high = _mm256_unpackhi_ps(x[i + 2], x[i + 3]);
        fours[i] = _mm256_shuffle_ps(low, next_low, 0x44);
        fours[i + 1] = _mm256_shuffle_ps(low, next_low, 0xee);
        fours[i + 2] = _mm256_shuffle_ps(high, next_high, 0x44);
        fours[i + 3] = _mm256_shuffle_ps(high, next_high, 0xee);
    }
    for (int j = 0; j < 4; ++j) {
        x[j] = _mm256_permute2f128_ps(fours[j], fours[4 + j], 0x20);
        x[4 + j] = _mm256_permute2f128_ps(fours[j], fours[4 + j], 0x31);
    }
}

inline Floats load_float16(const uint16_t* from) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from)); }

inline void store_float16(uint16_t* to, Floats x) {
    _mm_storeu_si128((__m128i*)to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

inline Floats load_bfloat16(const uint16_t* from) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

// Rounds to the nearest, ties to even. A NaN may become an infinity, which makes a sequence just as invalid.
inline void store_bfloat16(uint16_t* to, Floats x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i packed = _mm256_packus_epi32(rounded, rounded);
    _mm_storeu_si128((__m128i*)to, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0b1000)));
}

inline Floats load_int8(const int8_t* from) {
    return to_floats(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)from)));
}

// Stores integers that fit 8 bits.
inline void store_int8(int8_t* to, Ints x) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storel_epi64((__m128i*)to, _mm_packs_epi16(words, words));
}

// Stores 32 integers that fit 16 or 8 bits.
inline void narrow(const Ints (&values)[4], int16_t* to) {
    for (int i = 0; i < 2; ++i) {
        const __m256i both = _mm256_packs_epi32(values[2 * i], values[2 * i + 1]);
        _mm256_storeu_si256((__m256i*)(to + 16 * i), _mm256_permute4x64_epi64(both, 0b11011000));
    }
}

inline void narrow(const Ints (&values)[4], int8_t* to) {
    const __m256i words =
        _mm256_packs_epi16(_mm256_packs_epi32(values[0], values[1]), _mm256_packs_epi32(values[2], values[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i*)to, _mm256_permutevar8x32_epi32(words, order));
}

// Loads the first `count` bytes, at most a vector, followed by zeros.
inline Ints load_bytes(const int8_t* from, int64_t count) {
    alignas(32) int8_t bytes[32] = {};
    std::memcpy(bytes, from, count < 32 ? count : 32);
    return _mm256_load_si256((const __m256i*)bytes);
}

inline Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }

// Whole numbers over 256, rounded down.
inline Ints over_256(Ints x) { return _mm256_srai_epi32(x, 8); }

inline Ints times_256(Ints x) { return _mm256_slli_epi32(x, 8); }

// Splits 32 codes, `low + 256 * high` with both signed bytes.
inline void split_bytes(const Ints (&codes)[4], int8_t* low, int8_t* high) {
    Ints lower[4], upper[4];
    for (int i = 0; i < 4; ++i) {
        lower[i] = _mm256_srai_epi32(_mm256_slli_epi32(codes[i], 24), 24);
        upper[i] = over_256(add(codes[i], _mm256_set1_epi32(128)));
    }
    narrow(lower, low);
    narrow(upper, high);
}

inline Ints flip(Ints x, Ints bits) { return _mm256_xor_si256(x, bits); }

// Interleaves the bytes of four vectors, one of each per 32-bit lane. `in_order` restores the bytes' order in results.
inline void interleave(const Ints (&x)[4], Ints (&lanes)[4]) {
    const __m256i low = _mm256_unpacklo_epi8(x[0], x[1]), next_low = _mm256_unpacklo_epi8(x[2], x[3]);
    const __m256i high = _mm256_unpackhi_epi8(x[0], x[1]), next_high = _mm256_unpackhi_epi8(x[2], x[3]);
    lanes[0] = _mm256_unpacklo_epi16(low, next_low);
    lanes[1] = _mm256_unpackhi_epi16(low, next_low);
    lanes[2] = _mm256_unpacklo_epi16(high, next_high);
    lanes[3] = _mm256_unpackhi_epi16(high, next_high);
}

inline void in_order(Floats (&x)[4]) {
    const __m256 a = x[0], b = x[1], c = x[2], d = x[3];
    x[0] = _mm256_permute2f128_ps(a, b, 0x20);
    x[1] = _mm256_permute2f128_ps(c, d, 0x20);
    x[2] = _mm256_permute2f128_ps(a, b, 0x31);
    x[3] = _mm256_permute2f128_ps(c, d, 0x31);
}

// Packs 16-bit integers: two per lane, `first` in its low half.
inline Ints pairs(Ints first, Ints second) {
    return _mm256_blend_epi16(first, _mm256_slli_epi32(second, 16), 0b10101010);
}

// Packs 8-bit integers: four per lane, the first in its lowest byte.
inline Ints quads(const Ints (&codes)[4]) {
    const auto bytes = [](Ints first, Ints second) {
        return _mm256_blendv_epi8(first, _mm256_slli_epi32(second, 8), _mm256_set1_epi32(0xff00));
    };
    return pairs(bytes(codes[0], codes[1]), bytes(codes[2], codes[3]));
}

// Integers of a panel's left and right outputs, a lane of 32 bits each: two inputs of 16 bits, or four of 8.
struct Halves {
    Ints left, right;
};

// 4-bit codes: low bits are the left outputs', high bits the right ones'.
inline Halves nibble_quads(const uint8_t* from) {
    const __m256i both = _mm256_loadu_si256((const __m256i*)from), low = _mm256_set1_epi8(15);
    return {_mm256_and_si256(both, low), _mm256_and_si256(_mm256_srli_epi16(both, 4), low)};
}

inline Halves byte_pairs(const int8_t* from) {
    const __m128i* at = (const __m128i*)from;
    return {_mm256_cvtepi8_epi16(_mm_loadu_si128(at)), _mm256_cvtepi8_epi16(_mm_loadu_si128(at + 1))};
}

inline Halves halves(const uint8_t* from) {
    return {_mm256_loadu_si256((const __m256i*)from), _mm256_loadu_si256((const __m256i*)(from + 32))};
}

// Packs each 16-bit integer twice in a lane.
inline Ints twice(Ints x) { return pairs(x, x); }

// Computes `(byte * scale + start) / 256` for each byte; scale and start have 16 bits.
inline Ints scaled_bytes(Ints bytes, Ints scale, Ints start) {
    const __m256i low = _mm256_set1_epi16(255);
    const __m256i even = _mm256_add_epi16(_mm256_mullo_epi16(_mm256_and_si256(bytes, low), scale), start);
    const __m256i odd = _mm256_add_epi16(_mm256_mullo_epi16(_mm256_srli_epi16(bytes, 8), scale), start);
    return _mm256_or_si256(_mm256_srli_epi16(even, 8), _mm256_andnot_si256(low, odd));
}

// Add the products of two inputs to each sum of 32 bits.
inline Ints add_pairs(Ints sum, Ints weight, Ints row) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(weight, row));
}

// The same for four inputs, unsigned weights and signed rows of 8 bits: the even ones and the odd ones.
inline Ints add_byte_quads(Ints sum, Ints weight, Ints row) {
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(weight, _mm256_set1_epi16(255)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(row, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(weight, 8), _mm256_srai_epi16(row, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}

// The same for four inputs, unsigned weights of 4 bits and signed rows of 8. Partial sums of 16 bits are kept apart: in
// a group of 32 inputs they can't overflow, because each adds 16 products of at most 15 * 127, at most 30,480.
inline Ints add_quads(Ints sum, Ints weight, Ints row) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(weight, row));
}
inline Ints quads_start(Ints) { return _mm256_setzero_si256(); }
inline Ints quads_total(Ints before, Ints sum) { return add(before, _mm256_madd_epi16(sum, _mm256_set1_epi16(1))); }

}  // namespace headrace
