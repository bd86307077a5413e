// Divides the rows of a product into tiles, whose rows share a load of the weights of a panel.
#pragma once

#include <algorithm>
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

// Prefetches `bytes` into the L2 cache: data that is needed much later would evict data from the L1 cache that is in
// use.
inline void prefetch(const void* from, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(from) + at, 0, 2);
}

// Prefetches memory that is going to be written.
inline void prefetch_for_write(void* to, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<char*>(to) + at, 1);
}

// A packed panel. The first tile of rows that uses it prefetches another panel, `ahead` bytes further on.
struct Packed {
    const void* panel;
    int64_t ahead;  // 0: no prefetch
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

// Calls `emit` for each row from `first` to `last`, at most `R`, by tiles of AMX that are configured for as many.
template <int R, class Tiles, class Emit>
void multiply_rest(TileConfiguration& configuration, Tiles& tiles, int64_t first, int64_t last, const Emit& emit) {
    configuration.configure(last - first, Tiles::kTileBytes);
    for (int64_t row = first; row < last; ++row) emit.expect(row);
    Outputs sums[R];
    tiles.template compute<R>(first, sums);
    for (int64_t row = first; row < last; ++row) emit(row, sums[row - first]);
}

// The same as `multiply_rows` in tiles of `R` rows and fewer, after those of AMX if the weights are in its layout. If
// `R` rows fill tiles of AMX, the rest are computed in tiles too.
template <int R, class Tiles, class Emit>
void multiply_block(TileConfiguration& configuration, Tiles& tiles, int64_t first, int64_t last, const Emit& emit) {
    if constexpr (Tiles::kTileBytes > 0) {
        constexpr int kRows = std::max(R, kTileRows);
        if (last - first >= kRows) {
            configuration.configure(kRows, Tiles::kTileBytes);
            multiply_rows<kRows, kRows>(tiles, first, last, emit);
            first = last - (last - first) % kRows;
        }
    }
    if constexpr (R < kTileRows) {
        multiply_rows<R>(tiles, first, last, emit);
    } else if (last - first > kTileRows) {
        multiply_rest<R>(configuration, tiles, first, last, emit);
    } else if (first < last) {
        multiply_rest<kTileRows>(configuration, tiles, first, last, emit);
    }
}

}  // namespace headrace
