// Products by AMX, whose tile registers hold 16 rows of up to 64 bytes: one instruction multiplies two of them. Sums of
// bytes are exact, so they are those of the vector instructions; sums of bfloat16 are rounded in an order of their own.
// The kernel must have permitted the use (`native/amx.py`).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "row_codes.h"

namespace headrace {

constexpr int kTileRows = 16;  // rows of a tile register

#if defined(__AMX_INT8__)
constexpr bool kHasTiles = true;

// The configuration of the calling thread's tiles: 0 to 3 for sums, 4 and 5 for rows, 6 and 7 for weights. They are
// released when a product ends; threads that wait for others to end it keep them.
class TileConfiguration {
  public:
    TileConfiguration() = default;
    ~TileConfiguration() {
        if (rows_) _tile_release();
    }
    TileConfiguration(const TileConfiguration&) = delete;

    // Configures the tiles for products of `rows` rows, 32 at most, over `bytes` bytes of inputs, 64 at most: 16 rows
    // in tiles 0, 1 and 4, and the others in 2, 3 and 5. Loading a configuration takes as long as a dozen products.
    void configure(int64_t rows, int64_t bytes) {
        if (rows == rows_ && bytes == bytes_) return;
        rows_ = rows;
        bytes_ = bytes;
        Layout layout;
        const int64_t upper = std::min<int64_t>(rows, kTileRows);
        for (int sums : {0, 1}) layout.set(sums, upper, sizeof(Ints));
        layout.set(4, upper, bytes);
        if (const int64_t lower = rows - upper) {
            for (int sums : {2, 3}) layout.set(sums, lower, sizeof(Ints));
            layout.set(5, lower, bytes);
        }
        for (int weights : {6, 7}) layout.set(weights, bytes / 4, sizeof(Ints));
        std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler knows only of some bytes that are read
        _tile_loadconfig(&layout);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }

  private:
    struct alignas(64) Layout {
        uint8_t palette = 1, first_row = 0, reserved[14] = {};
        uint16_t row_bytes[16] = {};
        uint8_t rows[16] = {};

        void set(int tile, int64_t count, int64_t bytes) {
            rows[tile] = count;
            row_bytes[tile] = bytes;
        }
    };

    int64_t rows_ = 0, bytes_ = 0;  // as configured; 0: not
};

// Multiplies 16 rows of signed bytes, `stride` bytes apart, with the unsigned bytes of a panel: [quad of inputs]
// [output, input].
inline void multiply_tiles(const int8_t* rows, int64_t stride, const void* weights, Ints (&sums)[kTileRows][2]) {
    constexpr int64_t kHalf = sizeof(Ints);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler does not know that memory is read
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(4, rows, stride);
    _tile_loadd(6, weights, 2 * kHalf);
    _tile_dpbsud(0, 4, 6);
    _tile_loadd(7, static_cast<const char*>(weights) + kHalf, 2 * kHalf);
    _tile_dpbsud(1, 4, 7);
    _tile_stored(0, &sums[0][0], 2 * kHalf);
    _tile_stored(1, &sums[0][1], 2 * kHalf);
}

// Multiplies a group of 16 rows, which are `groups` groups apart, with its weights.
template <RowBits bits>
void multiply_tiles(const ByteGroup<bits>* rows, int64_t groups, const void* weights, Ints (&sums)[kTileRows][2]) {
    const int64_t stride = groups * sizeof(ByteGroup<bits>);
    multiply_tiles(rows->codes, stride, weights, sums);
    if constexpr (bits != RowBits::k8) {
        Ints high[kTileRows][2];
        if constexpr (bits == RowBits::k16) {
            multiply_tiles(rows->high, stride, weights, high);
        } else {
            alignas(64) __m256i quads[kTileRows];  // of high bytes: zeros, except for outliers
            for (int r = 0; r < kTileRows; ++r) {
                const ByteGroup<bits>& row = rows[r * groups];
                quads[r] = _mm256_setzero_si256();
                for (int i = 0; i < kOutliers; ++i)
                    quads[r] = _mm256_mask_set1_epi32(quads[r], 1 << row.outliers[i], load_int32(row.high[i]));
            }
            multiply_tiles(reinterpret_cast<const int8_t*>(quads), kGroup, weights, high);
        }
        for (int r = 0; r < kTileRows; ++r)
            for (int half = 0; half < 2; ++half) sums[r][half] = add(times_256(high[r][half]), sums[r][half]);
    }
}

// Multiplies the configured number of rows of bfloat16, `stride` bytes apart, with a panel: [pair of inputs]
// [output, input]. If `R` is 32, more than 16 rows are configured, which share each load of weights: four products by
// four loads, instead of two by three. `prefetch(group)` is called before each group of 32 inputs.
template <int R, class Prefetch>
void multiply_tiles(const char* rows, int64_t stride, int64_t groups, const char* weights, void* sums,
                    const Prefetch& prefetch) {
    constexpr int64_t kHalf = sizeof(Ints), kPair = 2 * kHalf, kGroupBytes = kGroup * sizeof(uint16_t);
    constexpr bool kBoth = R > kTileRows;
    static_assert(R == kTileRows || R == 2 * kTileRows);
    const char* lower = rows + kTileRows * stride;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler does not know that memory is read
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kBoth) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t group = 0; group < groups; ++group, weights += kGroup / 2 * kPair) {
        prefetch(group);
        _tile_loadd(4, rows + group * kGroupBytes, stride);
        _tile_loadd(6, weights, kPair);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, weights + kHalf, kPair);
        _tile_dpbf16ps(1, 4, 7);
        if constexpr (kBoth) {
            _tile_loadd(5, lower + group * kGroupBytes, stride);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    char* to = static_cast<char*>(sums);
    _tile_stored(0, to, kPair);
    _tile_stored(1, to + kHalf, kPair);
    if constexpr (kBoth) {
        _tile_stored(2, to + kTileRows * kPair, kPair);
        _tile_stored(3, to + kTileRows * kPair + kHalf, kPair);
    }
}
#else
constexpr bool kHasTiles = false;

struct TileConfiguration {
    void configure(int64_t, int64_t) {}
};
#endif

}  // namespace headrace
