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

// A group of 32 inputs of a row: codes, their scale, and the sum of the values that they stand for. All that a product
// reads of a group is in one place, because addresses of several arrays in several rows would not fit the registers.
struct PairGroup {
    float scale, sum;
    int16_t codes[kGroup];
};

// A group as bytes: the low byte of each input's code, then the high bytes that are not known to be zero.
template <RowBits>
struct ByteGroup {
    float scale, sum;
    int8_t codes[kGroup];
};

template <>
struct ByteGroup<RowBits::k16> {
    float scale, sum;
    int8_t codes[kGroup];
    int8_t high[kGroup];
};

template <>
struct ByteGroup<RowBits::kMixed> {
    float scale, sum;
    int8_t codes[kGroup];
    int8_t high[kOutliers][4];
    uint8_t outliers[kOutliers];  // the quads' indices in the group
};

constexpr int64_t kMostGroupBytes = sizeof(PairGroup);
constexpr int64_t kRowPadding = 64;  // bytes after a row's codes in some formats
static_assert(sizeof(ByteGroup<RowBits::k16>) == kMostGroupBytes);
static_assert(sizeof(ByteGroup<RowBits::kMixed>) < kMostGroupBytes);

// Rows of activations, in floating point and in the form that a weight format multiplies with.
struct Rows {
    const float* values;  // [R, inputs]
    char* codes;          // [R, bytes of a row]
    char* bfloat16;       // the same for rows of prompts that are multiplied with panels of bfloat16

    // Returns a row's groups, or those of the rows from it on.
    template <class Group>
    Group* groups(int64_t row, int64_t inputs) const {
        return reinterpret_cast<Group*>(codes) + row * (inputs / kGroup);
    }
};

// Rows of 16-bit codes: two inputs of an output are adjacent in the weights.
struct Pairs {
    static constexpr int kInputs = 2;
    static constexpr bool kBytes = false;

    static Ints add(Ints sum, Ints weight, Ints row) { return add_pairs(sum, weight, row); }
    static Ints start(Ints before) { return before; }
    static Ints total(Ints, Ints sum) { return sum; }
};

// Rows of bytes: four inputs of an output are adjacent, as unsigned weights of 4 bits.
struct Quads {
    static constexpr int kInputs = 4;
    static constexpr bool kBytes = true;

    static Ints add(Ints sum, Ints weight, Ints row) { return add_quads(sum, weight, row); }
    static Ints start(Ints before) { return quads_start(before); }
    static Ints total(Ints before, Ints sum) { return quads_total(before, sum); }
};

// Rows of bytes with unsigned weights of 8 bits.
struct ByteQuads {
    static constexpr int kInputs = 4;
    static constexpr bool kBytes = true;

    static Ints add(Ints sum, Ints weight, Ints row) { return add_byte_quads(sum, weight, row); }
    static Ints start(Ints before) { return before; }
    static Ints total(Ints, Ints sum) { return sum; }
};

// The quads of a group with the largest magnitudes, and the largest magnitudes of the group and of its other quads.
struct Outliers {
    uint8_t quads[kOutliers];
    float highest, others;
};

using Four = int32_t __attribute__((vector_size(16)));  // operators of GCC and clang, on any processor

inline Four more(Four a, Four b) { return a > b ? a : b; }
inline Four less(Four a, Four b) { return a < b ? a : b; }

// Returns the largest magnitudes of four quads, in order, as integers, which have the order of their floats.
inline Four quad_peaks(const float* x) {
    const auto quad = [&](int i) {
        Four bits;
        std::memcpy(&bits, x + 4 * i, sizeof bits);
        return bits & 0x7fffffff;
    };
    const auto halve = [](Four a, Four b) { return more(Four{a[0], a[2], b[0], b[2]}, Four{a[1], a[3], b[1], b[3]}); };
    return halve(halve(quad(0), quad(1)), halve(quad(2), quad(3)));
}

// Magnitudes are compared with the quad's index as their last bits. Lanes of vectors are merged as sorted lists of at
// most three: the fourth and later can't be among the three largest.
inline Outliers find_outliers(const float* x) {
    const auto keys = [&](int first) { return (quad_peaks(x + 4 * first) & ~7) | (Four{0, 1, 2, 3} + first); };
    const auto swap_halves = [](Four a) { return Four{a[2], a[3], a[0], a[1]}; };
    const auto swap_pairs = [](Four a) { return Four{a[1], a[0], a[3], a[2]}; };
    const Four left = keys(0), right = keys(4);
    const Four high = more(left, right), low = less(left, right);
    const Four other_high = swap_halves(high), other_low = swap_halves(low);
    const Four behind = less(high, other_high), lows = more(low, other_low);
    const Four a1 = more(high, other_high), a2 = more(behind, lows), a3 = less(behind, lows);
    const Four b1 = swap_pairs(a1), b2 = swap_pairs(a2), b3 = swap_pairs(a3);
    const int32_t first = more(a1, b1)[0], second = more(less(a1, b1), more(a2, b2))[0];
    const int32_t third = more(more(less(a1, b2), less(a2, b1)), more(a3, b3))[0];
    Outliers found{{static_cast<uint8_t>(first & 7), static_cast<uint8_t>(second & 7)}, 0.0f, 0.0f};
    std::memcpy(&found.highest, &first, sizeof first);
    std::memcpy(&found.others, &third, sizeof third);
    return found;
}

// Divides a group's inputs by a scale, to the nearest integers, and writes the scale and the sum of the rounded values.
template <class Group>
void round_group(const float* x, float scale, Group& group, Ints (&whole)[kGroup / kWidth]) {
    const Floats factor = broadcast(scale > 0 ? 1.0f / scale : 0.0f);
    Ints total = broadcast(0);
    for (int i = 0; i < kGroup / kWidth; ++i) {
        whole[i] = to_ints(load(x + i * kWidth) * factor);
        total = add(total, whole[i]);
    }
    group.scale = scale;
    group.sum = sum(to_floats(total)) * scale;  // whole numbers below 2^24: exact in any order
}

inline void round_to_codes(const float* x, PairGroup& group) {
    Ints whole[kGroup / kWidth];
    round_group(x, peak(x, kGroup) / 32767.0f, group, whole);
    narrow(whole, group.codes);
}

inline void round_to_codes(const float* x, ByteGroup<RowBits::k8>& group) {
    Ints whole[kGroup / kWidth];
    round_group(x, peak(x, kGroup) / kLargestByte, group, whole);
    narrow(whole, group.codes);
}

inline void round_to_codes(const float* x, ByteGroup<RowBits::k16>& group) {
    Ints whole[kGroup / kWidth];
    round_group(x, peak(x, kGroup) / kLargestPair, group, whole);
    split_bytes(whole, group.codes, group.high);
}

inline void round_to_codes(const float* x, ByteGroup<RowBits::kMixed>& group) {
    const Outliers found = find_outliers(x);
    Ints whole[kGroup / kWidth];
    round_group(x, std::max(found.highest / kLargestPair, found.others / kLargestByte), group, whole);
    alignas(64) int8_t high[kGroup];
    split_bytes(whole, group.codes, high);
    for (int i = 0; i < kOutliers; ++i) {
        std::memcpy(group.high[i], high + 4 * found.quads[i], 4);
        group.outliers[i] = found.quads[i];
    }
}

}  // namespace headrace
