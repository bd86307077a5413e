// Divides the rows of a product into tiles, whose rows share a load of the weights of a panel.
#pragma once

#include <cstdint>

#include "amx.h"

namespace headrace {

constexpr int64_t kPanel = 2 * kWidth;  // outputs in a panel

// One row's outputs of one panel, the left and the right half.
struct Outputs {
    Floats half[2];

    void store(float* to) const {
        headrace::store(to, half[0]);
        headrace::store(to + kWidth, half[1]);
    }
    void add_to(float* to) const {
        headrace::store(to, load(to) + half[0]);
        headrace::store(to + kWidth, load(to + kWidth) + half[1]);
    }
};

// Calls `emit(row, outputs)` for each row from `first` to `last`, in tiles of `R` to `kLeast` rows, as far as they fill
// tiles; `emit.expect(row)` is called before a row is computed.
template <int R, int kLeast = 1, class Tiles, class Emit>
void multiply_rows(Tiles& tiles, int64_t first, int64_t last, const Emit& emit) {
    for (; first + R <= last; first += R) {
        for (int r = 0; r < R; ++r) emit.expect(first + r);
        Outputs sums[R];
        tiles.template compute<R>(first, sums);
        for (int r = 0; r < R; ++r) emit(first + r, sums[r]);
    }
    if constexpr (R > kLeast) multiply_rows<R - 1, kLeast>(tiles, first, last, emit);
}

// The same in tiles of `R` rows and fewer, after those of AMX if the weights are in its layout.
template <int R, class Tiles, class Emit>
void multiply_block(Tiles& tiles, int64_t first, int64_t last, const Emit& emit) {
    if constexpr (Tiles::kTileInputs > 0) {
        if (last - first >= kTileRows) {
            const TileUse use(Tiles::kTileInputs);
            multiply_rows<kTileRows, kTileRows>(tiles, first, last, emit);
            first = last - (last - first) % kTileRows;
        }
    }
    multiply_rows<R>(tiles, first, last, emit);
}

}  // namespace headrace
