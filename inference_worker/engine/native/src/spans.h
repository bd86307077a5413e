// Spans of a step's rows that are computed in the same way, and the blocks in which threads take them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "attention.h"

namespace headrace {

constexpr int64_t kFewQueries = 17;  // a token and its drafts: their products must be, bit for bit, the same as alone

inline int64_t pieces(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Consecutive rows of a step: of sequences with few queries each (`kFewQueries`), or with many.
struct Span {
    int64_t first, last;
    bool many;

    int64_t rows() const { return last - first; }
};
using Spans = std::vector<Span>;

// Returns the spans of all rows, or, with gaps, of the rows whose states are read after the last layer.
inline Spans spans_of(const Step& step, bool last_layer) {
    Spans spans;
    for (int64_t sequence = 0; sequence < step.sequences; ++sequence) {
        const int64_t first = step.first(sequence, last_layer), last = step.query_start[sequence + 1];
        const bool many = last - step.query_start[sequence] > kFewQueries;
        if (first == last) continue;
        if (spans.empty() || spans.back().last != first || spans.back().many != many)
            spans.push_back({first, first, many});
        spans.back().last = last;
    }
    return spans;
}

// Whether a row's span, or the next one for a row in a gap, has many queries per sequence.
inline bool many_at(std::span<const Span> spans, int64_t row) {
    auto at = spans.begin();
    while (row >= at->last) ++at;
    return at->many;
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
        return {first, std::min(span->last, first + size(*span)), span->many};
    }

  private:
    int64_t size(const Span& span) const {
        return pieces(pieces(span.rows(), pieces(span.rows(), most_)), tile_) * tile_;
    }

    std::span<const Span> spans_;
    int64_t most_, tile_, count_ = 0;
};

}  // namespace headrace
