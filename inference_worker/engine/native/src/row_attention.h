// Decode attention: one query row after another over the cache in place. It is bound by memory, so the next tile of
// tokens is prefetched while the current one is computed.
#pragma once

#include "row_products.h"

namespace headrace {

constexpr int kSharedHeads = 3;  // query heads that share a load of a key or value, limited by registers

// The running state of a head's online softmax.
struct Softmax {
    float peak = kMasked, total = 0.0f;

    // Turns a tile's scores into weights. Returns the factor for the sums of earlier tiles.
    float to_weights(float* scores) {
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
        const float factor = first(exp(broadcast(peak - next)));
        total = total * factor + sum(weights);
        peak = next;
        return factor;
    }
};

// The scales of a tile's vectors, if its format has any; 1 beyond its tokens.
template <class Vector>
class Scales {
  public:
    Scales(const typename Vector::Stored* const* vectors, int64_t count, int64_t offset, int64_t size) {
        if constexpr (Vector::kScaled) {
            for (int64_t token = 0; token < count; ++token)
                scales_[token] = Vector::scale(vectors[token] + offset, size);
            std::fill(scales_ + count, scales_ + kTokens, 1.0f);
        }
    }

    // Multiplies one number per token by the token's scale.
    void apply(float* numbers) const {
        if constexpr (Vector::kScaled)
            for (int64_t i = 0; i < kTokens; i += kWidth) store(numbers + i, load(numbers + i) * load(scales_ + i));
    }

  private:
    alignas(64) float scales_[Vector::kScaled ? kTokens : 1];
};

// Caps the scores of a tile's `count` tokens softly.
inline void cap_scores(float softcap, int64_t count, float* scores) {
    const SoftCap cap(softcap);
    for (int64_t i = 0; i < kTokens; i += kWidth) store(scores + i, cap(load(scores + i)));
    std::fill(scores + count, scores + kTokens, kMasked);
}

// Computes a tile for `G` query heads: `out` is [G, head size], `offset` that of their key within a token's keys.
template <class Products, class Vector, int G>
void attend_tile(const typename Products::Word* queries, const Tile<Vector>& tile, int64_t offset, int64_t size,
                 float softcap, Softmax* softmax, float* out, Prefetch<Vector>& ahead) {
    alignas(64) float scores[G][kTokens];
    float factors[G];
    const Scales<Vector> key_scales(tile.keys, tile.count, offset, size);
    const Scales<Vector> value_scales(tile.values, tile.count, offset, size);
    Products::template score<G>(queries, tile, offset, size, scores, ahead);
    for (int g = 0; g < G; ++g) {
        std::fill(scores[g] + tile.count, scores[g] + kTokens, kMasked);
        key_scales.apply(scores[g]);
        if (softcap > 0) cap_scores(softcap, tile.count, scores[g]);
        factors[g] = softmax[g].to_weights(scores[g]);
        value_scales.apply(scores[g]);
    }
    Products::template add_values<G>(scores, tile, offset, size, factors, out, ahead);
}

// Computes all query heads of a key-value head, up to G at a time.
template <class Products, class Vector, int G = kSharedHeads>
void attend_group(int64_t group, const typename Products::Word* queries, const Tile<Vector>& tile, int64_t offset,
                  int64_t size, float softcap, Softmax* softmax, float* out, Prefetch<Vector>& ahead) {
    for (; group >= G; group -= G, queries += G * Products::words(size), out += G * size, softmax += G)
        attend_tile<Products, Vector, G>(queries, tile, offset, size, softcap, softmax, out, ahead);
    if constexpr (G > 1)
        attend_group<Products, Vector, G - 1>(group, queries, tile, offset, size, softcap, softmax, out, ahead);
}

// Attention of query rows over one layer's cache.
template <class Vector>
class RowAttention {
    using Products = RowProducts<Vector>;
    using Word = typename Products::Word;

  public:
    RowAttention(const Step& step, const PagedSide<Vector>& keys, const PagedSide<Vector>& values,
                 const Weighting& weighting)
        : step_(step), keys_(keys), values_(values), heads_(keys.heads), weighting_(weighting) {}

    static int64_t scratch_floats(const Heads& heads) {
        return heads.query * (sizeof(Softmax) / sizeof(float) + Products::words(heads.size));
    }

    // `query` and `out` are the step's rows, [query heads, head size] each, rows `stride` and `out_stride` floats
    // apart. `following` is the task that this thread probably gets next, or null; its first tile is prefetched.
    void attend(const AttentionTask& task, const AttentionTask* following, const float* query, int64_t stride,
                float* out, int64_t out_stride, float* scratch) const {
        const int64_t offset = task.first_head * heads_.group() * heads_.size;
        for (int64_t row = task.first; row < task.last; ++row)
            attend_row(task, row, row + 1 == task.last ? following : nullptr, query + row * stride + offset,
                       out + row * out_stride + offset, scratch);
    }

  private:
    void attend_row(const AttentionTask& task, int64_t row, const AttentionTask* following, const float* query,
                    float* out, float* scratch) const {
        const int64_t heads = task.last_head - task.first_head, group = heads_.group(), size = heads_.size;
        const int64_t length = keys_.vector_length();
        const int64_t end = position(task, row) + 1;
        Softmax* softmax = reinterpret_cast<Softmax*>(scratch);
        Word* buffer = reinterpret_cast<Word*>(softmax + heads * group);
        const Word* queries = Products::prepare(query, heads * group, size, buffer);
        std::fill_n(softmax, heads * group, Softmax{});
        if (weighting_.sinks) {
            const float* sinks = weighting_.sinks + task.first_head * group;
            for (int64_t head = 0; head < heads * group; ++head) softmax[head] = {sinks[head], 1.0f};
        }
        std::fill_n(out, heads * group * size, 0.0f);
        Tile<Vector> tiles[2];
        int current = 0;
        locate(tiles[current], task, row, first_seen(end - 1, weighting_.window));
        for (int64_t start = first_seen(end - 1, weighting_.window); start < end; start += kTokens, current ^= 1) {
            const Tile<Vector>& tile = tiles[current];
            Tile<Vector>& next = tiles[current ^ 1];
            next.count = 0;
            if (start + kTokens < end) {
                locate(next, task, row, start + kTokens);
            } else if (following) {
                const int64_t first = position(*following, following->first);
                locate(next, *following, following->first, first_seen(first, weighting_.window));
            }
            Prefetch<Vector> ahead(next, heads * length, (tile.count + 3) / 4 * 2 * heads);
            for (int64_t head = 0; head < heads; ++head)
                attend_group<Products>(group, queries + head * group * Products::words(size), tile, head * length, size,
                                       weighting_.softcap, softmax + head * group, out + head * group * size, ahead);
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
    const Weighting& weighting_;
};

}  // namespace headrace
