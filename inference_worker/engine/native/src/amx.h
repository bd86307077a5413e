// Products by AMX, whose tile registers hold 16 rows of up to 64 bytes: one instruction multiplies two of them. Sums of
// bytes are exact, so they are those of the vector instructions; sums of bfloat16 are rounded in an order of their own.
// The kernel must have permitted the use (`native/amx.py`).
#pragma once

#include <atomic>
#include <cstdint>

#include "row_codes.h"

namespace headrace {

constexpr int kTileRows = 16;  // rows that are multiplied together

#if defined(__AMX_INT8__)
constexpr bool kHasTiles = true;

// Configures the calling thread's tiles for products of `rows` rows, 16 at most, over `bytes` bytes of inputs, 64 at
// most; the destructor releases them.
class TileUse {
  public:
    TileUse(int64_t rows, int64_t bytes) {
        Configuration use{};
        for (int sums : {0, 1}) use.set(sums, rows, sizeof(Ints));
        use.set(2, rows, bytes);
        for (int weights : {3, 4}) use.set(weights, bytes / 4, sizeof(Ints));
        std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler knows only of some bytes that are read
        _tile_loadconfig(&use);
    }
    ~TileUse() { _tile_release(); }
    TileUse(const TileUse&) = delete;

  private:
    struct Configuration {
        uint8_t palette = 1, first_row = 0, reserved[14] = {};
        uint16_t row_bytes[16] = {};
        uint8_t rows[16] = {};

        void set(int tile, int64_t count, int64_t bytes) {
            rows[tile] = count;
            row_bytes[tile] = bytes;
        }
    };
};

// Multiplies 16 rows of signed bytes, `stride` bytes apart, with the unsigned bytes of a panel: [quad of inputs]
// [output, input].
inline void multiply_tiles(const int8_t* rows, int64_t stride, const void* weights, Ints (&sums)[kTileRows][2]) {
    constexpr int64_t kHalf = sizeof(Ints);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler does not know that memory is read
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(2, rows, stride);
    _tile_loadd(3, weights, 2 * kHalf);
    _tile_loadd(4, static_cast<const char*>(weights) + kHalf, 2 * kHalf);
    _tile_dpbsud(0, 2, 3);
    _tile_dpbsud(1, 2, 4);
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
// [output, input]. `prefetch(group)` is called before each group of 32 inputs.
template <class Prefetch>
void multiply_tiles(const char* rows, int64_t stride, int64_t groups, const char* weights, void* sums,
                    const Prefetch& prefetch) {
    constexpr int64_t kHalf = sizeof(Ints), kPair = 2 * kHalf, kGroupBytes = kGroup * sizeof(uint16_t);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler does not know that memory is read
    _tile_zero(0);
    _tile_zero(1);
    for (int64_t group = 0; group < groups; ++group, weights += kGroup / 2 * kPair) {
        prefetch(group);
        _tile_loadd(2, rows + group * kGroupBytes, stride);
        _tile_loadd(3, weights, kPair);
        _tile_loadd(4, weights + kHalf, kPair);
        _tile_dpbf16ps(0, 2, 3);
        _tile_dpbf16ps(1, 2, 4);
    }
    _tile_stored(0, sums, kPair);
    _tile_stored(1, static_cast<char*>(sums) + kHalf, kPair);
}
#else
constexpr bool kHasTiles = false;

struct TileUse {
    TileUse(int64_t, int64_t) {}
};
#endif

}  // namespace headrace
