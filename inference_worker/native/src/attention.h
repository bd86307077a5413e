// Causal attention over a paged KV cache (Kwon et al. 2023), with the online softmax of Dao et al. 2022. Knows no model.
//
// Work is cut into tasks of one sequence and one key-value head; the query heads that share it are computed together, so
// that keys and values are read once. Few query rows work on the cache as it lies, one by one, so that a guessed token's
// states are those it would have in a step of its own. Many rows convert a tile of keys and values to float32 panels first
// and become two small matrix products.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "linear.h"
#include "simd.h"

namespace headrace {

constexpr int64_t kTokens = 64;      // positions taken in at a time
constexpr int64_t kTaskRows = 48;    // rows (queries x query heads of the group) of a task, about
constexpr int64_t kFewQueries = 4;   // so many of a sequence are computed one by one: the same to the bit as alone
constexpr int kSharedHeads = 3;      // query heads that share a load of a key or value: as many as the registers hold

struct Heads {
    int64_t query, kv, size;
    int64_t group() const { return query / kv; }
};

// What a step is, as `attention/backend.py` defines it.
struct Step {
    int64_t rows, sequences, table_width;
    const int64_t* query_start;   // [S + 1]
    const int64_t* lengths;       // [S]
    const int64_t* block_tables;  // [S, table_width]
    const int64_t* slots;         // [rows]
};

struct AttentionTask {
    int64_t sequence, head, first, last;  // rows of the step
};

// The longest first, so that no thread is left with a long one at the end.
inline std::vector<AttentionTask> attention_tasks(const Step& step, const Heads& heads) {
    std::vector<AttentionTask> long_ones, short_ones;
    const int64_t queries = std::max<int64_t>(1, kTaskRows / heads.group());
    for (int64_t sequence = 0; sequence < step.sequences; ++sequence) {
        const int64_t first = step.query_start[sequence], last = step.query_start[sequence + 1];
        auto& tasks = last - first > 1 ? long_ones : short_ones;
        for (int64_t end = last; end > first; end -= queries)
            for (int64_t head = 0; head < heads.kv; ++head)
                tasks.push_back({sequence, head, std::max(first, end - queries), end});
    }
    long_ones.insert(long_ones.end(), short_ones.begin(), short_ones.end());
    return long_ones;
}

// One layer's keys or values: [blocks, block size, kv heads, head size].
template <class Number>
struct PagedSide {
    typename Number::Stored* data;
    int64_t block_size;
    Heads heads;

    typename Number::Stored* slot(int64_t slot, int64_t head) const {
        return data + (slot * heads.kv + head) * heads.size;
    }

