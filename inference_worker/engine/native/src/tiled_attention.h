// Prefill attention: query rows of one sequence's prompt, as two matrix products per tile of tokens. Vectors run across
// rows, so that the softmax needs no sum within a vector, and keys and values need no transposition.
#pragma once

#include <cmath>
#include <type_traits>
#include <utility>

#include "attention.h"
#include "linear.h"
#include "tile_numbers.h"

namespace headrace {

// Attention over a cache of `Vector`s with products in the number format `Numbers`.
template <class Vector, class Numbers>
class TiledAttention {
    using Word = typename Numbers::Word;

  public:
    TiledAttention(const Heads& heads, float* scratch)
        : size_(heads.size), words_(Numbers::words(heads.size)), group_(heads.group()) {
        const int64_t rows = scratch_rows(heads);
        const auto take = [&](int64_t floats) { return std::exchange(scratch, scratch + floats); };
        const auto take_words = [&](int64_t words) { return reinterpret_cast<Word*>(take(words)); };
        query_ = take_words(rows * words_);
        keys_ = take_words(kTokens * words_);
        values_ = take_words(kTokens * size_);
        weights_ = take_words(kTokens * kPanel);
        scores_ = take(kTokens * kPanel);
        out_ = take(rows * size_);
        vectors_ = take(Numbers::kTokensInWord * size_);
        key_scale_ = take(kTokens);
        value_log_scale_ = take(kTokens);
        value_inverse_scale_ = take(kTokens);
        query_scale_ = take(rows);
        query_offset_ = take(rows);
        peak_ = take(rows);
        total_ = take(rows);
        own_ = take(rows);
    }

    static int64_t scratch_floats(const Heads& heads) {
        const int64_t rows = scratch_rows(heads), words = Numbers::words(heads.size);
        return rows * (words + heads.size + 5) + kTokens * (words + heads.size + 2 * kPanel + 3) +
               Numbers::kTokensInWord * heads.size;
    }

    // `query` and `out` are the step's rows, [query heads, head size] each, rows `stride` and `out_stride` floats
    // apart; `position` is that of the task's first query.
    void attend(const AttentionTask& task, const float* query, int64_t stride, const PagedSide<Vector>& keys,
                const PagedSide<Vector>& values, const int64_t* table, int64_t position, const Weighting& weighting,
                float* out, int64_t out_stride) {
        const int64_t window = weighting.window;
        const int64_t queries = task.last - task.first, rows = queries * group_;
        const int64_t panels = (rows + kPanel - 1) / kPanel, heads_before = task.first_head * group_ * size_;
        query += task.first * stride + heads_before;
        out += task.first * out_stride + heads_before;
        start(query, stride, rows, panels, position);
        if (weighting.sinks) start_at_sinks(weighting.sinks + task.first_head * group_, panels * kPanel);
        const int64_t first_tile = first_seen(position, window) / kTokens * kTokens;  // for any chunk the same tiles
        for (int64_t tile = first_tile; tile < position + queries; tile += kTokens) {
            const int64_t count = std::min(kTokens, position + queries - tile);
            load_keys(keys, table, task.first_head, tile, count);
            load_values(values, table, task.first_head, tile, count);
            const bool hides = tile + count - 1 > position || window > 0;
            for (int64_t panel = 0; panel < panels; ++panel) {
                const int64_t row = panel * kPanel, last_own = position + (row + kPanel - 1) / group_;
                const int64_t seen = std::min(count, last_own + 1 - tile);  // positions visible to any row of the panel
                if (seen <= 0) continue;
                if (weighting.softcap > 0) {
                    const SoftCap cap(weighting.softcap * Numbers::kPerNat);
                    score(row, seen, [&](Floats x, Floats scale, Floats lift) { return cap(x * scale) + lift; });
                } else {
                    score(row, seen, [](Floats x, Floats scale, Floats lift) { return fmadd(x, scale, lift); });
                }
                Gains gains[2];
                for (int half = 0; half < 2; ++half) {
                    if (hides) hide(row + half * kWidth, half, tile, seen, window);
                    gains[half] = to_weights(row + half * kWidth, half, seen);
                }
                add_values(row, seen, gains);
            }
        }
        for (int64_t row = 0; row < rows; row += kWidth)
            finish(row, std::min<int64_t>(rows, row + kWidth), out, out_stride);
    }

