// SIMD wrappers for AVX-512 with VNNI: sixteen floats per vector. The same interface as `avx2.h`.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace headrace {

constexpr int kWidth = 16;       // floats in a vector
constexpr int kIntegerTile = 6;  // rows whose sums fit the registers beside two vectors of weights
constexpr bool kMultipliesBytes = true;  // unsigned by signed, in one instruction
constexpr bool kUnpacksForFree = true;  // unpacking codes where they are used takes execution units that are idle
using Floats = __m512;
using Ints = __m512i;  // of 32 bits, or parts of them

inline Floats zero() { return _mm512_setzero_ps(); }
inline Floats broadcast(float x) { return _mm512_set1_ps(x); }
inline Ints broadcast(int32_t x) { return _mm512_set1_epi32(x); }
inline Floats load(const float* from) { return _mm512_loadu_ps(from); }
inline void store(float* to, Floats x) { _mm512_storeu_ps(to, x); }
inline Ints load(const int32_t* from) { return _mm512_loadu_si512(from); }
inline void store(int32_t* to, Ints x) { _mm512_storeu_si512(to, x); }
inline Floats fmadd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats fmsub(Floats a, Floats b, Floats c) { return _mm512_fmsub_ps(a, b, c); }
inline Floats fnmadd(Floats a, Floats b, Floats c) { return _mm512_fnmadd_ps(a, b, c); }
inline Floats min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
inline Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
inline Floats abs(Floats x) { return _mm512_abs_ps(x); }
inline Floats nearest(Floats x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Floats to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
inline Ints to_ints(Floats x) { return _mm512_cvtps_epi32(x); }

// x * 2^n for whole numbers n of 127 at most; 0 where n is below -200.
inline Floats times_power_of_two(Floats x, Floats n) { return _mm512_scalef_ps(x, n); }

// `x`, but `otherwise` where `measure` is below `limit`.
inline Floats unless_below(Floats measure, Floats limit, Floats x, Floats otherwise) {
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(measure, limit, _CMP_LT_OQ), otherwise);
}

inline float sum(Floats x) { return _mm512_reduce_add_ps(x); }
inline float first(Floats x) { return _mm512_cvtss_f32(x); }
inline float largest(Floats x) { return _mm512_reduce_max_ps(x); }

// Stores the sums of four vectors, in order.
inline void store_sums(float* to, Floats a, Floats b, Floats c, Floats d) {
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 lanes = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 halved = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(halved), _mm256_extractf128_ps(halved, 1)));
}

// Transposes: number j of vector i swaps with number i of vector j. First within four vectors, per lane of 128 bits.
inline __attribute__((always_inline)) void transpose(Floats (&x)[kWidth]) {
    Floats fours[kWidth];
    for (int i = 0; i < kWidth; i += 4) {
        const __m512 low = _mm512_unpacklo_ps(x[i], x[i + 1]), high = _mm512_unpackhi_ps(x[i], x[i + 1]);
        const __m512 next_low = _mm512_unpacklo_ps(x[i + 2], x[i + 3]);
        const __m512 next_high = _mm512_unpackhi_ps(x[i + 2], x[i + 3]);
        fours[i] = _mm512_shuffle_ps(low, next_low, 0x44);
        fours[i + 1] = _mm512_shuffle_ps(low, next_low, 0xee);
        fours[i + 2] = _mm512_shuffle_ps(high, next_high, 0x44);
        fours[i + 3] = _mm512_shuffle_ps(high, next_high, 0xee);
    }
    for (int j = 0; j < 4; ++j) {
        const __m512 a = _mm512_shuffle_f32x4(fours[j], fours[4 + j], 0x88);
        const __m512 b = _mm512_shuffle_f32x4(fours[j], fours[4 + j], 0xdd);
        const __m512 c = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], 0x88);
        const __m512 d = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], 0xdd);
        x[j] = _mm512_shuffle_f32x4(a, c, 0x88);
        x[4 + j] = _mm512_shuffle_f32x4(b, d, 0x88);
        x[8 + j] = _mm512_shuffle_f32x4(a, c, 0xdd);
        x[12 + j] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

