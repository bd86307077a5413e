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

// The size of blocks of rows that a thread computes together: as many as fit the cache, rounded up to whole tiles. If
// no more than `least` fit, blocks have at least `least`, rounded down to whole tiles, unless there are fewer rows.
struct BlockSize {
    int64_t fitting, least, tile;  // rows

    int64_t blocks(int64_t rows) const {
        const int64_t count = fitting <= least ? std::max<int64_t>(1, rows / least) : pieces(rows, fitting);
        return std::min(count, pieces(rows, tile));
    }
};

// A number of rows evenly cut into blocks of whole tiles, except for the last tile.
struct EvenlyCut {
    int64_t rows, tile, count;  // count: of blocks

    EvenlyCut(int64_t rows, const BlockSize& size) : rows(rows), tile(size.tile), count(size.blocks(rows)) {}

    // Returns the first row of a block, or, after the last block, the number of rows.
    int64_t start(int64_t block) const { return std::min(rows, block * pieces(rows, tile) / count * tile); }
};

// The rows of spans evenly cut into blocks, those of prompts first. A block has rows of one kind, from several spans if
// they are short, so that what is computed per block does not depend on the number of prompts.
class Blocks {
  public:
    Blocks(std::span<const Span> spans, const BlockSize& of_prompts, const BlockSize& of_others)
        : spans_(spans), prompts_(rows_of(spans, true), of_prompts), others_(rows_of(spans, false), of_others) {}

    int64_t count() const { return prompts_.count + others_.count; }

    bool of_prompts(int64_t index) const { return index < prompts_.count; }

    // Calls `multiply(first, last)` with the consecutive rows of each span in a block.
    template <class Multiply>
    void each(int64_t index, const Multiply& multiply) const {
        const bool prompt = of_prompts(index);
        const EvenlyCut& cut = prompt ? prompts_ : others_;
        const int64_t block = prompt ? index : index - prompts_.count;
        int64_t first = cut.start(block), last = cut.start(block + 1);  // counted from the start of a span
        for (const Span& span : spans_) {
            if (span.prompt != prompt) continue;
            if (first < span.rows() && last > 0)
                multiply(span.first + std::max<int64_t>(0, first), span.first + std::min(span.rows(), last));
            first -= span.rows();
            last -= span.rows();
        }
    }

  private:
    static int64_t rows_of(std::span<const Span> spans, bool prompt) {
        int64_t rows = 0;
        for (const Span& span : spans) rows += span.prompt == prompt ? span.rows() : 0;
        return rows;
    }

    std::span<const Span> spans_;
    EvenlyCut prompts_, others_;
};

}  // namespace headrace