  private:
    // The factors for the sums of earlier tiles and for those of the current tile.
    struct Gains {
        Floats before, tile;
    };

    static int64_t scratch_rows(const Heads& heads) {
        return (std::max(kMaxRows, heads.group()) + kPanel - 1) / kPanel * kPanel;
    }

    // Packs queries as [panel][word][row] and resets the sums; padding rows repeat the last one.
    void start(const float* query, int64_t stride, int64_t rows, int64_t panels, int64_t position) {
        for (int64_t first = 0; first < panels * kPanel; first += kWidth) {
            for (int64_t i = 0; i < kWidth; ++i) {
                const int64_t row = first + i, real = std::min(row, rows - 1);
                const float* from = query + real / group_ * stride + real % group_ * size_;
                const QueryScale scale = Numbers::pack_query(from, size_, keys_ + i * words_);
                query_scale_[row] = scale.scale * Numbers::kPerNat;
                query_offset_[row] = scale.offset * Numbers::kPerNat;
                own_[row] = static_cast<float>(position + real / group_);
            }
            const float* packed = reinterpret_cast<const float*>(keys_);  // words of any type
            float* to = reinterpret_cast<float*>(query_ + first / kPanel * kPanel * words_ + first % kPanel);
            for (int64_t word = 0; word < words_; word += kWidth) {
                Floats block[kWidth];
                for (int i = 0; i < kWidth; ++i) block[i] = load(packed + i * words_ + word);
                transpose(block);
                for (int i = 0; i < kWidth; ++i) store(to + (word + i) * kPanel, block[i]);
            }
        }
        std::fill_n(out_, panels * kPanel * size_, 0.0f);
        std::fill_n(peak_, panels * kPanel, kMasked);
        std::fill_n(total_, panels * kPanel, 0.0f);
    }

    // Begins each row's softmax with its head's sink, whose weight is the largest one that a tile has.
    void start_at_sinks(const float* sinks, int64_t rows) {
        for (int64_t row = 0; row < rows; ++row) peak_[row] = sinks[row % group_] * Numbers::kPerNat;
        std::fill_n(total_, rows, std::exp2(Numbers::kLogLargestWeight));
    }

    // Converts a cached vector to float32.
    void widen(const typename Vector::Stored* from, float* to) const {
        const Floats scale = broadcast(Vector::scale(from, size_));
        for (int64_t d = 0; d < size_; d += kWidth) store(to + d, Vector::load(from + d) * scale);
    }

    // Packs the keys of a tile as [token][word].
    void load_keys(const PagedSide<Vector>& side, const int64_t* table, int64_t head, int64_t tile, int64_t count) {
        const typename Vector::Stored* at[kTokens];
        side.locate(table, head, tile, count, at);
        for (int64_t token = 0; token < count; ++token) {
            Word* to = keys_ + token * words_;
            if constexpr (kCopiesBytes) {
                Numbers::copy_key(at[token], size_, to);
                key_scale_[token] = Vector::scale(at[token], size_);
            } else {
                widen(at[token], vectors_);
                key_scale_[token] = Numbers::pack_key(vectors_, size_, to);
            }
        }
    }

    // Packs the values of a tile as [word of tokens][d], padded with zeros. Each token has its own scale, whose
    // logarithm is added to the token's scores, so that its weights include the scale.
    void load_values(const PagedSide<Vector>& side, const int64_t* table, int64_t head, int64_t tile, int64_t count) {
        const typename Vector::Stored* at[kTokens];
        side.locate(table, head, tile, count, at);
        for (int64_t token = 0; token < count; token += kTokensInWord) {
            float scales[kTokensInWord];
            Word* to = values_ + token / kTokensInWord * size_;
            load_word(at + token, count - token, to, scales);
            for (int64_t i = 0; i < kTokensInWord; ++i) {
                const float scale = std::max(kMinScale, scales[i]);
                value_log_scale_[token + i] = std::log(scale) * Numbers::kPerNat;
                value_inverse_scale_[token + i] = 1.0f / scale;
            }
        }
    }

