// Attention of one query row after another over the cache as it lies: what decoding does. It waits for memory, so what the
// next tile of tokens needs is asked for while this one is computed with.
#pragma once

#include <cmath>

#include "attention.h"
#include "linear.h"

namespace headrace {

constexpr int kSharedHeads = 3;  // query heads that share a load of a key or value: as many as the registers hold

// Where the keys and values of some tokens lie: those of the first head, the other heads' behind them.
template <class Vector>
struct Tile {
    using Stored = typename Vector::Stored;
    const Stored *keys[kTokens], *values[kTokens];
    int64_t count = 0;

    void locate(const PagedSide<Vector>& key_side, const PagedSide<Vector>& value_side, const int64_t* table, int64_t head,
                int64_t start, int64_t end) {
        count = std::min(kTokens, end - start);
        key_side.locate(table, head, start, count, keys);
        value_side.locate(table, head, start, count, values);
        for (int64_t i = count; i % 4; ++i) keys[i] = keys[count - 1], values[i] = values[count - 1];
    }
};

// Asks memory for a tile, a few tokens at a time.
template <class Vector>
class Fetching {
  public:
    // In about `turns` turns; `length`: `Stored` of a token.
    Fetching(const Tile<Vector>& tile, int64_t length, int64_t turns)
        : tile_(tile), bytes_(length * sizeof(typename Vector::Stored)), tokens_((tile.count + turns - 1) / turns) {}

    void turn() {
        for (const int64_t end = std::min(tile_.count, next_ + tokens_); next_ < end; ++next_) {
            fetch(tile_.keys[next_], bytes_);
            fetch(tile_.values[next_], bytes_);
        }
    }

  private:
    const Tile<Vector>& tile_;
    const int64_t bytes_, tokens_;
    int64_t next_ = 0;
};

// A head's softmax so far.
struct Softmax {
    float peak = kNothing, total = 0.0f;

