// Int4 weights for the many rows of a prompt, on processors that multiply bytes: a panel is expanded to bytes with one
// scale per output, and 8-bit rows have one scale per 64 inputs. This halves a group's cost beside its products (two
// scales, a minimum); rounding the weights again changes the perplexity by a few thousandths (ADR 0044).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "linear.h"

namespace headrace {

// A panel of int4 weights as bytes: `code * scale + minimum` becomes `(byte - 128) * scale`, with one scale per output.
class BytePanel {
    using Format = IntegerFormat<Int4Codes, RowBits::k8>;  // of rows beside those that are multiplied with byte panels

  public:
    static constexpr int64_t kInputs = 64;  // inputs that share a row's scale; fewer at the end of a row

    static constexpr int64_t kTileBytes = kHasTiles ? kInputs : 0;
    static constexpr bool kUsesTiles = kHasTiles;
    static constexpr int kTile = kIntegerTile;

    static int64_t row_bytes(int64_t inputs) { return Format::row_bytes(inputs); }

    static int64_t scratch_bytes(int64_t inputs) { return padded(inputs) * kPanel + kPanel * sizeof(float); }

    // Quantises a row to bytes, followed by their scales and the sum of all rounded values.
    static void prepare(const Rows& rows, int64_t row, int64_t inputs) {
        const float* x = rows.values + row * inputs;
        int8_t* codes = codes_of(rows, row, inputs);
        float* scale = scales_of(codes, inputs);
        Floats total = zero();
        for (int64_t start = 0; start < inputs; start += kInputs, ++scale) {
            const int64_t end = std::min(inputs, start + kInputs);
            const float highest = peak(x + start, end - start);
            const Floats factor = broadcast(highest > 0 ? kLargestByte / highest : 0.0f);
            *scale = highest / kLargestByte;
            constexpr int kVectors = kGroup / kWidth;
            for (int64_t i = start; i < end; i += kGroup) {
                Ints whole[kVectors];
                for (int part = 0; part < kVectors; ++part) {
                    whole[part] = to_ints(load(x + i + part * kWidth) * factor);
                    total = fmadd(to_floats(whole[part]), broadcast(*scale), total);
                }
                narrow(whole, codes + i);
            }
        }
        *scale = sum(total);
    }

    BytePanel(const Packed& from, const Rows& rows, int64_t inputs, void* scratch)
        : rows_(rows), inputs_(inputs), bytes_(static_cast<uint8_t*>(scratch)),
          scales_(reinterpret_cast<float*>(bytes_ + padded(inputs) * kPanel)),
          wanted_(static_cast<const char*>(from.panel) + from.ahead),
          wanted_end_(wanted_ + inputs / kGroup * sizeof(Int4Codes)) {
        const Int4Codes* groups = static_cast<const Int4Codes*>(from.panel);
        for (int half = 0; half < 2; ++half) {
            const Floats factor = find_scale(groups, half);
            for (int64_t group = 0; group < inputs / kGroup; ++group)
                expand(groups[group], half, factor, bytes_ + group * kGroup * kPanel);
        }
        std::memset(bytes_ + inputs * kPanel, 0, (padded(inputs) - inputs) * kPanel);
    }

    template <int R>
    void compute(int64_t row, Outputs (&out)[R]) {
        prefetch_ahead();
        const int8_t* x = codes_of(rows_, row, inputs_);
        const float* scales = scales_of(x, inputs_);
        const int64_t stride = Format::row_bytes(inputs_);
        Floats sums[R][2];
        unrolled<R>([&](auto r) { sums[r][0] = sums[r][1] = zero(); });
        for (int64_t start = 0; start < inputs_; start += kInputs, ++scales) {
            Ints exact[R][2];
            if constexpr (R == kTileRows) {
                multiply_tiles(x + start, stride, bytes_ + start * kPanel, exact);
            } else {
                multiply_group(x + start, stride, start, exact);
            }
            unrolled<R>([&](auto r) {
                const Floats scale = broadcast(scales[r * stride / sizeof(float)]);
                sums[r][0] = fmadd(to_floats(exact[r][0]), scale, sums[r][0]);
                sums[r][1] = fmadd(to_floats(exact[r][1]), scale, sums[r][1]);
            });
        }
        const Floats left = load(scales_), right = load(scales_ + kWidth);
        unrolled<R>([&](auto r) {
            const Floats offset = broadcast(kOffset * scales[r * stride / sizeof(float)]);
            out[r] = {(sums[r][0] - offset) * left, (sums[r][1] - offset) * right};
        });
    }