    // Packs the values of a word's tokens, of which `count` exist: int8 values as stored, other formats by way of
    // float32.
    void load_word(const typename Vector::Stored* const* from, int64_t count, Word* to, float* scales) {
        if constexpr (kCopiesBytes) {
            auto* zeros = reinterpret_cast<typename Vector::Stored*>(vectors_);
            if (count < kTokensInWord) std::fill_n(zeros, Vector::length(size_), 0);
            const typename Vector::Stored* values[kTokensInWord];
            for (int64_t i = 0; i < kTokensInWord; ++i) {
                values[i] = i < count ? from[i] : zeros;
                scales[i] = Vector::scale(values[i], size_);
            }
            Numbers::copy_values(values, size_, to);
        } else {
            const float* values[kTokensInWord];
            for (int64_t i = 0; i < kTokensInWord; ++i) {
                float* wide = vectors_ + i * size_;
                if (i < count) {
                    widen(from[i], wide);
                } else {
                    std::fill_n(wide, size_, 0.0f);
                }
                values[i] = wide;
            }
            Numbers::pack_values(values, size_, to, scales);
        }
    }

    // A strided matrix of words, [rows, steps].
    struct Words {
        const Word* start;
        int64_t row_stride, step_stride, rows, steps;
    };

    // Multiplies `R` rows of words with a panel, [step][row of the panel]; `add` is `add_score` or `add_value` of
    // Numbers.
    template <int R, class Add>
    static void products(const Words& words, int64_t row, const Word* panel, const Add& add, Outputs (&out)[R]) {
        typename Numbers::Sum sums[R][2] = {};
        const Word* at = words.start + row * words.row_stride;
        for (int64_t step = 0; step < words.steps; ++step, at += words.step_stride, panel += kPanel) {
            const auto left = load(panel), right = load(panel + kWidth);
            unrolled<R>([&](auto r) {
                const Word word = at[r * words.row_stride];
                sums[r][0] = in_place(add(sums[r][0], left, word));
                sums[r][1] = in_place(add(sums[r][1], right, word));
            });
        }
        unrolled<R>([&](auto r) { out[r] = {Numbers::total(sums[r][0]), Numbers::total(sums[r][1])}; });
    }

    // Calls `emit(row, outputs)` with the products of every row.
    template <int R = kIntegerTile, class Add, class Emit>
    static void multiply(const Words& words, const Word* panel, const Add& add, const Emit& emit, int64_t row = 0) {
        for (; row + R <= words.rows; row += R) {
            Outputs found[R];
            products<R>(words, row, panel, add, found);
            for (int r = 0; r < R; ++r) emit(row + r, found[r]);
        }
        if constexpr (R > 1) multiply<R - 1>(words, panel, add, emit, row);
    }

    // Computes a tile's scores for a panel of rows, [token][row]. `finish` turns a product, its scale and the logarithm
    // of the token's value scale into a score, which includes that logarithm.
    template <class Finish>
    void score(int64_t row, int64_t count, const Finish& finish) {
        const Words keys{keys_, words_, 1, count, words_};
        Floats scales[2], offsets[2];
        for (int half = 0; half < 2; ++half) {
            scales[half] = load(query_scale_ + row + half * kWidth);
            offsets[half] = load(query_offset_ + row + half * kWidth);
        }
        const auto add = [](auto... parts) { return Numbers::add_score(parts...); };
        multiply(keys, query_ + row * words_, add, [&](int64_t token, const Outputs& products) {
            const Floats scale = broadcast(key_scale_[token]), lift = broadcast(value_log_scale_[token]);
            for (int half = 0; half < 2; ++half) {
                const Floats product = fmsub(products.half[half], scales[half], offsets[half]);
                store(scores_ + token * kPanel + half * kWidth, finish(product, scale, lift));
            }
        });
        for (int64_t token = count; token % kTokensInWord; ++token)
            std::fill_n(scores_ + token * kPanel, kPanel, kMasked);
    }