    // Scores of a tile become weights. Returns the factor on what was summed up before.
    float soften(float* scores) {
        Floats highest = load(scores);
        for (int64_t i = kWidth; i < kTokens; i += kWidth) highest = max(highest, load(scores + i));
        const float next = std::max(peak, largest(highest));
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
};

// Add the values of a tile, weighted, to dimensions `d` to `d + kWidth * V` of `G` sums, which are scaled by `factor` first.
template <class Vector, int G, int V>
void add_values(const Tile<Vector>& tile, int64_t offset, int64_t d, int64_t size, const float (&weights)[G][kTokens],
                const float (&factor)[G], float* out) {
    Floats sums[G][V];
    for (int g = 0; g < G; ++g)
        for (int v = 0; v < V; ++v) sums[g][v] = broadcast(factor[g]) * load(out + g * size + d + v * kWidth);
    for (int64_t token = 0; token < tile.count; ++token) {
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

// Numbers that stand for a tile's tokens, each times the scale of its vector; those beyond the tokens stay as they are.
template <class Vector, int G>
void scale_tokens(const typename Vector::Stored* const* vectors, int64_t count, int64_t offset, int64_t size,
                  float (&numbers)[G][kTokens]) {
    if constexpr (Vector::kScaled) {
        alignas(64) float scales[kTokens];
        for (int64_t token = 0; token < count; ++token) scales[token] = Vector::scale(vectors[token] + offset, size);
        std::fill(scales + count, scales + kTokens, 1.0f);
        for (int g = 0; g < G; ++g)
            for (int64_t i = 0; i < kTokens; i += kWidth) store(numbers[g] + i, load(numbers[g] + i) * load(scales + i));
    }
}

// A tile for `G` query heads: `query` and `out` are [G, head size], `offset` is where their keys lie in a token's.
template <class Vector, int G>
void attend_tile(const float* query, const Tile<Vector>& tile, int64_t offset, int64_t size, Softmax* softmax, float* out,
                 Fetching<Vector>& ahead) {
    alignas(64) float scores[G][kTokens];
    float factor[G];
    for (int64_t token = 0; token < tile.count; token += 4) {
        Floats products[G][4];
        for (int g = 0; g < G; ++g)
            for (int i = 0; i < 4; ++i) products[g][i] = zero();
        ahead.turn();
        for (int64_t d = 0; d < size; d += kWidth) {
            Floats key[4];
            for (int i = 0; i < 4; ++i) key[i] = Vector::load(tile.keys[token + i] + offset + d);
            for (int g = 0; g < G; ++g) {
                const Floats q = load(query + g * size + d);
                for (int i = 0; i < 4; ++i) products[g][i] = fmadd(q, key[i], products[g][i]);
            }
        }
        for (int g = 0; g < G; ++g)
            _mm_store_ps(scores[g] + token, sums(products[g][0], products[g][1], products[g][2], products[g][3]));
    }
    for (int g = 0; g < G; ++g) std::fill(scores[g] + tile.count, scores[g] + kTokens, kNothing);
    scale_tokens<Vector>(tile.keys, tile.count, offset, size, scores);
    for (int g = 0; g < G; ++g) factor[g] = softmax[g].soften(scores[g]);
    scale_tokens<Vector>(tile.values, tile.count, offset, size, scores);
    int64_t d = 0;
    for (; d + 4 * kWidth <= size; d += 4 * kWidth) add_values<Vector, G, 4>(tile, offset, d, size, scores, factor, out);
    for (; d < size; d += 16) add_values<Vector, G, 16 / kWidth>(tile, offset, d, size, scores, factor, out);
}

// All query heads of a key-value head, some at a time.
template <class Vector, int G = kSharedHeads>
void attend_group(int64_t group, const float* query, const Tile<Vector>& tile, int64_t offset, int64_t size,
                  Softmax* softmax, float* out, Fetching<Vector>& ahead) {
    for (; group >= G; group -= G, query += G * size, out += G * size, softmax += G)
        attend_tile<Vector, G>(query, tile, offset, size, softmax, out, ahead);
    if constexpr (G > 1) attend_group<Vector, G - 1>(group, query, tile, offset, size, softmax, out, ahead);
}

// Rows of one layer against its cache.
template <class Vector>
class RowAttention {
  public:
    RowAttention(const Step& step, const PagedSide<Vector>& keys, const PagedSide<Vector>& values, int64_t window)
        : step_(step), keys_(keys), values_(values), heads_(keys.heads), window_(window) {}

    static int64_t scratch_floats(const Heads& heads) { return heads.query * sizeof(Softmax) / sizeof(float); }

    // `query` and `out` are the step's rows, [query heads, head size] each, rows `stride` and `out_stride` floats apart.
    // `following` is the task that this thread is likely to get next, or null.
    void attend(const AttentionTask& task, const AttentionTask* following, const float* query, int64_t stride, float* out,
                int64_t out_stride, float* scratch) const {
        const int64_t offset = task.first_head * heads_.group() * heads_.size;
        for (int64_t row = task.first; row < task.last; ++row)
            attend_row(task, row, row + 1 == task.last ? following : nullptr, query + row * stride + offset,
                       out + row * out_stride + offset, reinterpret_cast<Softmax*>(scratch));
    }

  private:
    void attend_row(const AttentionTask& task, int64_t row, const AttentionTask* following, const float* query, float* out,
                    Softmax* softmax) const {
        const int64_t heads = task.last_head - task.first_head, group = heads_.group(), size = heads_.size;
        const int64_t length = keys_.vector_length();
        const int64_t end = position(task, row) + 1;
        std::fill_n(softmax, heads * group, Softmax{});
        std::fill_n(out, heads * group * size, 0.0f);
        Tile<Vector> tiles[2];
        int current = 0;
        locate(tiles[current], task, row, first_seen(end - 1, window_));
        for (int64_t start = first_seen(end - 1, window_); start < end; start += kTokens, current ^= 1) {
            const Tile<Vector>& tile = tiles[current];
            Tile<Vector>& next = tiles[current ^ 1];
            next.count = 0;
            if (start + kTokens < end) {
                locate(next, task, row, start + kTokens);
            } else if (following) {
                locate(next, *following, following->first, first_seen(position(*following, following->first), window_));
            }
            Fetching<Vector> ahead(next, heads * length, (tile.count + 3) / 4 * heads);
            for (int64_t head = 0; head < heads; ++head)
                attend_group<Vector>(group, query + head * group * size, tile, head * length, size, softmax + head * group,
                                     out + head * group * size, ahead);
        }
        for (int64_t head = 0; head < heads * group; ++head)
            for (int64_t d = 0; d < size; ++d) out[head * size + d] /= softmax[head].total;
    }

    int64_t position(const AttentionTask& task, int64_t row) const {
        return step_.lengths[task.sequence] - (step_.query_start[task.sequence + 1] - row);
    }

    void locate(Tile<Vector>& tile, const AttentionTask& task, int64_t row, int64_t start) const {
        tile.locate(keys_, values_, step_.block_tables + task.sequence * step_.table_width, task.first_head, start,
                    position(task, row) + 1);
    }

    const Step& step_;
    const PagedSide<Vector>& keys_;
    const PagedSide<Vector>& values_;
    const Heads& heads_;
    const int64_t window_;
};

}  // namespace headrace