    // Where the vectors of `count` positions from `start` lie.
    void locate(const int64_t* table, int64_t head, int64_t start, int64_t count,
                const typename Number::Stored** found) const {
        const int64_t stride = heads.kv * heads.size;
        int64_t block = start / block_size, offset = start % block_size;  // a division a token would cost more than it
        for (int64_t i = 0; i < count; ++block, offset = 0) {
            const typename Number::Stored* at = slot(table[block] * block_size + offset, head);
            for (; offset < block_size && i < count; ++offset, at += stride) found[i++] = at;
        }
    }
};

// Scores of a tile become weights; `peak` and `total` go along. Returns the factor on what was summed up before.
inline float soften(float* scores, float& peak, float& total) {
    Floats highest = load(scores);
    for (int64_t i = kWidth; i < kTokens; i += kWidth) highest = max(highest, load(scores + i));
    const float next = std::max(peak, largest(highest));
    if (next == -std::numeric_limits<float>::infinity()) {
        std::fill_n(scores, kTokens, 0.0f);
        return 1.0f;
    }
    const Floats shift = broadcast(next);
    Floats weights = zero();
    for (int64_t i = 0; i < kTokens; i += kWidth) {
        const Floats weight = exp(load(scores + i) - shift);
        store(scores + i, weight);
        weights += weight;
    }
    const float factor = std::exp(peak - next);
    total = total * factor + sum(weights);
    peak = next;
    return factor;
}

// The processor does not foresee where a token's vector lies: ask for it while the one before is computed with.
template <class Stored>
void fetch(const Stored* at, int64_t size) {
    const char* line = reinterpret_cast<const char*>(at);
    for (int64_t byte = 0; byte < size * static_cast<int64_t>(sizeof(Stored)); byte += 64)
        _mm_prefetch(line + byte, _MM_HINT_T0);
}

// Add `count` values, weighted, to dimensions `d` to `d + kWidth * V` of `G` sums, which are scaled by `factor` first.
template <class Number, int G, int V>
void add_values(const typename Number::Stored* const* at, int64_t count, int64_t d, int64_t size,
                const float (&weights)[G][kTokens], const float (&factor)[G], float* out) {
    Floats sums[G][V];
    for (int g = 0; g < G; ++g)
        for (int v = 0; v < V; ++v) sums[g][v] = broadcast(factor[g]) * load(out + g * size + d + v * kWidth);
    for (int64_t token = 0; token < count; ++token) {
        Floats value[V];
        for (int v = 0; v < V; ++v) value[v] = Number::load(at[token] + d + v * kWidth);
        for (int g = 0; g < G; ++g) {
            const Floats weight = broadcast(weights[g][token]);
            for (int v = 0; v < V; ++v) sums[g][v] = fmadd(weight, value[v], sums[g][v]);
        }
    }
    for (int g = 0; g < G; ++g)
        for (int v = 0; v < V; ++v) store(out + g * size + d + v * kWidth, sums[g][v]);
}

// One query row, `G` of its heads: `query` and `out` are [G, head size], the query scaled.
template <class Number, int G>
void attend_row(const float* query, const PagedSide<Number>& keys, const PagedSide<Number>& values,
                const int64_t* table, int64_t head, int64_t start, int64_t length, float* out) {
    const int64_t size = keys.heads.size;
    const typename Number::Stored *at[kTokens], *value_at[kTokens];
    alignas(64) float scores[G][kTokens];
    float peak[G], total[G], factor[G];
    for (int g = 0; g < G; ++g) peak[g] = -std::numeric_limits<float>::infinity(), total[g] = 0.0f;
    std::fill_n(out, G * size, 0.0f);
    for (int64_t tile = start; tile < length; tile += kTokens) {
        const int64_t count = std::min(kTokens, length - tile);
        keys.locate(table, head, tile, count, at);
        values.locate(table, head, tile, count, value_at);
        for (int64_t i = count; i % 4; ++i) at[i] = at[count - 1], value_at[i] = value_at[count - 1];
        for (int64_t token = 0; token < count; token += 4) {
            Floats products[G][4];
            for (int g = 0; g < G; ++g)
                for (int i = 0; i < 4; ++i) products[g][i] = zero();
            for (int i = 0; i < 4; ++i) {
                fetch(value_at[token + i], size);
                if (token + 4 < count) fetch(at[token + 4 + i], size);
            }
            for (int64_t d = 0; d < size; d += kWidth) {
                Floats key[4];
                for (int i = 0; i < 4; ++i) key[i] = Number::load(at[token + i] + d);
                for (int g = 0; g < G; ++g) {
                    const Floats q = load(query + g * size + d);
                    for (int i = 0; i < 4; ++i) products[g][i] = fmadd(q, key[i], products[g][i]);
                }
            }
            for (int g = 0; g < G; ++g)
                _mm_store_ps(scores[g] + token, sums(products[g][0], products[g][1], products[g][2], products[g][3]));
        }
        for (int g = 0; g < G; ++g) {
            std::fill(scores[g] + count, scores[g] + kTokens, -std::numeric_limits<float>::infinity());
            factor[g] = soften(scores[g], peak[g], total[g]);
        }
        const int64_t next = tile + kTokens;
        if (next < length) {
            keys.locate(table, head, next, std::min(kTokens, length - next), at);
            for (int64_t i = 0; i < std::min<int64_t>(8, length - next); ++i) fetch(at[i], size);
        }
        int64_t d = 0;
        for (; d + 4 * kWidth <= size; d += 4 * kWidth)
            add_values<Number, G, 4>(value_at, count, d, size, scores, factor, out);
        for (; d < size; d += kPanel) add_values<Number, G, kParts>(value_at, count, d, size, scores, factor, out);
    }
    for (int g = 0; g < G; ++g)
        for (int64_t d = 0; d < size; ++d) out[g * size + d] /= total[g];
}

// All heads of a group, some at a time.
template <class Number, int G = kSharedHeads>
void attend_group(int64_t group, const float* query, const PagedSide<Number>& keys, const PagedSide<Number>& values,
                  const int64_t* table, int64_t head, int64_t start, int64_t length, float* out) {
    const int64_t size = keys.heads.size;
    for (; group >= G; group -= G, query += G * size, out += G * size)
        attend_row<Number, G>(query, keys, values, table, head, start, length, out);
    if constexpr (G > 1) attend_group<Number, G - 1>(group, query, keys, values, table, head, start, length, out);
}

// Several query rows of one sequence against float32 panels of a tile of keys and values.
template <class Number>
class TiledAttention {
  public:
    TiledAttention(const Heads& heads, float* scratch)
        : size_(heads.size), group_(heads.group()), rows_(scratch_rows(heads)) {
        query_ = scratch;
        out_ = query_ + rows_ * size_;
        scores_ = out_ + rows_ * size_;
        keys_ = scores_ + rows_ * kTokens;
        values_ = keys_ + kTokens * size_;
        peak_ = values_ + kTokens * size_;
        total_ = peak_ + rows_;
    }

