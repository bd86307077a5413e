// SIMD wrappers for AArch64's NEON with dot products of bytes (Armv8.2): four floats per vector. The same interface as
// `avx2.h`. Memory is read by `std::memcpy` where its type differs: NEON's vectors, unlike x86's, may not alias.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

namespace headrace {

constexpr int kWidth = 4;        // floats in a vector
constexpr int kIntegerTile = 8;  // rows whose sums fit the registers beside two vectors of weights
constexpr bool kMultipliesBytes = true;
constexpr bool kUnpacksForFree = true;  // unpacking codes costs two instructions beside the products of a tile's rows
using Floats = float32x4_t;
using Ints = int32x4_t;  // of 32 bits, or parts of them

// Loads the vector at an address that has any type.
template <class Vector>
inline Vector load_as(const void* from) {
    Vector x;
    std::memcpy(&x, from, sizeof x);
    return x;
}

inline Floats zero() { return vdupq_n_f32(0.0f); }
inline Floats broadcast(float x) { return vdupq_n_f32(x); }
inline Ints broadcast(int32_t x) { return vdupq_n_s32(x); }
inline Floats load(const float* from) { return load_as<Floats>(from); }
inline void store(float* to, Floats x) { std::memcpy(to, &x, sizeof x); }
inline Ints load(const int32_t* from) { return load_as<Ints>(from); }
inline void store(int32_t* to, Ints x) { std::memcpy(to, &x, sizeof x); }
inline Floats fmadd(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
inline Floats fmsub(Floats a, Floats b, Floats c) { return vfmaq_f32(vnegq_f32(c), a, b); }
inline Floats fnmadd(Floats a, Floats b, Floats c) { return vfmsq_f32(c, a, b); }
inline Floats min(Floats a, Floats b) { return vminq_f32(a, b); }
inline Floats max(Floats a, Floats b) { return vmaxq_f32(a, b); }
inline Floats abs(Floats x) { return vabsq_f32(x); }
inline Floats nearest(Floats x) { return vrndnq_f32(x); }
inline Floats to_floats(Ints x) { return vcvtq_f32_s32(x); }
inline Ints to_ints(Floats x) { return vcvtnq_s32_f32(x); }

// x * 2^n for whole numbers n of 127 at most; 0 where n is below -126.
inline Floats times_power_of_two(Floats x, Floats n) {
    const int32x4_t exponent = vaddq_s32(to_ints(n), vdupq_n_s32(127));
    const Floats product = vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
    const uint32x4_t kept = vcgeq_f32(n, vdupq_n_f32(-126.0f));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(product), kept));
}

// `x`, but `otherwise` where `measure` is below `limit`.
inline Floats unless_below(Floats measure, Floats limit, Floats x, Floats otherwise) {
    return vbslq_f32(vcltq_f32(measure, limit), otherwise, x);
}

inline float sum(Floats x) { return vaddvq_f32(x); }
inline float first(Floats x) { return vgetq_lane_f32(x, 0); }
inline float largest(Floats x) { return vmaxvq_f32(x); }

// Stores the sums of four vectors, in order.
inline void store_sums(float* to, Floats a, Floats b, Floats c, Floats d) {
    store(to, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
}

// Transposes: number j of vector i swaps with number i of vector j.
inline void transpose(Floats (&x)[kWidth]) {
    const Floats low = vzip1q_f32(x[0], x[2]), next_low = vzip1q_f32(x[1], x[3]);
    const Floats high = vzip2q_f32(x[0], x[2]), next_high = vzip2q_f32(x[1], x[3]);
    x[0] = vzip1q_f32(low, next_low);
    x[1] = vzip2q_f32(low, next_low);
    x[2] = vzip1q_f32(high, next_high);
    x[3] = vzip2q_f32(high, next_high);
}

inline Floats load_float16(const uint16_t* from) { return vcvt_f32_f16(load_as<float16x4_t>(from)); }

inline void store_float16(uint16_t* to, Floats x) {
    const float16x4_t halves = vcvt_f16_f32(x);
    std::memcpy(to, &halves, sizeof halves);
}

inline Floats load_bfloat16(const uint16_t* from) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(load_as<uint16x4_t>(from)), 16));
}

