// Spans of a step's rows that are computed in the same way, and the blocks in which threads take them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "attention.h"

namespace headrace {

inline int64_t pieces(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Consecutive rows of a step: of prompts, or of generated tokens and drafts.
struct Span {
    int64_t first, last;
    bool prompt;

    int64_t rows() const { return last - first; }
};
using Spans = std::vector<Span>;

// Returns the spans of all rows, or, with gaps, of the rows whose states are read after the last layer.
inline Spans spans_of(const Step& step, bool last_layer) {
    Spans spans;
    const auto add = [&](int64_t first, int64_t last, bool prompt) {
        if (first == last) return;
        if (spans.empty() || spans.back().last != first || spans.back().prompt != prompt)
            spans.push_back({first, first, prompt});
        spans.back().last = last;
    };
    for (int64_t sequence = 0; sequence < step.sequences; ++sequence) {
        const int64_t first = step.first(sequence, last_layer), prompt_end = step.prompt_end(sequence, first);
        add(first, prompt_end, true);
        add(prompt_end, step.query_start[sequence + 1], false);
    }
    return spans;
}

// Whether a row's span, or the next one for a row in a gap, is of prompts.
inline bool of_prompt(std::span<const Span> spans, int64_t row) {
    auto at = spans.begin();
    while (row >= at->last) ++at;
    return at->prompt;
}

// The size of blocks of rows that a thread computes together.
struct BlockSize {
    int64_t most, tile;  // rows

    // Returns the rows per block when `rows` are cut evenly into blocks of whole tiles: `most` or a few more.
    int64_t even(int64_t rows) const {
        return rows ? pieces(pieces(rows, pieces(rows, most)), tile) * tile : most;
    }
};

// The rows of spans cut evenly into blocks, those of prompts first. A block has rows of one kind, from several spans if
// they are short, so that what is computed per block does not depend on the number of prompts.
class Blocks {
  public:
    Blocks(std::span<const Span> spans, const BlockSize& of_prompts, const BlockSize& of_others) : spans_(spans) {
        int64_t rows[2] = {};
        for (const Span& span : spans_) rows[span.prompt] += span.rows();
        size_[0] = of_others.even(rows[0]);
        size_[1] = of_prompts.even(rows[1]);
        prompts_ = pieces(rows[1], size_[1]);
        count_ = prompts_ + pieces(rows[0], size_[0]);
    }

    int64_t count() const { return count_; }

    bool of_prompts(int64_t index) const { return index < prompts_; }

    // Calls `use(first, last)` with the consecutive rows of each span in a block.
    template <class Use>
    void each(int64_t index, const Use& use) const {
        const bool prompt = of_prompts(index);
        int64_t first = (prompt ? index : index - prompts_) * size_[prompt];  // counted from the start of a span
        for (const Span& span : spans_) {
            if (span.prompt != prompt) continue;
            const int64_t last = first + size_[prompt];
            if (first < span.rows() && last > 0)
                use(span.first + std::max<int64_t>(0, first), span.first + std::min(span.rows(), last));
            first -= span.rows();
        }
    }

  private:
    std::span<const Span> spans_;
    int64_t size_[2], prompts_, count_;  // rows per block of others and of prompts; blocks of prompts, and of all
};

}  // namespace headrace
