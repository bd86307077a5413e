// The panels that products of prompts use, and how many rows share one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "bfloat16_panels.h"
#include "byte_panels.h"
#include "spans.h"

namespace headrace {

constexpr int64_t kBlockBytes = (kHasTiles ? 1024 : 512) * 1024;  // bytes of rows that should stay in a core's L2 cache
constexpr int64_t kMinBlockRows = kHasTiles ? 128 : 32;  // that share a panel if no more fit the cache

// The panels that rows of prompts use: the format itself, unless it has others for them.
template <class F>
struct PromptPanels {
    using Panel = std::conditional_t<kUsesBytePanels<F>, BytePanel, F>;
};
#if defined(__AMX_BF16__)
template <class Codes>
struct PromptPanels<IntegerFormat<Codes, RowBits::kMixed>> {
    using Panel = BFloat16Panel<Codes>;
};
#endif
template <class F>
using PromptPanel = typename PromptPanels<F>::Panel;
template <class F>
constexpr bool kHasPromptPanels = !std::is_same_v<PromptPanel<F>, F>;

// Rounds a row to the codes that its product reads.
template <class F>
void prepare_row(const Rows& x, const Spans& spans, int64_t row, int64_t inputs) {
    if constexpr (kHasPromptPanels<F>) {
        if (of_prompt(spans, row)) return PromptPanel<F>::prepare(x, row, inputs);
    }
    F::prepare(x, row, inputs);
}

// The size of blocks of rows that are multiplied with panels of `F`.
template <class F>
BlockSize block_size(int64_t inputs) {
    return {kBlockBytes / F::row_bytes(inputs), kMinBlockRows,
            F::kUsesTiles ? std::max(F::kTile, kTileRows) : F::kTile};
}

}  // namespace headrace
