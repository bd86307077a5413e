// The numbers in which tiled attention multiplies: float32, or whole numbers of 13 bits, two of them in a word, at twice the
// speed and with an error like that of a cache of 16 bits. Knows vectors, not tiles.
//
// Whole numbers are a vector's over its scale; its largest is the largest that can't overflow a sum of products.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "attention.h"
#include "simd.h"

namespace headrace {

struct FloatNumbers {
    using Word = float;
    using Sum = Floats;
    static constexpr int64_t kTokensInWord = 1;

    static int64_t words(int64_t size) { return size; }

    static Sum add(Sum sum, Sum panel, Word word) { return fmadd(broadcast(word), panel, sum); }
    static Floats total(Sum sum) { return sum; }

    // A head's query or key. Returns the scale of the words.
    static float pack(const float* x, int64_t size, Word* to) {
        std::copy_n(x, size, to);
        return 1.0f;
    }

    // The values of a word's tokens; `scales` gets one for each.
    static void pack_values(const float* const* values, int64_t size, Word* to, float* scales) {
        scales[0] = pack(values[0], size, to);
    }

    // Weights of 1 at most, of a word's tokens, times the scales of their values over `largest`, the largest of these.
    static void pack_weights(const Floats* weights, const float* scales, float largest, Word* to) {
        store(to, weights[0] * broadcast(scales[0] / largest));
    }
    static constexpr float kWeightScale = 1.0f;

    static Floats power(Floats x) { return exp(x); }
};

struct CodeNumbers {
    using Word = int32_t;
    using Sum = Ints;
    static constexpr int64_t kTokensInWord = 2;

    static int64_t words(int64_t size) { return (size + 2 * kWidth - 1) / (2 * kWidth) * kWidth; }

    static Sum add(Sum sum, Sum panel, Word word) { return add_pairs(sum, panel, broadcast(word)); }
    static Floats total(Sum sum) { return to_floats(sum); }

    static float pack(const float* x, int64_t size, Word* to) {
        const float largest = std::floor(std::sqrt(static_cast<float>(kMost / size)));
        const float highest = peak(x, size);
        const Floats factor = broadcast(highest > 0 ? largest / highest : 0.0f);
        for (int64_t d = 0; d < size; d += 2 * kWidth, to += kWidth) {
            const Floats second = d + kWidth < size ? load(x + d + kWidth) : zero();
            store(to, pairs(to_ints(load(x + d) * factor), to_ints(second * factor)));
        }
        return highest / largest;
    }

    static void pack_values(const float* const* values, int64_t size, Word* to, float* scales) {
        Floats factors[2];
        for (int i = 0; i < 2; ++i) {
            const float highest = peak(values[i], size);
            factors[i] = broadcast(highest > 0 ? kLargestValue / highest : 0.0f);
            scales[i] = highest / kLargestValue;
        }
        for (int64_t d = 0; d < size; d += kWidth)
            store(to + d, pairs(to_ints(load(values[0] + d) * factors[0]), to_ints(load(values[1] + d) * factors[1])));
    }

    static void pack_weights(const Floats* weights, const float* scales, float largest, Word* to) {
        const float factor = kLargestWeight / largest;
        store(to, pairs(to_ints(weights[0] * broadcast(scales[0] * factor)),
                        to_ints(weights[1] * broadcast(scales[1] * factor))));
    }
    static constexpr float kWeightScale = 1.0f / 8191.0f;

    static Floats power(Floats x) { return rough_exp(x); }

  private:
    static constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    static constexpr float kLargestWeight = 8191.0f, kLargestValue = 4095.0f;
    static_assert(kTokens * int64_t{8191} * 4095 <= kMost);
};

}  // namespace headrace