    // Masks the scores of positions that a row must not attend to.
    void hide(int64_t row, int half, int64_t tile, int64_t count, int64_t window) {
        const Floats own = load(own_ + row), masked = broadcast(kMasked);
        for (int64_t token = 0; token < count; ++token) {
            float* at = scores_ + token * kPanel + half * kWidth;
            const Floats place = broadcast(static_cast<float>(tile + token));
            Floats score = unless_below(own, place, load(at), masked);
            if (window > 0) score = unless_below(place, own - broadcast(window - 1.0f), score, masked);
            store(at, score);
        }
    }

    // Turns scores into weights, [word of tokens][row]. The tile's highest score gets the largest weight of `Numbers`,
    // which scales the sums of weights and of weighted values by the same factor.
    Gains to_weights(int64_t row, int half, int64_t count) {
        const float* scores = scores_ + half * kWidth;
        const Floats before = load(peak_ + row);
        Floats highest = load(scores);
        for (int64_t token = 1; token < count; ++token) highest = max(highest, load(scores + token * kPanel));
        const Floats peak = max(before, highest);
        store(peak_ + row, peak);
        const Floats zero_level = max(peak, broadcast(kLowest));
        const Floats tile_level = max(highest, broadcast(kLowest)) - broadcast(Numbers::kLogLargestWeight);
        Floats total = zero();
        for (int64_t token = 0; token < count; token += kTokensInWord) {
            Floats weights[kTokensInWord];
            for (int64_t i = 0; i < kTokensInWord; ++i) {
                weights[i] = Numbers::power(load(scores + (token + i) * kPanel) - tile_level);
                total = fmadd(weights[i], broadcast(value_inverse_scale_[token + i]), total);
            }
            Numbers::pack_weights(weights, weights_ + token / kTokensInWord * kPanel + half * kWidth);
        }
        const Gains gains{Numbers::power(before - zero_level), Numbers::power(highest - zero_level)};
        store(total_ + row, fmadd(load(total_ + row), gains.before, total * gains.tile));
        return gains;
    }

    void add_values(int64_t row, int64_t count, const Gains (&gains)[2]) {
        float* out = out_ + row * size_;
        const int64_t steps = (count + kTokensInWord - 1) / kTokensInWord;
        const auto add = [](auto... parts) { return Numbers::add_value(parts...); };
        multiply({values_, 1, size_, size_, steps}, weights_, add, [&](int64_t d, const Outputs& products) {
            for (int half = 0; half < 2; ++half) {
                float* at = out + d * kPanel + half * kWidth;
                store(at, fmadd(load(at), gains[half].before, products.half[half] * gains[half].tile));
            }
        });
    }

    // Divides the sums of a vector's rows by their weights and writes them to `out`.
    void finish(int64_t row, int64_t last, float* out, int64_t out_stride) {
        const Floats total = load(total_ + row);
        const float* sums = out_ + row / kPanel * kPanel * size_ + row % kPanel;
        for (int64_t d = 0; d < size_; d += kWidth) {
            Floats block[kWidth];
            for (int i = 0; i < kWidth; ++i) block[i] = load(sums + (d + i) * kPanel) / total;
            transpose(block);
            for (int64_t i = 0; row + i < last; ++i)
                store(out + (row + i) / group_ * out_stride + (row + i) % group_ * size_ + d, block[i]);
        }
    }

    static constexpr bool kCopiesBytes = Vector::kScaled && std::is_same_v<Numbers, ByteNumbers>;
    static constexpr int64_t kTokensInWord = Numbers::kTokensInWord;
    static constexpr float kLowest = -1e29f;      // above kMasked, the peak of a row without a visible position so far
    static constexpr float kMinScale = 1e-30f;  // values may be zeros

    int64_t size_, words_, group_;
    Word *query_, *keys_;                                         // [panel][word][row], [token][word]
    Word *values_, *weights_;                                     // [word][d], [word][row]
    float *scores_, *out_;                                        // [token][row], of one panel; [panel][d][row]
    float* vectors_;                                              // values of a word's tokens, in float32
    float *key_scale_, *value_log_scale_, *value_inverse_scale_;  // per token
    float *query_scale_, *query_offset_;                          // per row
    float *peak_, *total_, *own_;                                 // per row; own: its position
};

}  // namespace headrace
