// Weights of floating-point numbers. Rows are multiplied in float32, but with weights of bfloat16 they are rounded to
// it on processors that multiply it: two inputs at a time by AVX512-BF16, 32 by AMX (ADR 0092).
#pragma once

#include <cstdint>
#include <cstring>

#include "row_tiles.h"

namespace headrace {

template <class Number>
struct FloatFormat {
    using Stored = typename Number::Stored;
    static constexpr bool kPreparesRows = false;
    static constexpr bool kExpands = true;
    static constexpr bool kUsesTiles = false;
    static constexpr int kTile = 6;  // rows that share a load of the weights: 12 sums fit the registers

    static int64_t panel_bytes(int64_t inputs) { return inputs * kPanel * sizeof(Stored); }
    static int64_t row_bytes(int64_t inputs) { return inputs * sizeof(float); }
    static void prepare(const Rows&, int64_t, int64_t) {}

    struct AsStored {
        static constexpr int64_t kTileBytes = 0;
        const Stored* panel;
        int64_t ahead;
        Floats load(int64_t input, int half) const { return Number::load(panel + input * kPanel + half * kWidth); }
        void prefetch_ahead(int64_t input) const {
            const Stored* at = panel + input * kPanel;
            if (ahead) prefetch(reinterpret_cast<const char*>(at) + ahead, kPanel * sizeof(Stored));
        }
    };

    struct Expanded {
        static constexpr int64_t kTileBytes = 0;
        const float* panel;
        int64_t ahead = 0;
        Floats load(int64_t input, int half) const { return headrace::load(panel + input * kPanel + half * kWidth); }
        void prefetch_ahead(int64_t) const {}
    };

    static AsStored as_stored(const Packed& from) { return {static_cast<const Stored*>(from.panel), from.ahead}; }

    // Reads one output's weights.
    static void read_output(const void* panel, int64_t output, int64_t inputs, float* out) {
        const Stored* at = static_cast<const Stored*>(panel) + output / kWidth * kWidth;
        alignas(64) float some[kWidth];
        for (int64_t i = 0; i < inputs; ++i, at += kPanel) {
            store(some, Number::load(at));
            out[i] = some[output % kWidth];
        }
    }

    static Expanded expand(const void* panel, int64_t inputs, void* scratch) {
        float* out = static_cast<float*>(scratch);
        const Stored* in = static_cast<const Stored*>(panel);
        for (int64_t i = 0; i < inputs * kPanel; i += kWidth) store(out + i, Number::load(in + i));
        return {out};
    }

    template <int R, class Source>
    static void tile(const Rows& rows, int64_t row, int64_t inputs, const Source& source, Outputs (&out)[R]) {
        const float* x[R];
        Outputs sums[R];  // a local copy, because the compiler would write the caller's to memory in every iteration
        for (int r = 0; r < R; ++r) {
            x[r] = rows.values + (row + r) * inputs;
            sums[r].half[0] = sums[r].half[1] = zero();
        }
        for (int64_t i = 0; i < inputs; ++i) {
            source.prefetch_ahead(i);
            const Floats left = source.load(i, 0), right = source.load(i, 1);
            for (int r = 0; r < R; ++r) {
                const Floats value = broadcast(x[r][i]);
                sums[r].half[0] = fmadd(value, left, sums[r].half[0]);
                sums[r].half[1] = fmadd(value, right, sums[r].half[1]);
            }
        }
        for (int r = 0; r < R; ++r) out[r] = sums[r];
    }
};

#if defined(__AVX512BF16__)
constexpr bool kMultipliesBFloat16 = true;

// Weights and rows of bfloat16. AMX adds in another order than vectors do, so with it tiles compute all rows.
struct BFloat16Format {
    static constexpr bool kPreparesRows = true;
    static constexpr bool kExpands = false;
    static constexpr bool kUsesTiles = kHasTiles;
    static constexpr int kTile = kHasTiles ? 2 * kTileRows : 12;  // rows that share a load of the weights

    static int64_t panel_bytes(int64_t inputs) { return inputs * kPanel * sizeof(uint16_t); }
    // A cache line more than the inputs take: rows of a power of two would share sets of the caches.
    static int64_t row_bytes(int64_t inputs) { return inputs * sizeof(uint16_t) + kRowPadding; }

    static void prepare(const Rows& rows, int64_t row, int64_t inputs) {
        const float* x = rows.values + row * inputs;
        uint16_t* to = reinterpret_cast<uint16_t*>(rows.codes + row * row_bytes(inputs));
        for (int64_t i = 0; i < inputs; i += kWidth) store_bfloat16(to + i, load(x + i));
    }

    struct AsStored {
        static constexpr int64_t kTileBytes = kUsesTiles ? kGroup * sizeof(uint16_t) : 0;
        const char* pairs;  // [pair of inputs][output, input]
        int64_t ahead;

        Ints load(int64_t pair, int half) const {
            return headrace::load(reinterpret_cast<const int32_t*>(pairs + pair * kPairBytes) + half * kWidth);
        }
        void prefetch_ahead(int64_t pair, int64_t count = 1) const {
            if (ahead) prefetch(pairs + pair * kPairBytes + ahead, count * kPairBytes);
        }
    };

    static AsStored as_stored(const Packed& from) { return {static_cast<const char*>(from.panel), from.ahead}; }

    // Reads one output's weights.
    static void read_output(const void* panel, int64_t output, int64_t inputs, float* out) {
        const uint16_t* at = static_cast<const uint16_t*>(panel) + 2 * output;
        for (int64_t i = 0; i < inputs; ++i) {
            const uint32_t bits = uint32_t{at[i / 2 * 2 * kPanel + i % 2]} << 16;
            std::memcpy(out + i, &bits, sizeof bits);
        }
    }

    template <int R>
    static void tile(const Rows& rows, int64_t row, int64_t inputs, const AsStored& weights, Outputs (&out)[R]) {
        const int64_t stride = row_bytes(inputs);
        const char* x = rows.codes + row * stride;
#if defined(__AMX_BF16__)
        multiply_tiles<R>(x, stride, inputs / kGroup, weights.pairs, out,
                          [&](int64_t group) { weights.prefetch_ahead(group * kGroup / 2, kGroup / 2); });
#else
        Floats sums[R][2];
        unrolled<R>([&](auto r) { sums[r][0] = sums[r][1] = zero(); });
        for (int64_t pair = 0; pair < inputs / 2; ++pair, x += sizeof(int32_t)) {
            weights.prefetch_ahead(pair);
            const Ints left = weights.load(pair, 0), right = weights.load(pair, 1);
            unrolled<R>([&](auto r) {
                const Ints both = broadcast(load_int32(x + r * stride));
                sums[r][0] = in_place(add_bfloat16_pairs(sums[r][0], left, both));
                sums[r][1] = in_place(add_bfloat16_pairs(sums[r][1], right, both));
            });
        }
        unrolled<R>([&](auto r) { out[r] = {sums[r][0], sums[r][1]}; });
#endif
    }

  private:
    static constexpr int64_t kPairBytes = 2 * kPanel * sizeof(uint16_t);
};
#else
constexpr bool kMultipliesBFloat16 = false;
using BFloat16Format = FloatFormat<BFloat16>;
#endif

}  // namespace headrace