    static int64_t scratch_floats(const Heads& heads) {
        return scratch_rows(heads) * (2 * heads.size + kTokens + 2) + 2 * kTokens * heads.size;
    }

    // `query` and `out` are the step's rows of the task's first query: [.., query heads, head size] `stride` floats apart.
    void attend(const float* query, int64_t stride, const PagedSide<Number>& keys, const PagedSide<Number>& values,
                const int64_t* table, const AttentionTask& task, int64_t position, int64_t window, float* out,
                int64_t out_stride) {
        const int64_t queries = task.last - task.first, rows = queries * group_;
        for (int64_t q = 0; q < queries; ++q)
            std::copy_n(query + q * stride + task.head * group_ * size_, group_ * size_, query_ + q * group_ * size_);
        std::fill_n(out_, rows * size_, 0.0f);
        std::fill_n(peak_, rows, -std::numeric_limits<float>::infinity());
        std::fill_n(total_, rows, 0.0f);
        const int64_t start = window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
        for (int64_t tile = start; tile < position + queries; tile += kTokens) {
            const int64_t count = std::min(kTokens, position + queries - tile);
            lay_out(keys, values, table, task.head, tile, count);
            const Rows left{query_, nullptr, nullptr, nullptr};
            for (int64_t panel = 0; panel < kTokens / kPanel; ++panel)
                multiply_rows<FloatFormat<Float32>>(
                    left, 0, rows, size_, FloatFormat<Float32>::Expanded{keys_ + panel * size_ * kPanel},
                    [&](int64_t row, const Outputs& out) { out.store(scores_ + row * kTokens + panel * kPanel); });
            for (int64_t row = 0; row < rows; ++row) {
                hide(scores_ + row * kTokens, position + row / group_, tile, count, window);
                const float factor = soften(scores_ + row * kTokens, peak_[row], total_[row]);
                for (int64_t d = 0; d < size_; ++d) out_[row * size_ + d] *= factor;
            }
            const Rows weights{scores_, nullptr, nullptr, nullptr};
            for (int64_t panel = 0; panel < size_ / kPanel; ++panel)
                multiply_rows<FloatFormat<Float32>>(
                    weights, 0, rows, kTokens, FloatFormat<Float32>::Expanded{values_ + panel * kTokens * kPanel},
                    [&](int64_t row, const Outputs& out) { out.add_to(out_ + row * size_ + panel * kPanel); });
        }
        for (int64_t row = 0; row < rows; ++row) {
            float* to = out + row / group_ * out_stride + (task.head * group_ + row % group_) * size_;
            for (int64_t d = 0; d < size_; ++d) to[d] = out_[row * size_ + d] / total_[row];
        }
    }

