// The number formats in which tiled attention multiplies: float32, 13-bit integers, two per word, or bytes, four per
// word.
//
// Integers are a vector's numbers divided by its scale. 13-bit integers are twice as fast as float32, with an error
// like that of a 16-bit cache; bytes are twice as fast again. Scores of integers are base-2 logarithms, because 2^x is
// cheaper than e^x.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "attention.h"
#include "simd.h"

namespace headrace {

// The scale of a query's words, and the offset by which its scaled products with keys are too large.
struct QueryScale {
    float scale, offset;
};

struct FloatNumbers {
    using Word = float;
    using Sum = Floats;
    static constexpr int64_t kTokensInWord = 1;

    static int64_t words(int64_t size) { return size; }

    static Sum add_score(Sum sum, Sum queries, Word key) { return fmadd(broadcast(key), queries, sum); }
    static Sum add_value(Sum sum, Sum weights, Word value) { return fmadd(broadcast(value), weights, sum); }
    static Floats total(Sum sum) { return sum; }

    // Packs a head's query.
    static QueryScale pack_query(const float* x, int64_t size, Word* to) { return {pack_key(x, size, to), 0.0f}; }

    // Packs a head's key. Returns the scale of the words.
    static float pack_key(const float* x, int64_t size, Word* to) {
        std::copy_n(x, size, to);
        return 1.0f;
    }

    // Packs the values of a word's tokens; writes one of `scales` for each.
    static void pack_values(const float* const* values, int64_t size, Word* to, float* scales) {
        scales[0] = pack_key(values[0], size, to);
    }

    // Packs the weights of a word's tokens.
    static void pack_weights(const Floats* weights, Word* to) { store(to, weights[0]); }
    static constexpr float kLogLargestWeight = 0.0f;  // logarithm of a tile's largest weight

    static constexpr float kPerNat = 1.0f;  // unit of scores and logarithms, per natural unit
    static Floats power(Floats x) { return exp(x); }
};

struct CodeNumbers {
    using Word = int32_t;
    using Sum = Ints;
    static constexpr int64_t kTokensInWord = 2;

    static int64_t words(int64_t size) { return (size + 2 * kWidth - 1) / (2 * kWidth) * kWidth; }

    static Sum add_score(Sum sum, Sum queries, Word key) { return add_pairs(sum, queries, broadcast(key)); }
    static Sum add_value(Sum sum, Sum weights, Word value) { return add_pairs(sum, weights, broadcast(value)); }
    static Floats total(Sum sum) { return to_floats(sum); }

    static QueryScale pack_query(const float* x, int64_t size, Word* to) { return {pack_key(x, size, to), 0.0f}; }

    static float pack_key(const float* x, int64_t size, Word* to) {
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

    static void pack_weights(const Floats* weights, Word* to) {
        store(to, pairs(to_ints(weights[0]), to_ints(weights[1])));
    }
    static constexpr float kLogLargestWeight = 13.0f;

    static constexpr float kPerNat = 1.44269504f;
    static Floats power(Floats x) { return fast_exp2(x); }

  private:
    static constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    static constexpr float kLargestValue = 4095.0f;
    static_assert(kTokens * int64_t{8192} * 4095 <= kMost);
};

// Products of bytes are unsigned by signed: keys and weights are unsigned. Only for processors that multiply bytes:
// there `narrow` takes the low byte of an integer, where it would saturate an unsigned one at 127 on others.
struct ByteNumbers {
    using Word = int32_t;
    using Sum = Ints;
    static constexpr int64_t kTokensInWord = 4;

    static int64_t words(int64_t size) { return block_words(size); }

    static Sum add_score(Sum sum, Sum queries, Word key) { return add_byte_quads(sum, broadcast(key), queries); }
    static Sum add_value(Sum sum, Sum weights, Word value) { return add_byte_quads(sum, weights, broadcast(value)); }
    static Floats total(Sum sum) { return to_floats(sum); }

    static QueryScale pack_query(const float* x, int64_t size, Word* to) {
        Floats total = zero();
        const float scale = pack(x, size, 0.0f, to, [&](Ints codes) { total += to_floats(codes); });
        return {scale, sum(total) * scale * kMiddle};
    }

    static float pack_key(const float* x, int64_t size, Word* to) {
        return pack(x, size, kMiddle, to, [](Ints) {});
    }

    static void pack_values(const float* const* values, int64_t size, Word* to, float* scales) {
        Floats factors[kTokensInWord];
        for (int i = 0; i < kTokensInWord; ++i) {
            const float highest = peak(values[i], size);
            factors[i] = broadcast(highest > 0 ? kLargest / highest : 0.0f);
            scales[i] = highest / kLargest;
        }
        for (int64_t d = 0; d < size; d += kWidth) {
            Ints codes[kTokensInWord];
            for (int i = 0; i < kTokensInWord; ++i) codes[i] = to_ints(load(values[i] + d) * factors[i]);
            store(to + d, quads(codes));
        }
    }

    // Copy a key, and the values of a word's tokens, from an int8 cache.
    static void copy_key(const int8_t* from, int64_t size, Word* to) {
        uint8_t* bytes = reinterpret_cast<uint8_t*>(to);
        for (int64_t d = 0; d < size; ++d) bytes[d] = static_cast<uint8_t>(from[d]) ^ 0x80;  // plus kMiddle
        std::fill(bytes + size, bytes + words(size) * kTokensInWord, 0x80);
    }
    static void copy_values(const int8_t* const* values, int64_t size, Word* to) {
        const auto byte = [&](int i, int64_t d) {
            return static_cast<uint32_t>(static_cast<uint8_t>(values[i][d])) << 8 * i;
        };
        for (int64_t d = 0; d < size; ++d) to[d] = byte(0, d) | byte(1, d) | byte(2, d) | byte(3, d);
    }

    static void pack_weights(const Floats* weights, Word* to) {
        Ints codes[kTokensInWord];
        for (int i = 0; i < kTokensInWord; ++i) codes[i] = to_ints(weights[i]);
        store(to, quads(codes));
    }
    static constexpr float kLogLargestWeight = 7.9943534f;  // 255

    static constexpr float kPerNat = 1.44269504f;
    static Floats power(Floats x) { return fast_exp2(x); }

  private:
    static constexpr float kLargest = 127.0f;
    static constexpr float kMiddle = 128.0f;  // added to a signed byte to make it unsigned

    // Packs x divided by its scale, plus `start`, as bytes; `see` is called with the integers. Returns the scale.
    template <class See>
    static float pack(const float* x, int64_t size, float start, Word* to, const See& see) {
        const float highest = peak(x, size);
        const Floats factor = broadcast(highest > 0 ? kLargest / highest : 0.0f);
        constexpr int64_t kVectors = 32 / kWidth;
        const int64_t bytes = words(size) * kTokensInWord;
        for (int64_t d = 0; d < bytes; d += 32) {
            Ints codes[kVectors];
            for (int i = 0; i < kVectors; ++i) {
                const int64_t at = d + i * kWidth;
                codes[i] = to_ints(fmadd(at < size ? load(x + at) : zero(), factor, broadcast(start)));
                see(codes[i]);
            }
            narrow(codes, reinterpret_cast<int8_t*>(to) + d);
        }
        return highest / kLargest;
    }
};

// The narrowest that are faster than others.
using NarrowNumbers = std::conditional_t<kMultipliesBytes, ByteNumbers, CodeNumbers>;

}  // namespace headrace