inline Floats load_float16(const uint16_t* from) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from)); }

inline void store_float16(uint16_t* to, Floats x) {
    _mm256_storeu_si256((__m256i*)to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

inline Floats load_bfloat16(const uint16_t* from) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

// Rounds to the nearest, ties to even. A NaN may become an infinity, which makes a sequence just as invalid.
inline void store_bfloat16(uint16_t* to, Floats x) {
#if defined(__AVX512BF16__)
    _mm256_storeu_si256((__m256i*)to, (__m256i)_mm512_cvtneps_pbh(x));
#else
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256((__m256i*)to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
#endif
}

inline Floats load_int8(const int8_t* from) {
    return to_floats(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)from)));
}

// Stores integers that fit 8 bits.
inline void store_int8(int8_t* to, Ints x) { _mm_storeu_si128((__m128i*)to, _mm512_cvtepi32_epi8(x)); }

// Stores 32 integers that fit 16 or 8 bits.
inline void narrow(const Ints (&values)[2], int16_t* to) {
    for (int i = 0; i < 2; ++i) _mm256_storeu_si256((__m256i*)(to + 16 * i), _mm512_cvtepi32_epi16(values[i]));
}

inline void narrow(const Ints (&values)[2], int8_t* to) {
    for (int i = 0; i < 2; ++i) _mm_storeu_si128((__m128i*)(to + 16 * i), _mm512_cvtepi32_epi8(values[i]));
}

// Loads the first `count` bytes, at most a vector, followed by zeros.
inline Ints load_bytes(const int8_t* from, int64_t count) {
    return _mm512_maskz_loadu_epi8(count < 64 ? (uint64_t{1} << count) - 1 : ~uint64_t{0}, from);
}

inline Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }

// Whole numbers over 256, rounded down.
inline Ints over_256(Ints x) { return _mm512_srai_epi32(x, 8); }

inline Ints times_256(Ints x) { return _mm512_slli_epi32(x, 8); }

// Splits 32 codes, `low + 256 * high` with both signed bytes.
inline void split_bytes(const Ints (&codes)[2], int8_t* low, int8_t* high) {
    const __m256i left = _mm512_cvtepi32_epi16(codes[0]), right = _mm512_cvtepi32_epi16(codes[1]);
    const __m512i words = _mm512_inserti64x4(_mm512_castsi256_si512(left), right, 1);
    const __m512i rounded = _mm512_add_epi16(words, _mm512_set1_epi16(128));
    _mm256_storeu_si256((__m256i*)low, _mm512_cvtepi16_epi8(words));
    _mm256_storeu_si256((__m256i*)high, _mm512_cvtepi16_epi8(_mm512_srai_epi16(rounded, 8)));
}

// `x` with the bits flipped that are set in `bits`.
inline Ints flip(Ints x, Ints bits) { return _mm512_xor_si512(x, bits); }

// Interleaves the bytes of four vectors, one of each per 32-bit lane. `in_order` restores the bytes' order in results.
inline void interleave(const Ints (&x)[4], Ints (&lanes)[4]) {
    const __m512i low = _mm512_unpacklo_epi8(x[0], x[1]), next_low = _mm512_unpacklo_epi8(x[2], x[3]);
    const __m512i high = _mm512_unpackhi_epi8(x[0], x[1]), next_high = _mm512_unpackhi_epi8(x[2], x[3]);
    lanes[0] = _mm512_unpacklo_epi16(low, next_low);
    lanes[1] = _mm512_unpackhi_epi16(low, next_low);
    lanes[2] = _mm512_unpacklo_epi16(high, next_high);
    lanes[3] = _mm512_unpackhi_epi16(high, next_high);
}

inline void in_order(Floats (&x)[4]) {
    const __m512 a = _mm512_shuffle_f32x4(x[0], x[1], 0x44), b = _mm512_shuffle_f32x4(x[2], x[3], 0x44);
    const __m512 c = _mm512_shuffle_f32x4(x[0], x[1], 0xee), d = _mm512_shuffle_f32x4(x[2], x[3], 0xee);
    x[0] = _mm512_shuffle_f32x4(a, b, 0x88);
    x[1] = _mm512_shuffle_f32x4(a, b, 0xdd);
    x[2] = _mm512_shuffle_f32x4(c, d, 0x88);
    x[3] = _mm512_shuffle_f32x4(c, d, 0xdd);
}

