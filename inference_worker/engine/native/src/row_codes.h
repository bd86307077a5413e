// Rows of activations, rounded to the integers that weights are multiplied with: per group of 32 inputs, symmetrically.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "simd.h"

namespace headrace {

constexpr int64_t kGroup = 32;          // inputs that share a scale
constexpr float kLargestByte = 127.0f;  // of a row's codes
constexpr float kLargestPair = 256 * kLargestByte;  // of codes of two bytes

// Bits of the codes of rows that are multiplied as bytes.
enum class RowBits : int64_t {
    kMixed = 0,  // 8, but 16 for the quads of inputs that are the largest of their group
    k8 = 8,
    k16 = 16,
};

constexpr int kOutliers = 2;  // quads of a group with codes of 16 bits in mixed rows

// Rows of activations in the form that a weight format multiplies with; it uses only the arrays that it needs.
//
// A row of bytes has two planes: the low byte of each input's code, then the high bytes that are not known to be zero:
// of all inputs, of each group's outliers, or none.
struct Rows {
    const float* values;  // [R, inputs]
    void* codes;          // [R, inputs] int16, or [R, 2, inputs] int8
    float* scales;        // [R, inputs / 32]
    float* sums;          // [R, inputs / 32]: of a group's rounded values
    uint8_t* outliers;    // [R, inputs / 32, kOutliers]: their quads' indices in the group, in mixed rows

    int8_t* bytes(int64_t row, int64_t inputs) const { return static_cast<int8_t*>(codes) + row * 2 * inputs; }
};

// Rows of 16-bit codes: two inputs of an output are adjacent in the weights.
struct Pairs {
    static constexpr int kInputs = 2;
    static constexpr bool kPlanes = false;

    static Ints add(Ints sum, Ints weight, Ints row) { return add_pairs(sum, weight, row); }
    static Ints start(Ints before) { return before; }
    static Ints total(Ints, Ints sum) { return sum; }
};

// Rows of two planes of 8-bit codes: four inputs of an output are adjacent, as unsigned weights of 4 bits.
struct Quads {
    static constexpr int kInputs = 4;
    static constexpr bool kPlanes = true;

    static Ints add(Ints sum, Ints weight, Ints row) { return add_quads(sum, weight, row); }
    static Ints start(Ints before) { return quads_start(before); }
    static Ints total(Ints before, Ints sum) { return quads_total(before, sum); }
};

// Rows of two planes of 8-bit codes with unsigned weights of 8 bits.
struct ByteQuads {
    static constexpr int kInputs = 4;
    static constexpr bool kPlanes = true;