  private:
    // Multiplies the inputs from `start` on that share a scale, of `R` rows that are `stride` bytes apart.
    template <int R>
    inline __attribute__((always_inline)) void multiply_group(const int8_t* x, int64_t stride, int64_t start,
                                                              Ints (&exact)[R][2]) const {
        unrolled<R>([&](auto r) { exact[r][0] = exact[r][1] = Ints{}; });
        for (int64_t group = start; group < std::min(inputs_, start + kInputs); group += kGroup, x += kGroup) {
            const uint8_t* weights = bytes_ + group * kPanel;
#pragma GCC unroll 8
            for (int64_t i = 0; i < kGroup; i += Quads::kInputs) {
                const Halves codes = halves(weights + i * kPanel);
                unrolled<R>([&](auto r) {
                    const Ints value = broadcast(load_int32(x + r * stride + i));
                    exact[r][0] = in_place(add_byte_quads(exact[r][0], codes.left, value));
                    exact[r][1] = in_place(add_byte_quads(exact[r][1], codes.right, value));
                });
            }
        }
    }

    static constexpr float kOffset = 128.0f, kFraction = 256.0f;  // bytes are computed with 8 fractional bits
    static constexpr float kMinimum = 1e-30f;                       // weights may be zeros
    static constexpr int64_t kFetched = 1024;  // bytes prefetched per tile: no more than arrive meanwhile

    static int8_t* codes_of(const Rows& rows, int64_t row, int64_t inputs) {
        return reinterpret_cast<int8_t*>(rows.codes + row * Format::row_bytes(inputs));
    }
    static float* scales_of(int8_t* codes, int64_t inputs) { return reinterpret_cast<float*>(codes + inputs); }
    static const float* scales_of(const int8_t* codes, int64_t inputs) {
        return reinterpret_cast<const float*>(codes + inputs);
    }

    // Returns the inputs of a panel, which has whole tiles. The weights of inputs that a row does not have are zero, so
    // the bytes after the codes of the row count for nothing.
    static int64_t padded(int64_t inputs) { return (inputs + kInputs - 1) / kInputs * kInputs; }

    void prefetch_ahead() {
        if (wanted_ == wanted_end_) return;
        const int64_t bytes = std::min(kFetched, wanted_end_ - wanted_);
        prefetch(wanted_, bytes);
        wanted_ += bytes;
    }

    // Writes the scales of half a panel; returns the factor for its weights.
    Floats find_scale(const Int4Codes* groups, int half) {
        Floats highest = broadcast(kMinimum);
        for (int64_t group = 0; group < inputs_ / kGroup; ++group) {
            const Floats minimum = groups[group].minimum(half);
            const Floats maximum = fmadd(groups[group].scale(half), broadcast(Int4Codes::kLargest), minimum);
            highest = max(highest, max(abs(minimum), abs(maximum)));
        }
        store(scales_ + half * kWidth, highest * broadcast(1.0f / kLargestByte));
        return broadcast(kLargestByte) / highest;
    }

    // Writes half a panel's bytes of a group, [quad of inputs][output, input]; quads are a panel apart.
    static void expand(const Int4Codes& from, int half, Floats factor, uint8_t* to) {
        const Floats fine = factor * broadcast(kFraction);
        const Ints scale = twice(to_ints(from.scale(half) * fine));
        const Ints start = twice(to_ints(fmadd(from.minimum(half), fine, broadcast((kOffset + 0.5f) * kFraction))));
        for (int step = 0; step < kGroup / Quads::kInputs; ++step, to += Quads::kInputs * kPanel) {
            const Halves codes = from.load(step);
            store(reinterpret_cast<int32_t*>(to) + half * kWidth,
                  scaled_bytes(half ? codes.right : codes.left, scale, start));
        }
    }

    Rows rows_;
    int64_t inputs_;
    uint8_t* bytes_;
    float* scales_;
    const char *wanted_, *wanted_end_;  // the part of a later panel that is not prefetched yet
};

// Whether products of prompts with a format use byte panels.
template <class F>
constexpr bool kUsesBytePanels = kMultipliesBytes && std::is_same_v<F, IntegerFormat<Int4Codes, RowBits::k8>>;

}  // namespace headrace