// Rounds to the nearest, ties to even. A NaN may become an infinity, which makes a sequence just as invalid.
inline void store_bfloat16(uint16_t* to, Floats x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint16x4_t halves = vshrn_n_u32(rounded, 16);
    std::memcpy(to, &halves, sizeof halves);
}

inline Floats load_int8(const int8_t* from) {
    int32_t bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    return to_floats(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bytes))))));
}

// Stores integers that fit 8 bits.
inline void store_int8(int8_t* to, Ints x) {
    const int16x4_t words = vmovn_s32(x);
    const int32_t bytes = vget_lane_s32(vreinterpret_s32_s8(vmovn_s16(vcombine_s16(words, words))), 0);
    std::memcpy(to, &bytes, sizeof bytes);
}

// The low halves of two vectors' 32-bit lanes.
inline int16x8_t low_halves(Ints a, Ints b) { return vuzp1q_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)); }

// Stores the low 16 or 8 bits of 32 integers.
inline void narrow(const Ints (&values)[8], int16_t* to) {
    for (int i = 0; i < 4; ++i) vst1q_s16(to + 8 * i, low_halves(values[2 * i], values[2 * i + 1]));
}

inline void narrow(const Ints (&values)[8], int8_t* to) {
    for (int i = 0; i < 2; ++i) {
        const int16x8_t left = low_halves(values[4 * i], values[4 * i + 1]);
        const int16x8_t right = low_halves(values[4 * i + 2], values[4 * i + 3]);
        vst1q_s8(to + 16 * i, vuzp1q_s8(vreinterpretq_s8_s16(left), vreinterpretq_s8_s16(right)));
    }
}

// Loads the first `count` bytes, at most a vector, followed by zeros.
inline Ints load_bytes(const int8_t* from, int64_t count) {
    if (count >= 16) return load_as<Ints>(from);
    int8_t bytes[16] = {};
    std::memcpy(bytes, from, count);
    return load_as<Ints>(bytes);
}

inline Ints add(Ints a, Ints b) { return vaddq_s32(a, b); }

// Whole numbers over 256, rounded down.
inline Ints over_256(Ints x) { return vshrq_n_s32(x, 8); }

inline Ints times_256(Ints x) { return vshlq_n_s32(x, 8); }

// Splits 32 codes, `low + 256 * high` with both signed bytes.
inline void split_bytes(const Ints (&codes)[8], int8_t* low, int8_t* high) {
    Ints upper[8];
    for (int i = 0; i < 8; ++i) upper[i] = over_256(add(codes[i], vdupq_n_s32(128)));
    narrow(codes, low);
    narrow(upper, high);
}

// `x` with the bits flipped that are set in `bits`.
inline Ints flip(Ints x, Ints bits) { return veorq_s32(x, bits); }

// Interleaves the bytes of four vectors, one of each per 32-bit lane.
inline void interleave(const Ints (&x)[4], Ints (&lanes)[4]) {
    int8x16_t bytes[4];
    for (int i = 0; i < 4; ++i) bytes[i] = vreinterpretq_s8_s32(x[i]);
    const int16x8_t low = vreinterpretq_s16_s8(vzip1q_s8(bytes[0], bytes[1]));
    const int16x8_t next_low = vreinterpretq_s16_s8(vzip1q_s8(bytes[2], bytes[3]));
    const int16x8_t high = vreinterpretq_s16_s8(vzip2q_s8(bytes[0], bytes[1]));
    const int16x8_t next_high = vreinterpretq_s16_s8(vzip2q_s8(bytes[2], bytes[3]));
    lanes[0] = vreinterpretq_s32_s16(vzip1q_s16(low, next_low));
    lanes[1] = vreinterpretq_s32_s16(vzip2q_s16(low, next_low));
    lanes[2] = vreinterpretq_s32_s16(vzip1q_s16(high, next_high));
    lanes[3] = vreinterpretq_s32_s16(vzip2q_s16(high, next_high));
}

