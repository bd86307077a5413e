// Integer weights for the rows of a prompt, on processors whose tiles multiply bfloat16: a panel is expanded to it,
// scales and minimums included, so that nothing is left to compute beside the products (ADR 0093).
#pragma once

#include <cstdint>

#include "linear.h"

namespace headrace {

#if defined(__AMX_BF16__)
// A panel of integer weights as bfloat16, in the layout of `BFloat16Format`.
template <class Codes>
class BFloat16Panel {
    using Format = BFloat16Format;

  public:
    static constexpr int64_t kTileBytes = Format::AsStored::kTileBytes;
    static constexpr bool kUsesTiles = Format::kUsesTiles;
    static constexpr int kTile = Format::kTile;

    static int64_t row_bytes(int64_t inputs) { return Format::row_bytes(inputs); }

    static void prepare(const Rows& rows, int64_t row, int64_t inputs) {
        Format::prepare(prompt_rows(rows), row, inputs);
    }

    BFloat16Panel(const Packed& from, const Rows& rows, int64_t inputs, void* scratch)
        : rows_(prompt_rows(rows)), inputs_(inputs), weights_{static_cast<const char*>(scratch), 0} {
        const Codes* group = static_cast<const Codes*>(from.panel);
        int32_t* to = static_cast<int32_t*>(scratch);
        for (int64_t i = 0; i < inputs; i += kGroup, ++group) {
            if (from.ahead) prefetch(reinterpret_cast<const char*>(group) + from.ahead, sizeof(Codes));
            const Floats scales[] = {group->scale(0), group->scale(1)};
            const Floats minimums[] = {group->minimum(0), group->minimum(1)};
            for (int quad = 0; quad < kGroup / Quads::kInputs; ++quad) {
                const Halves codes = group->load(quad);
                for (int pair = 0; pair < 2; ++pair, to += kPanel)
                    for (int half = 0; half < 2; ++half) {
                        const auto weight = [&](int input) {
                            const Ints code = byte_of(half ? codes.right : codes.left, 2 * pair + input);
                            return fmadd(to_floats(code), scales[half], minimums[half]);
                        };
                        headrace::store(to + half * kWidth, bfloat16_pairs(weight(0), weight(1)));
                    }
            }
        }
    }

    template <int R>
    void compute(int64_t row, Outputs (&out)[R]) {
        Format::tile(rows_, row, inputs_, weights_, out);
    }

  private:
    // Rows of prompts as the format reads them, apart from the codes of the other rows of a step.
    static Rows prompt_rows(const Rows& rows) { return {rows.values, rows.bfloat16, nullptr}; }

    Rows rows_;
    int64_t inputs_;
    Format::AsStored weights_;
};
#endif

}  // namespace headrace
