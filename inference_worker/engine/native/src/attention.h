// Causal attention over a paged KV cache (Kwon et al. 2023), with the online softmax of Dao et al. 2022.
//
// Work is cut into tasks; the query heads that share a key-value head are computed together, so that keys and values
// are read once. Generated tokens and drafts read the cache in place, one row after another (`row_attention.h`), and so
// does a prompt's last token, which each choice of a request computes. Other tokens of prompts become two small matrix
// products (`tiled_attention.h`). Both add in an order that the position alone determines, so that a row's result
// depends neither on the step's other rows nor on the chunks of its prompt.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cached_vectors.h"

namespace headrace {

constexpr int64_t kTokens = 64;      // positions per tile
constexpr int64_t kMinRows = 96;   // rows per task, about (queries x query heads of the group)
constexpr int64_t kMaxRows = 128;   // more rows would save loads of keys and values, but sums would leave the L1 cache
constexpr int64_t kTasksPerThread = 16;   // tasks per thread from which on tasks get more than kMinRows

struct Heads {
    int64_t query, kv, size;
    int64_t group() const { return query / kv; }
};

// How a layer's scores become weights: as in `AttentionInputs` of `attention_backend.py`.
struct Weighting {
    int64_t window = 0;            // positions that a query attends to, 0: all
    float softcap = 0.0f;          // 0: scores are not capped
    const float* sinks = nullptr;  // [query heads], null: no sinks
};

// A step's metadata: `AttentionMetadata` of `attention_backend.py`.
struct Step {
    int64_t rows, sequences, table_width;
    const int64_t* query_start;   // [S + 1]
    const int64_t* lengths;       // [S]
    const int64_t* block_tables;  // [S, table_width]
    const int64_t* slots;         // [rows]
    const int64_t* read_from;     // [S], or null
    const int64_t* prompt_lengths;  // [S], or null: all rows are before a prompt's last token

    // The first row of a sequence; in the last layer, the first one whose states are read.
    int64_t first(int64_t sequence, bool last_layer) const {
        return last_layer && read_from ? read_from[sequence] : query_start[sequence];
    }

    // The row after those of a sequence's prompt but its last token, at least `first` and at most the sequence's end.
    int64_t tiled_end(int64_t sequence, int64_t first) const { return row_after_prompt(sequence, first, -1); }

    // The row after those of a sequence's prompt, at least `first` and at most the sequence's end.
    int64_t prompt_end(int64_t sequence, int64_t first) const { return row_after_prompt(sequence, first, 0); }

  private:
    // The row `more` rows after those of a sequence's prompt, within the same bounds.
    int64_t row_after_prompt(int64_t sequence, int64_t first, int64_t more) const {
        const int64_t end = query_start[sequence + 1];
        return prompt_lengths ? std::clamp(end - lengths[sequence] + prompt_lengths[sequence] + more, first, end) : end;
    }
};

// A unit of attention work: some queries of one sequence and some key-value heads.
struct AttentionTask {
    int64_t sequence, first_head, last_head, first, last;  // first, last: rows of the step
    bool tiled;                                            // whether they are computed in tiles
};

// Returns the tasks, the longest first, so that no thread is left with a long one at the end. With enough sequences for
// all threads, a task takes all heads, whose keys are contiguous in memory.
inline std::vector<AttentionTask> attention_tasks(const Step& step, const Heads& heads, int threads,
                                                  bool last_layer = false) {
    std::vector<AttentionTask> long_ones, short_ones;
    const int64_t rows = std::clamp(step.rows * heads.query / (threads * kTasksPerThread), kMinRows, kMaxRows);
    const int64_t queries = std::max<int64_t>(1, rows / heads.group());
    const int64_t together = step.sequences >= 4 * threads ? heads.kv : 1;
    for (int64_t sequence = 0; sequence < step.sequences; ++sequence) {
        const int64_t first = step.first(sequence, last_layer), last = step.query_start[sequence + 1];
        const int64_t tiled_end = step.tiled_end(sequence, first);
        auto& tasks = last - first > 1 ? long_ones : short_ones;
        const auto add = [&](int64_t start, int64_t end, int64_t step_heads, bool tiled) {
            for (; end > start; end -= queries)
                for (int64_t head = 0; head < heads.kv; head += step_heads)
                    tasks.push_back({sequence, head, head + step_heads, std::max(start, end - queries), end, tiled});
        };
        add(first, tiled_end, 1, true);
        add(tiled_end, last, together, false);
    }
    long_ones.insert(long_ones.end(), short_ones.begin(), short_ones.end());
    return long_ones;
}

// One layer's keys or values: vectors of [blocks, block size, kv heads].
template <class Vector>
struct PagedSide {
    using Stored = typename Vector::Stored;
    Stored* data;
    int64_t block_size;
    Heads heads;

    int64_t vector_length() const { return Vector::length(heads.size); }
    Stored* slot(int64_t slot, int64_t head) const { return data + (slot * heads.kv + head) * vector_length(); }

    // Stores the vectors of all heads.
    void store(int64_t at, const float* x) const {
        for (int64_t head = 0; head < heads.kv; ++head)
            Vector::store(x + head * heads.size, heads.size, slot(at, head));
    }

    // Finds the addresses of the vectors of `count` positions from `start` on.
    void locate(const int64_t* table, int64_t head, int64_t start, int64_t count, const Stored** found) const {
        const int64_t stride = heads.kv * vector_length();
        int64_t block = start / block_size, offset = start % block_size;  // avoids a division per token
        for (int64_t i = 0; i < count; ++block, offset = 0) {
            const Stored* at = slot(table[block] * block_size + offset, head);
            for (; offset < block_size && i < count; ++offset, at += stride) found[i++] = at;
        }
    }
};

constexpr float kMasked = -1e30f;  // score of a masked position; finite, because scores are subtracted

// The first position that a query at position `own` attends to.
inline int64_t first_seen(int64_t own, int64_t window) {
    return window > 0 ? std::max<int64_t>(0, own - window + 1) : 0;
}

}  // namespace headrace
