// The products of decode attention: scores of a tile's keys, and the weighted sum of its values. In float32, or over an
// int8 cache on processors that multiply bytes: then queries and weights are integers of 16 bits, split into a high and
// a low byte, whose rounding error is far below that of the cache (ADR 0051). The cache's scales are applied by the
// caller.
#pragma once

#include <algorithm>
#include <type_traits>

#include "row_tile.h"

namespace headrace {

template <class Vector>
struct FloatProducts {
    using Word = float;

    // Words of a head's query.
    static int64_t words(int64_t size) { return size; }

    // Returns the queries as [head][word], converted in `buffer` if the format differs.
    static const Word* prepare(const float* queries, int64_t, int64_t, Word*) { return queries; }

    // Computes the scores of a tile's tokens for `G` heads; `offset` is that of the heads' key within a token's keys.
    template <int G>
    static void score(const Word* queries, const Tile<Vector>& tile, int64_t offset, int64_t size,
                      float (&scores)[G][kTokens], Prefetch<Vector>& ahead) {
        for (int64_t token = 0; token < tile.count; token += 4) {
            Floats products[G][4];
            for (int g = 0; g < G; ++g)
                for (int i = 0; i < 4; ++i) products[g][i] = zero();
            ahead.turn();
            for (int64_t d = 0; d < size; d += kWidth) {
                Floats key[4];
                for (int i = 0; i < 4; ++i) key[i] = Vector::load(tile.keys[token + i] + offset + d);
                for (int g = 0; g < G; ++g) {
                    const Floats q = load(queries + g * size + d);
                    for (int i = 0; i < 4; ++i) products[g][i] = fmadd(q, key[i], products[g][i]);
                }
            }
            for (int g = 0; g < G; ++g)
                store_sums(scores[g] + token, products[g][0], products[g][1], products[g][2], products[g][3]);
        }
    }

    // Scales `G` sums, [G, size], by their factors, then adds the weighted values of a tile.
    template <int G>
    static void add_values(const float (&weights)[G][kTokens], const Tile<Vector>& tile, int64_t offset, int64_t size,
                           const float (&factors)[G], float* sums, Prefetch<Vector>& ahead) {
        int64_t d = 0;
        for (; d + 4 * kWidth <= size; d += 4 * kWidth)
            add_some<G, 4>(weights, tile, offset, d, size, factors, sums, ahead);
        for (; d < size; d += 16) add_some<G, 16 / kWidth>(weights, tile, offset, d, size, factors, sums, ahead);
    }

  private:
    // Adds the values of dimensions `d` to `d + kWidth * V`.
    template <int G, int V>
    static void add_some(const float (&weights)[G][kTokens], const Tile<Vector>& tile, int64_t offset, int64_t d,
                         int64_t size, const float (&factors)[G], float* out, Prefetch<Vector>& ahead) {
        Floats sums[G][V];
        for (int g = 0; g < G; ++g)
            for (int v = 0; v < V; ++v) sums[g][v] = broadcast(factors[g]) * load(out + g * size + d + v * kWidth);
        for (int64_t token = 0; token < tile.count; ++token) {
            if (token % 4 == 0) ahead.turn();
            Floats value[V];
            for (int v = 0; v < V; ++v) value[v] = Vector::load(tile.values[token] + offset + d + v * kWidth);
            for (int g = 0; g < G; ++g) {
                const Floats weight = broadcast(weights[g][token]);
                for (int v = 0; v < V; ++v) sums[g][v] = fmadd(weight, value[v], sums[g][v]);
            }
        }
        for (int g = 0; g < G; ++g)
            for (int v = 0; v < V; ++v) store(out + g * size + d + v * kWidth, sums[g][v]);
    }
};

struct ByteProducts {
    using Word = int32_t;

    static int64_t words(int64_t size) { return kQueryWords + 2 * plane(size); }

    static const Word* prepare(const float* queries, int64_t heads, int64_t size, Word* buffer) {
        for (int64_t head = 0; head < heads; ++head) pack(queries + head * size, size, buffer + head * words(size));
        return buffer;
    }

    template <int G>
    static void score(const Word* queries, const Tile<ByteVector>& tile, int64_t offset, int64_t size,
                      float (&scores)[G][kTokens], Prefetch<ByteVector>& ahead) {
        const Word* packed[G];
        Query query[G];
        for (int g = 0; g < G; ++g) {
            packed[g] = queries + g * words(size) + kQueryWords;
            std::memcpy(&query[g], queries + g * words(size), sizeof(Query));
        }
        for (int64_t token = 0; token < tile.count; token += kWidth) {
            Ints high[G], low[G];
            for (int g = 0; g < G; ++g)
                high[g] = broadcast(query[g].high_offset), low[g] = broadcast(query[g].low_offset);
            for (int64_t d = 0; d < size; d += kBytes) {
                Ints keys[kWidth];
                for (int i = 0; i < kWidth; ++i) {
                    if (d == 0 && i % 4 == 0) ahead.turn();
                    keys[i] = load_bytes(tile.keys[token + i] + offset + d, size - d);
                }
                transpose(keys);
                unrolled<kWidth>([&](auto word) {
                    const Ints key = flip(keys[word], broadcast(kSigns));
                    unrolled<G>([&](auto g) {
                        const Word* at = packed[g] + d / 4 + word;
                        high[g] = in_place(add_byte_quads(high[g], key, broadcast(at[0])));
                        low[g] = in_place(add_byte_quads(low[g], key, broadcast(at[plane(size)])));
                    });
                });
            }
            for (int g = 0; g < G; ++g) store(scores[g] + token, joined(high[g], low[g], query[g].scale));
        }
    }