// Packs 16-bit integers: two per lane, `first` in its low half.
inline Ints pairs(Ints first, Ints second) {
    return _mm512_mask_mov_epi16(first, 0xAAAAAAAA, _mm512_slli_epi32(second, 16));
}

// Packs 8-bit integers: four per lane, the first in its lowest byte.
inline Ints quads(const Ints (&codes)[4]) {
    const auto bytes = [](Ints first, Ints second) {
        return _mm512_mask_mov_epi8(first, 0x2222222222222222, _mm512_slli_epi32(second, 8));
    };
    return pairs(bytes(codes[0], codes[1]), bytes(codes[2], codes[3]));
}

// Integers of a panel's left and right outputs, a lane of 32 bits each: two inputs of 16 bits, or four of 8.
struct Halves {
    Ints left, right;
};

// 4-bit codes: low bits are the left outputs', high bits the right ones'.
inline Halves nibble_quads(const uint8_t* from) {
    const __m512i both = _mm512_loadu_si512(from), low = _mm512_set1_epi8(15);
    return {_mm512_and_si512(both, low), _mm512_and_si512(_mm512_srli_epi16(both, 4), low)};
}

inline Halves byte_pairs(const int8_t* from) {
    const __m256i* at = (const __m256i*)from;
    return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(at)), _mm512_cvtepi8_epi16(_mm256_loadu_si256(at + 1))};
}

inline Halves halves(const uint8_t* from) { return {_mm512_loadu_si512(from), _mm512_loadu_si512(from + 64)}; }

// Packs each 16-bit integer twice in a lane.
inline Ints twice(Ints x) { return pairs(x, x); }

// Computes `(byte * scale + start) / 256` for each byte; scale and start have 16 bits.
inline Ints scaled_bytes(Ints bytes, Ints scale, Ints start) {
    const __m512i low = _mm512_set1_epi16(255);
    const __m512i even = _mm512_add_epi16(_mm512_mullo_epi16(_mm512_and_si512(bytes, low), scale), start);
    const __m512i odd = _mm512_add_epi16(_mm512_mullo_epi16(_mm512_srli_epi16(bytes, 8), scale), start);
    return _mm512_or_si512(_mm512_srli_epi16(even, 8), _mm512_andnot_si512(low, odd));
}

// One unsigned byte of each four, `index` from the lowest.
inline Ints byte_of(Ints x, int index) { return _mm512_and_si512(_mm512_srli_epi32(x, 8 * index), broadcast(255)); }

#if defined(__AVX512BF16__)
// Adds the products of two inputs of bfloat16 to each sum of float32.
inline Floats add_bfloat16_pairs(Floats sum, Ints weight, Ints row) {
    return _mm512_dpbf16_ps(sum, (__m512bh)weight, (__m512bh)row);
}

// Rounds two vectors to bfloat16, and interleaves their numbers.
inline Ints bfloat16_pairs(Floats first, Floats second) {
    const Ints both = (Ints)_mm512_cvtne2ps_pbh(second, first);
    const Ints number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const Ints second_number = _mm512_slli_epi32(_mm512_add_epi32(number, broadcast(kWidth)), 16);
    return _mm512_permutexvar_epi16(_mm512_or_si512(number, second_number), both);
}
#endif

// Add the products of two inputs to each sum of 32 bits.
inline Ints add_pairs(Ints sum, Ints weight, Ints row) { return _mm512_dpwssd_epi32(sum, weight, row); }

// The same for four inputs, unsigned weights and signed rows of 8 bits.
inline Ints add_byte_quads(Ints sum, Ints weight, Ints row) { return _mm512_dpbusd_epi32(sum, weight, row); }
inline Ints add_quads(Ints sum, Ints weight, Ints row) { return add_byte_quads(sum, weight, row); }
inline Ints quads_start(Ints before) { return before; }
inline Ints quads_total(Ints, Ints sum) { return sum; }

}  // namespace headrace
