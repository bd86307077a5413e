// Attention of many query rows of one sequence: two matrix products a tile of tokens, in float32. The rows stand side by
// side in vectors, so that the softmax needs no sum across one, and keys and values are taken as they lie.
#pragma once

#include <utility>

#include "attention.h"
#include "linear.h"

namespace headrace {

template <class Number>
class TiledAttention {
  public:
    TiledAttention(const Heads& heads, float* scratch) : size_(heads.size), group_(heads.group()) {
        const int64_t panels = scratch_panels(heads);
        const auto take = [&](int64_t floats) { return std::exchange(scratch, scratch + floats); };
        query_ = take(panels * kPanel * size_);
        out_ = take(panels * kPanel * size_);
        scores_ = take(kTokens * kPanel);
        keys_ = take(kTokens * size_);
        values_ = take(kTokens * size_);
        peak_ = take(panels * kPanel);
        total_ = take(panels * kPanel);
        own_ = take(panels * kPanel);
    }

    static int64_t scratch_floats(const Heads& heads) {
        const int64_t rows = scratch_panels(heads) * kPanel;
        return rows * (2 * heads.size + 3) + kTokens * (kPanel + 2 * heads.size);
    }

    // `query` and `out` are the step's rows, [query heads, head size] each, rows `stride` and `out_stride` floats apart;
    // `position` is that of the task's first query.
    void attend(const AttentionTask& task, const float* query, int64_t stride, const PagedSide<Number>& keys,
                const PagedSide<Number>& values, const int64_t* table, int64_t position, int64_t window, float* out,
                int64_t out_stride) {
        const int64_t queries = task.last - task.first, rows = queries * group_;
        const int64_t panels = (rows + kPanel - 1) / kPanel, heads_before = task.first_head * group_ * size_;
        query += task.first * stride + heads_before;
        out += task.first * out_stride + heads_before;
        start(query, stride, rows, panels, position);
        for (int64_t tile = first_seen(position, window); tile < position + queries; tile += kTokens) {
            const int64_t count = std::min(kTokens, position + queries - tile);
            take(keys, table, task.first_head, tile, count, keys_);
            take(values, table, task.first_head, tile, count, values_);
            for (int64_t panel = 0; panel < panels; ++panel) {
                const float* panel_query = query_ + panel * kPanel * size_;
                multiply_rows<FloatFormat<Float32>>(
                    Rows{keys_, nullptr, nullptr, nullptr}, 0, count, size_,
                    FloatFormat<Float32>::Expanded{panel_query},
                    [&](int64_t token, const Outputs& scores) { scores.store(scores_ + token * kPanel); });
                const bool hides = tile + count - 1 > position || window > 0;
                for (int half = 0; half < 2; ++half) {
                    if (hides) hide(panel * kPanel + half * kWidth, half, tile, count, window);
                    soften(panel * kPanel + half * kWidth, half, count, out_ + panel * kPanel * size_);
                }
                for (int64_t d = 0; d < size_; d += kDimensions) add_values(d, count, out_ + panel * kPanel * size_);
            }
        }
        for (int64_t row = 0; row < rows; ++row) {
            const float* from = out_ + row / kPanel * kPanel * size_ + row % kPanel;
            float* to = out + row / group_ * out_stride + row % group_ * size_;
            for (int64_t d = 0; d < size_; ++d) to[d] = from[d * kPanel] / total_[row];
        }
    }

  private:
    static int64_t scratch_panels(const Heads& heads) {
        return (std::max(kTaskRows, heads.group()) + kPanel - 1) / kPanel;
    }

    // Queries are laid out as [panel][d][row]; rows beyond the last see what the last one sees.
    void start(const float* query, int64_t stride, int64_t rows, int64_t panels, int64_t position) {
        for (int64_t row = 0; row < panels * kPanel; ++row) {
            const int64_t real = std::min(row, rows - 1);
            const float* from = query + real / group_ * stride + real % group_ * size_;
            float* to = query_ + row / kPanel * kPanel * size_ + row % kPanel;
            for (int64_t d = 0; d < size_; ++d) to[d * kPanel] = from[d];
            own_[row] = static_cast<float>(position + real / group_);
        }
        std::fill_n(out_, panels * kPanel * size_, 0.0f);
        std::fill_n(peak_, panels * kPanel, kNothing);
        std::fill_n(total_, panels * kPanel, 0.0f);
    }

    // The vectors of a tile as float32, [token][d].
    void take(const PagedSide<Number>& side, const int64_t* table, int64_t head, int64_t tile, int64_t count, float* to) {
        const typename Number::Stored* at[kTokens];
        side.locate(table, head, tile, count, at);
        for (int64_t token = 0; token < count; ++token, to += size_)
            for (int64_t d = 0; d < size_; d += kWidth) store(to + d, Number::load(at[token] + d));
    }

    // Scores of tokens that a row does not see become nothing.
    void hide(int64_t row, int half, int64_t tile, int64_t count, int64_t window) {
        const Floats own = load(own_ + row), nothing = broadcast(kNothing);
        for (int64_t token = 0; token < count; ++token) {
            float* at = scores_ + token * kPanel + half * kWidth;
            const Floats place = broadcast(static_cast<float>(tile + token));
            Floats score = unless_below(own, place, load(at), nothing);
            if (window > 0) score = unless_below(place, own - broadcast(window - 1.0f), score, nothing);
            store(at, score);
        }
    }

    // Scores become weights, and what was summed up before is brought to the same scale.
    void soften(int64_t row, int half, int64_t count, float* out) {
        float* scores = scores_ + half * kWidth;
        const Floats before = load(peak_ + row);
        Floats peak = before;
        for (int64_t token = 0; token < count; ++token) peak = max(peak, load(scores + token * kPanel));
        store(peak_ + row, peak);
        const Floats shift = max(peak, broadcast(-1e30f));  // a row that has seen nothing yet has no peak
        const Floats factor = exp(before - shift);
        Floats weights = zero();
        for (int64_t token = 0; token < count; ++token) {
            const Floats weight = exp(load(scores + token * kPanel) - shift);
            store(scores + token * kPanel, weight);
            weights += weight;
        }
        store(total_ + row, fmadd(load(total_ + row), factor, weights));
        for (int64_t d = 0; d < size_; ++d) {
            float* at = out + d * kPanel + half * kWidth;
            store(at, load(at) * factor);
        }
    }

    static constexpr int kDimensions = 4;

    // Some dimensions of a panel's rows.
    void add_values(int64_t d, int64_t count, float* out) {
        Outputs sums[kDimensions];
        for (auto& sum : sums) sum.half[0] = sum.half[1] = zero();
        for (int64_t token = 0; token < count; ++token) {
            const Floats left = load(scores_ + token * kPanel), right = load(scores_ + token * kPanel + kWidth);
            for (int i = 0; i < kDimensions; ++i) {
                const Floats value = broadcast(values_[token * size_ + d + i]);
                sums[i].half[0] = fmadd(value, left, sums[i].half[0]);
                sums[i].half[1] = fmadd(value, right, sums[i].half[1]);
            }
        }
        for (int i = 0; i < kDimensions; ++i) sums[i].add_to(out + (d + i) * kPanel);
    }

    int64_t size_, group_;
    float *query_, *out_;          // [panel][d][row]
    float* scores_;                // [token][row], of one panel
    float *keys_, *values_;        // [token][d]
    float *peak_, *total_, *own_;  // of a row; own: its position
};

}  // namespace headrace