    static Ints add(Ints sum, Ints weight, Ints row) { return add_byte_quads(sum, weight, row); }
    static Ints start(Ints before) { return before; }
    static Ints total(Ints, Ints sum) { return sum; }
};

// Finds the quads of a group with the largest magnitudes; returns the largest magnitude of the others.
inline float find_outliers(const float* x, uint8_t (&outliers)[kOutliers]) {
    alignas(16) int32_t keys[8];  // magnitudes as integers, which have the same order, with the index as the last bits
    for (int half = 0; half < 2; ++half) {
        const __m128 sign = _mm_set1_ps(-0.0f);
        __m128 quads[4];
        for (int i = 0; i < 4; ++i) quads[i] = _mm_andnot_ps(sign, _mm_loadu_ps(x + 16 * half + 4 * i));
        _MM_TRANSPOSE4_PS(quads[0], quads[1], quads[2], quads[3]);
        const __m128 peaks = _mm_max_ps(_mm_max_ps(quads[0], quads[1]), _mm_max_ps(quads[2], quads[3]));
        const __m128i index = _mm_add_epi32(_mm_setr_epi32(0, 1, 2, 3), _mm_set1_epi32(4 * half));
        const __m128i bits = _mm_andnot_si128(_mm_set1_epi32(7), _mm_castps_si128(peaks));
        _mm_store_si128(reinterpret_cast<__m128i*>(keys) + half, _mm_or_si128(bits, index));
    }
    int32_t first = 0, second = 0, third = 0;
    for (int32_t key : keys) {
        const int32_t lower = std::min(first, key), lowest = std::min(second, lower);
        first = std::max(first, key);
        second = std::max(second, lower);
        third = std::max(third, lowest);
    }
    outliers[0] = first & 7;
    outliers[1] = second & 7;
    float others;
    std::memcpy(&others, &third, sizeof others);
    return others;
}

// Rounds a group of 32 inputs to bytes, and returns its scale. `low` and `high`: the planes of the group.
inline float round_to_bytes(const float* x, RowBits bits, float highest, int8_t* low, int8_t* high, uint8_t* outliers,
                            Ints (&whole)[kGroup / kWidth]) {
    constexpr int kVectors = kGroup / kWidth;
    uint8_t found[kOutliers];
    float scale = highest / (bits == RowBits::k8 ? kLargestByte : kLargestPair);
    if (bits == RowBits::kMixed) scale = std::max(scale, find_outliers(x, found) / kLargestByte);
    const Floats factor = broadcast(scale > 0 ? 1.0f / scale : 0.0f);
    for (int i = 0; i < kVectors; ++i) whole[i] = to_ints(load(x + i * kWidth) * factor);
    if (bits == RowBits::k8) {
        narrow(whole, low);
        return scale;
    }
    Ints lower[kVectors], upper[kVectors];
    for (int i = 0; i < kVectors; ++i) {
        lower[i] = low_byte(whole[i]);
        upper[i] = over_256(add(whole[i], broadcast(128)));
    }
    narrow(lower, low);
    if (bits == RowBits::k16) {
        narrow(upper, high);
        return scale;
    }
    alignas(64) int8_t bytes[kGroup];
    narrow(upper, bytes);
    for (int i = 0; i < kOutliers; ++i) {
        std::memcpy(high + 4 * i, bytes + 4 * found[i], 4);
        outliers[i] = found[i];
    }
    return scale;
}

// Bytes of a group in the plane of high bytes.
inline int64_t high_bytes(RowBits bits) { return bits == RowBits::kMixed ? 4 * kOutliers : kGroup; }

// Rounds a row to codes of 16 bits, or to bytes.
template <class Kind, bool kSums>
void round_row(const Rows& rows, int64_t row, int64_t inputs, RowBits bits) {
    const int64_t groups = inputs / kGroup;
    const float* x = rows.values + row * inputs;
    int8_t* low = rows.bytes(row, inputs);
    int8_t* high = low + inputs;
    uint8_t* outliers = rows.outliers + row * groups * kOutliers;
    for (int64_t group = 0; group < groups; ++group, x += kGroup) {
        const float highest = peak(x, kGroup);
        constexpr int kVectors = kGroup / kWidth;
        Ints whole[kVectors];
        float scale = highest / 32767.0f;
        if constexpr (Kind::kPlanes) {
            scale = round_to_bytes(x, bits, highest, low + group * kGroup, high + group * high_bytes(bits),
                                   outliers + group * kOutliers, whole);
        } else {
            const Floats factor = broadcast(highest > 0 ? 32767.0f / highest : 0.0f);
            for (int i = 0; i < kVectors; ++i) whole[i] = to_ints(load(x + i * kWidth) * factor);
            narrow(whole, static_cast<int16_t*>(rows.codes) + row * inputs + group * kGroup);
        }
        rows.scales[row * groups + group] = scale;
        if constexpr (kSums) {
            Floats total = to_floats(whole[0]);  // whole numbers below 2^24: exact in any order
            for (int i = 1; i < kVectors; ++i) total += to_floats(whole[i]);
            rows.sums[row * groups + group] = sum(total) * scale;
        }
    }
}

}  // namespace headrace