inline void in_order(Floats (&)[4]) {}  // vectors of 128 bits are interleaved in order

// Packs 16-bit integers: two per lane, `first` in its low half.
inline Ints pairs(Ints first, Ints second) { return vsliq_n_s32(first, second, 16); }

// Packs 8-bit integers: four per lane, the first in its lowest byte.
inline Ints quads(const Ints (&codes)[4]) {
    return pairs(vsliq_n_s32(codes[0], codes[1], 8), vsliq_n_s32(codes[2], codes[3], 8));
}

// Integers of a panel's left and right outputs, a lane of 32 bits each: two inputs of 16 bits, or four of 8.
struct Halves {
    Ints left, right;
};

// 4-bit codes: low bits are the left outputs', high bits the right ones'.
inline Halves nibble_quads(const uint8_t* from) {
    const uint8x16_t both = vld1q_u8(from);
    return {vreinterpretq_s32_u8(vandq_u8(both, vdupq_n_u8(15))), vreinterpretq_s32_u8(vshrq_n_u8(both, 4))};
}

inline Halves byte_pairs(const int8_t* from) {
    const int8x16_t both = vld1q_s8(from);
    return {vreinterpretq_s32_s16(vmovl_s8(vget_low_s8(both))), vreinterpretq_s32_s16(vmovl_high_s8(both))};
}

inline Halves halves(const uint8_t* from) { return {load_as<Ints>(from), load_as<Ints>(from + 16)}; }

// Packs each 16-bit integer twice in a lane.
inline Ints twice(Ints x) { return pairs(x, x); }

// Computes `(byte * scale + start) / 256` for each byte; scale and start have 16 bits.
inline Ints scaled_bytes(Ints bytes, Ints scale, Ints start) {
    const uint16x8_t codes = vreinterpretq_u16_s32(bytes), factor = vreinterpretq_u16_s32(scale);
    const uint16x8_t first = vreinterpretq_u16_s32(start);
    const uint16x8_t even = vmlaq_u16(first, vandq_u16(codes, vdupq_n_u16(255)), factor);
    const uint16x8_t odd = vmlaq_u16(first, vshrq_n_u16(codes, 8), factor);
    return vreinterpretq_s32_u16(vsriq_n_u16(odd, even, 8));
}

// Add the products of two inputs to each sum of 32 bits.
inline Ints add_pairs(Ints sum, Ints weight, Ints row) {
    const int16x8_t a = vreinterpretq_s16_s32(weight), b = vreinterpretq_s16_s32(row);
    return vaddq_s32(sum, vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b)));
}

// The same for four inputs, unsigned weights and signed rows of 8 bits. Only processors with `i8mm` multiply these;
// others multiply signed weights that are 128 less, and subtract -128 times the row, the same for all weights.
inline Ints add_byte_quads(Ints sum, Ints weight, Ints row) {
    const int8x16_t values = vreinterpretq_s8_s32(row);
#if defined(__ARM_FEATURE_MATMUL_INT8)
    return vusdotq_s32(sum, vreinterpretq_u8_s32(weight), values);
#else
    const int32x4_t lowered = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(-128), values);
    const int8x16_t codes = veorq_s8(vreinterpretq_s8_s32(weight), vdupq_n_s8(-128));
    return vdotq_s32(vsubq_s32(sum, lowered), codes, values);
#endif
}

// The same for weights of 4 bits, which are positive as signed bytes too.
inline Ints add_quads(Ints sum, Ints weight, Ints row) {
    return vdotq_s32(sum, vreinterpretq_s8_s32(weight), vreinterpretq_s8_s32(row));
}
inline Ints quads_start(Ints before) { return before; }
inline Ints quads_total(Ints, Ints sum) { return sum; }

}  // namespace headrace