  private:
    static int64_t scratch_rows(const Heads& heads) { return std::max(kTaskRows, heads.group()); }

    // Keys as [token panel][d][16 tokens], values as [d panel][token][16 d]; what lies beyond the tile is 0.
    void lay_out(const PagedSide<Number>& keys, const PagedSide<Number>& values, const int64_t* table, int64_t head,
                 int64_t tile, int64_t count) {
        const typename Number::Stored* at[kTokens];
        alignas(64) float line[kWidth];
        std::fill_n(keys_, kTokens * size_, 0.0f);
        std::fill_n(values_, kTokens * size_, 0.0f);
        keys.locate(table, head, tile, count, at);
        for (int64_t token = 0; token < count; ++token) {
            float* to = keys_ + token / kPanel * size_ * kPanel + token % kPanel;
            for (int64_t d = 0; d < size_; d += kWidth) {
                store(line, Number::load(at[token] + d));
                for (int i = 0; i < kWidth; ++i) to[(d + i) * kPanel] = line[i];
            }
        }
        values.locate(table, head, tile, count, at);
        for (int64_t token = 0; token < count; ++token)
            for (int64_t d = 0; d < size_; d += kWidth)
                store(values_ + d / kPanel * kTokens * kPanel + token * kPanel + d % kPanel,
                      Number::load(at[token] + d));
    }

    static void hide(float* scores, int64_t own, int64_t tile, int64_t count, int64_t window) {
        const float nothing = -std::numeric_limits<float>::infinity();
        const int64_t end = std::clamp<int64_t>(own - tile + 1, 0, count);
        std::fill(scores + end, scores + kTokens, nothing);
        if (window > 0) std::fill_n(scores, std::clamp<int64_t>(own - window + 1 - tile, 0, kTokens), nothing);
    }

    int64_t size_, group_, rows_;
    float *query_, *out_, *scores_, *keys_, *values_, *peak_, *total_;
};

// One task. `query` and `out` are [rows of the step, query heads, head size], rows `stride` floats apart; scaled.
template <class Number>
void attend(const Step& step, const AttentionTask& task, const float* query, int64_t stride,
            const PagedSide<Number>& keys, const PagedSide<Number>& values, int64_t window, float* out,
            int64_t out_stride, float* scratch) {
    const Heads& heads = keys.heads;
    const int64_t length = step.lengths[task.sequence];
    const int64_t position = length - (step.query_start[task.sequence + 1] - task.first);
    const int64_t* table = step.block_tables + task.sequence * step.table_width;
    query += task.first * stride;
    out += task.first * out_stride;
    if (step.query_start[task.sequence + 1] - step.query_start[task.sequence] <= kFewQueries) {
        const int64_t offset = task.head * heads.group() * heads.size;
        for (int64_t q = 0; q < task.last - task.first; ++q) {
            const int64_t own = position + q, start = window > 0 ? std::max<int64_t>(0, own - window + 1) : 0;
            attend_group<Number>(heads.group(), query + q * stride + offset, keys, values, table, task.head, start,
                                 own + 1, out + q * out_stride + offset);
        }
    } else {
        TiledAttention<Number>(heads, scratch)
            .attend(query, stride, keys, values, table, task, position, window, out, out_stride);
    }
}

}  // namespace headrace
