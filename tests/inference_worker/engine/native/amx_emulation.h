// AMX's tile instructions in plain C++, as Intel's manual (volume 2) describes them, in place of the compiler's
// intrinsics: included before the kernels' sources. What would be an exception of the processor ends the process.
#pragma once

#include <immintrin.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbsud
#undef _tile_dpbf16ps

namespace headrace {

struct EmulatedTile {
    int rows, row_bytes;
    uint8_t data[16][64];
};

// A thread's tile registers; none is configured at first.
struct EmulatedTiles {
    bool configured = false;
    EmulatedTile tiles[8] = {};

    EmulatedTile& at(int tile) {
        if (!configured || tiles[tile].rows == 0 || tiles[tile].row_bytes == 0) std::abort();
        return tiles[tile];
    }
};

inline thread_local EmulatedTiles emulated;
inline std::atomic<bool> defective = false;     // whether products are wrong
inline std::atomic<int64_t> configurations = 0;  // loaded by all threads
inline std::atomic<int64_t> configured = 0;      // threads whose tiles are configured

// Palette 1: eight tiles of at most 16 rows and 64 bytes per row, zeros at first.
inline void _tile_loadconfig(const void* from) {
    uint8_t bytes[64];
    std::memcpy(bytes, from, sizeof bytes);
    if (bytes[0] != 1 || bytes[1] != 0) std::abort();
    for (int i = 2; i < 16; ++i)
        if (bytes[i]) std::abort();
    configured += !emulated.configured;
    ++configurations;
    emulated = EmulatedTiles{true};
    for (int tile = 0; tile < 16; ++tile) {
        uint16_t row_bytes;
        std::memcpy(&row_bytes, bytes + 16 + 2 * tile, sizeof row_bytes);
        const int rows = bytes[48 + tile];
        if (tile < 8 ? rows > 16 || row_bytes > 64 || !rows != !row_bytes : rows || row_bytes) std::abort();
        if (tile < 8) emulated.tiles[tile].rows = rows, emulated.tiles[tile].row_bytes = row_bytes;
    }
}

inline void _tile_release() {
    configured -= emulated.configured;
    emulated = EmulatedTiles{};
}

inline void _tile_zero(int tile) {
    auto& data = emulated.at(tile).data;
    std::memset(data, 0, sizeof data);
}

inline void _tile_loadd(int tile, const void* from, int64_t stride) {
    _tile_zero(tile);
    EmulatedTile& to = emulated.at(tile);
    for (int row = 0; row < to.rows; ++row)
        std::memcpy(to.data[row], static_cast<const char*>(from) + row * stride, to.row_bytes);
}

inline void _tile_stored(int tile, void* to, int64_t stride) {
    const EmulatedTile& from = emulated.at(tile);
    for (int row = 0; row < from.rows; ++row)
        std::memcpy(static_cast<char*>(to) + row * stride, from.data[row], from.row_bytes);
}

// Checks the sizes of the tiles of a product of 32-bit words.
inline void check_product(int sums, int left, int right) {
    const EmulatedTile &to = emulated.at(sums), &a = emulated.at(left), &b = emulated.at(right);
    if (sums == left || sums == right || left == right) std::abort();
    if (to.row_bytes % 4 || a.row_bytes % 4 || b.row_bytes % 4) std::abort();
    if (to.rows != a.rows || to.row_bytes != b.row_bytes || a.row_bytes / 4 != b.rows) std::abort();
}

// TDPBSUD: adds to each sum of 32 bits four products of signed bytes of `left` and unsigned ones of `right` at a time.
inline void _tile_dpbsud(int sums, int left, int right) {
    check_product(sums, left, right);
    EmulatedTile &to = emulated.at(sums), &a = emulated.at(left), &b = emulated.at(right);
    for (int m = 0; m < to.rows; ++m) {
        for (int k = 0; k < a.row_bytes / 4; ++k) {
            for (int n = 0; n < to.row_bytes / 4; ++n) {
                uint32_t sum;  // as in the processor, overflows wrap around
                std::memcpy(&sum, to.data[m] + 4 * n, sizeof sum);
                sum += defective;
                for (int i = 0; i < 4; ++i) sum += static_cast<int8_t>(a.data[m][4 * k + i]) * b.data[k][4 * n + i];
                std::memcpy(to.data[m] + 4 * n, &sum, sizeof sum);
            }
        }
    }
}

// Denormal numbers are zeros, as operands and as results.
inline float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

inline float from_bfloat16(const uint8_t* at) {
    uint16_t high;
    std::memcpy(&high, at, sizeof high);
    const uint32_t bits = uint32_t{high} << 16;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return flushed(x);
}

// TDPBF16PS: adds the products of even and of odd inputs by fused multiply-adds, each from zero on, then both sums to
// the sum of float32.
inline void _tile_dpbf16ps(int sums, int left, int right) {
    check_product(sums, left, right);
    EmulatedTile &to = emulated.at(sums), &a = emulated.at(left), &b = emulated.at(right);
    for (int m = 0; m < to.rows; ++m) {
        for (int n = 0; n < to.row_bytes / 4; ++n) {
            float parts[2] = {defective ? 1.0f : 0.0f, 0.0f};
            for (int k = 0; k < a.row_bytes / 4; ++k)
                for (int i = 0; i < 2; ++i)
                    parts[i] = flushed(std::fma(from_bfloat16(a.data[m] + 4 * k + 2 * i),
                                                from_bfloat16(b.data[k] + 4 * n + 2 * i), parts[i]));
            float sum;
            std::memcpy(&sum, to.data[m] + 4 * n, sizeof sum);
            sum = flushed(flushed(sum) + flushed(parts[0] + parts[1]));
            std::memcpy(to.data[m] + 4 * n, &sum, sizeof sum);
        }
    }
}

}  // namespace headrace

extern "C" __attribute__((weak)) void headrace_emulate_defect(bool defective) { headrace::defective = defective; }
extern "C" __attribute__((weak)) int64_t headrace_emulated_configurations() { return headrace::configurations; }
extern "C" __attribute__((weak)) int64_t headrace_emulated_users() { return headrace::configured; }
