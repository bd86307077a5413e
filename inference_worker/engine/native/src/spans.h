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

// Spans cut evenly into blocks of whole tiles, with `most` rows or a few more.
class Blocks {
  public:
    Blocks(std::span<const Span> spans, int64_t most, int64_t tile)
        : spans_(spans), most_(std::max<int64_t>(32, most)), tile_(tile) {
        for (const Span& span : spans_) count_ += pieces(span.rows(), size(span));
    }

    int64_t count() const { return count_; }

    Span at(int64_t index) const {
        auto span = spans_.begin();
        for (; index >= pieces(span->rows(), size(*span)); ++span) index -= pieces(span->rows(), size(*span));
        const int64_t first = span->first + index * size(*span);
        return {first, std::min(span->last, first + size(*span)), span->prompt};
    }

  private:
    int64_t size(const Span& span) const {
        return pieces(pieces(span.rows(), pieces(span.rows(), most_)), tile_) * tile_;
    }

    std::span<const Span> spans_;
    int64_t most_, tile_, count_ = 0;
};

}  // namespace headrace