    template <int G>
    static void add_values(const float (&weights)[G][kTokens], const Tile<ByteVector>& tile, int64_t offset,
                           int64_t size, const float (&factors)[G], float* sums, Prefetch<ByteVector>& ahead) {
        alignas(64) Word high[G][kTokens / 4], low[G][kTokens / 4];
        float scales[G];
        for (int g = 0; g < G; ++g) scales[g] = pack_weights(weights[g], high[g], low[g]);
        for (int64_t d = 0; d < size; d += kBytes) {
            Ints total_high[G][4] = {}, total_low[G][4] = {};
            for (int64_t token = 0; token < tile.count; token += 4) {
                ahead.turn();
                Ints values[4], lanes[4];
                for (int i = 0; i < 4; ++i) values[i] = load_bytes(tile.values[token + i] + offset + d, size - d);
                interleave(values, lanes);
                unrolled<G>([&](auto g) {
                    const Ints high_weights = broadcast(high[g][token / 4]), low_weights = broadcast(low[g][token / 4]);
                    unrolled<4>([&](auto v) {
                        total_high[g][v] = in_place(add_byte_quads(total_high[g][v], high_weights, lanes[v]));
                        total_low[g][v] = in_place(add_byte_quads(total_low[g][v], low_weights, lanes[v]));
                    });
                });
            }
            for (int g = 0; g < G; ++g) {
                Floats found[4];
                for (int v = 0; v < 4; ++v) found[v] = joined(total_high[g][v], total_low[g][v], scales[g]);
                in_order(found);
                float* at = sums + g * size + d;
                for (int64_t v = 0; v < 4 && d + v * kWidth < size; ++v)
                    store(at + v * kWidth, fmadd(load(at + v * kWidth), broadcast(factors[g]), found[v]));
            }
        }
    }

  private:
    // Header before a query's words. Keys are made unsigned, which raises their products; sums start at these offsets.
    struct Query {
        float scale;
        int32_t high_offset, low_offset;
    };

    static constexpr int64_t kQueryWords = sizeof(Query) / sizeof(Word);
    static constexpr int64_t kBytes = 4 * kWidth;            // bytes per vector
    static constexpr int32_t kSigns = 0x80808080;            // adds kMiddle to signed bytes and makes them unsigned
    static constexpr int32_t kMiddle = 128;
    static constexpr float kLargestQuery = 127 * 256 + 127;  // its low byte is signed
    static constexpr float kLargestWeight = 65535.0f;
    static constexpr float kMinimum = 1e-30f;                // lower bound of a peak: queries and weights may be zeros

    // Number of words of a query's high bytes; as many follow for the low bytes.
    static int64_t plane(int64_t size) { return block_words(size); }

    static Floats joined(Ints high, Ints low, float scale) {
        return fmadd(to_floats(high), broadcast(256.0f), to_floats(low)) * broadcast(scale);
    }

    static void pack(const float* x, int64_t size, Word* to) {
        const float scale = std::max(peak(x, size), kMinimum) / kLargestQuery;
        const Floats factor = broadcast(1.0f / scale);
        int8_t* bytes = reinterpret_cast<int8_t*>(to + kQueryWords);
        Floats total = zero(), total_high = zero();
        for (int64_t d = 0; d < 4 * plane(size); d += 32) {
            Ints high[32 / kWidth], low[32 / kWidth];
            for (int i = 0; i < 32 / kWidth; ++i) {
                const int64_t at = d + i * kWidth;
                low[i] = to_ints(at < size ? load(x + at) * factor : zero());
                high[i] = over_256(add(low[i], broadcast(kMiddle)));
                total += to_floats(low[i]);
                total_high += to_floats(high[i]);
            }
            narrow(high, bytes + d);
            narrow(low, bytes + 4 * plane(size) + d);
        }
        const int32_t sum_high = sum(total_high), sum_low = sum(total) - 256.0f * sum_high;
        const Query query{scale, -kMiddle * sum_high, -kMiddle * sum_low};
        std::memcpy(to, &query, sizeof query);
    }

    // Packs a tile's weights into high and low bytes; returns their scale.
    static float pack_weights(const float* weights, Word* high, Word* low) {
        const float scale = std::max(peak(weights, kTokens), kMinimum) / kLargestWeight;
        const Floats factor = broadcast(1.0f / scale);
        for (int64_t token = 0; token < kTokens; token += 32) {
            Ints codes[32 / kWidth], above[32 / kWidth];
            for (int i = 0; i < 32 / kWidth; ++i) {
                codes[i] = to_ints(load(weights + token + i * kWidth) * factor);
                above[i] = over_256(codes[i]);
            }
            narrow(above, reinterpret_cast<int8_t*>(high) + token);
            narrow(codes, reinterpret_cast<int8_t*>(low) + token);
        }
        return scale;
    }
};

template <class Vector>
using RowProducts = std::conditional_t<Vector::kScaled && kMultipliesBytes, ByteProducts, FloatProducts<Vector>>;

}  // namespace headrace
