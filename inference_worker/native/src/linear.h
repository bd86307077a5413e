// Matrix products `rows x weight^T` with weights in four formats, 16 output columns at a time. Knows no model.
//
// A weight of [outputs, inputs] lies in panels of 16 outputs (`native/packing.py` lays them out). With few rows a panel is
// read as it is, for memory is what they wait for. With many it is expanded once into a scratch that stays in the cache,
// and all rows pass over it. Either way each output is summed in the same order: a row's result is the same to the bit
// whatever rows are computed beside it.
//
// Integers: an int4 weight is `code * scale + minimum` per group of 32 inputs, an int8 weight `code * scale`. The rows are
// rounded per group too, symmetrically, to 16 bits; beside int4 also to 8 on demand, as llama.cpp does. Within a group sums
// are exact in integers; groups are added up in float32.
#pragma once

#include <algorithm>
#include <cstdint>

#include "simd.h"

namespace headrace {

enum class Format : int32_t { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2, kInt8 = 3, kInt4 = 4, kInt4Rows8 = 5 };

constexpr int64_t kPanel = 16;  // outputs in a panel
constexpr int64_t kGroup = 32;  // inputs that share a scale

// Rows in the form that a format multiplies with; only the arrays it needs are used.
struct Rows {
    const float* values;  // [R, inputs]
    void* codes;          // [R, inputs] int16 or int8
    float* scales;        // [R, inputs / 32]
    float* sums;          // [R, inputs / 32]: of a group's rounded values
};

// The weights of some inputs for the left and the right 8 outputs of a panel.
struct Halves {
    __m256i left, right;
};

// Tells the compiler not to reorder the sums of an inner loop: it would spill them to the stack, at half the speed.
inline void keep_in_registers(__m256i (&sums)[2]) { asm("" : "+x"(sums[0]), "+x"(sums[1])); }

// The largest magnitude of a group.
inline float group_peak(const float* x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 peak = _mm256_andnot_ps(sign, _mm256_loadu_ps(x));
    for (int i = 8; i < kGroup; i += 8) peak = _mm256_max_ps(peak, _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)));
    return horizontal_max(peak);
}

template <class Number>
struct FloatFormat {
    using Stored = typename Number::Stored;
    static constexpr bool kQuantises = false;
    static constexpr int kTile = 6;  // rows that share a load of the weights: 12 sums fit the registers

    static int64_t panel_bytes(int64_t inputs) { return inputs * kPanel * sizeof(Stored); }
    static void prepare(const Rows&, int64_t, int64_t) {}

    struct Packed {
        const Stored* panel;
        __m256 load(int64_t input, int half) const { return Number::load(panel + input * kPanel + half * 8); }
    };

    struct Expanded {
        const float* panel;
        __m256 load(int64_t input, int half) const { return _mm256_loadu_ps(panel + input * kPanel + half * 8); }
    };

    static Packed packed(const void* panel) { return {static_cast<const Stored*>(panel)}; }

    static Expanded expand(const void* panel, int64_t inputs, void* scratch) {
        float* out = static_cast<float*>(scratch);
        const Stored* in = static_cast<const Stored*>(panel);
        for (int64_t i = 0; i < inputs * kPanel; i += 8) _mm256_storeu_ps(out + i, Number::load(in + i));
        return {out};
    }

    template <int R, class Source>
    static void tile(const Rows& rows, int64_t row, int64_t inputs, const Source& source, __m256 (&out)[R][2]) {
        const float* x[R];
        __m256 sums[R][2];  // its own, not the caller's: those the compiler would write to memory at every turn
        for (int r = 0; r < R; ++r) {
            x[r] = rows.values + (row + r) * inputs;
            sums[r][0] = sums[r][1] = _mm256_setzero_ps();
        }
        for (int64_t i = 0; i < inputs; ++i) {
            const __m256 left = source.load(i, 0), right = source.load(i, 1);
            for (int r = 0; r < R; ++r) {
                const __m256 value = _mm256_broadcast_ss(x[r] + i);
                sums[r][0] = _mm256_fmadd_ps(value, left, sums[r][0]);
                sums[r][1] = _mm256_fmadd_ps(value, right, sums[r][1]);
            }
        }
        for (int r = 0; r < R; ++r) out[r][0] = sums[r][0], out[r][1] = sums[r][1];
    }
};

// Rows of 16-bit codes: two inputs of an output lie side by side in the weights.
struct Pairs {
    using Code = int16_t;
    static constexpr int kInputs = 2;
    static constexpr float kLargest = 32767.0f;

    static __m256i add_product(__m256i sum, __m256i weight, __m256i row) {
        return _mm256_add_epi32(sum, _mm256_madd_epi16(weight, row));
    }
    static __m256i total(__m256i sum) { return sum; }
    static void store(__m256i (&values)[4], Code* to) {
        for (int i = 0; i < 2; ++i) {
            const __m256i both = _mm256_packs_epi32(values[2 * i], values[2 * i + 1]);
            _mm256_storeu_si256((__m256i*)(to + 16 * i), _mm256_permute4x64_epi64(both, 0b11011000));
        }
    }
};

// Rows of 8-bit codes: four inputs of an output lie side by side, as unsigned weights of 4 bits. The 16-bit sums can't
// overflow: the 16 products that a lane gets, of codes of at most 15 and 127, make at most 30,480.
struct Quads {
    using Code = int8_t;
    static constexpr int kInputs = 4;
    static constexpr float kLargest = 127.0f;

    static __m256i add_product(__m256i sum, __m256i weight, __m256i row) {
        return _mm256_add_epi16(sum, _mm256_maddubs_epi16(weight, row));
    }
    static __m256i total(__m256i sum) { return _mm256_madd_epi16(sum, _mm256_set1_epi16(1)); }
    static void store(__m256i (&values)[4], Code* to) {
        const __m256i words = _mm256_packs_epi16(_mm256_packs_epi32(values[0], values[1]),
                                                 _mm256_packs_epi32(values[2], values[3]));
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_storeu_si256((__m256i*)to, _mm256_permutevar8x32_epi32(words, order));
    }
};

// Int8 codes as they lie in memory: `code * scale`.
struct Int8Codes {
    using Kind = Pairs;
    static constexpr bool kAffine = false;

    int8_t codes[kGroup / 2][2][16];  // [pair of inputs][half of the panel][8 outputs x 2 inputs]
    uint16_t scales[kPanel];          // float16

    Halves load(int pair) const {
        const __m128i* at = (const __m128i*)codes[pair];
        return {_mm256_cvtepi8_epi16(_mm_loadu_si128(at)), _mm256_cvtepi8_epi16(_mm_loadu_si128(at + 1))};
    }
    __m256 scale(int half) const { return Float16::load(scales + half * 8); }
    __m256 minimum(int) const { return _mm256_setzero_ps(); }
};

// Int4 codes as they lie in memory: `code * scale + minimum`.
template <class RowKind>
struct Int4Codes {
    using Kind = RowKind;
    static constexpr bool kAffine = true;

    // [pair or quad of inputs][8 outputs x inputs]; low bits: left half of the panel, high bits: right.
    uint8_t codes[kGroup / Kind::kInputs][8 * Kind::kInputs];
    uint16_t scales[kPanel];  // float16
    uint16_t minimums[kPanel];

    Halves load(int step) const {
        if constexpr (Kind::kInputs == 2) {
            const __m256i both = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)codes[step]));
            return {_mm256_and_si256(both, _mm256_set1_epi16(15)), _mm256_srli_epi16(both, 4)};
        } else {
            const __m256i both = _mm256_loadu_si256((const __m256i*)codes[step]), low = _mm256_set1_epi8(15);
            return {_mm256_and_si256(both, low), _mm256_and_si256(_mm256_srli_epi16(both, 4), low)};
        }
    }
    __m256 scale(int half) const { return Float16::load(scales + half * 8); }
    __m256 minimum(int half) const { return Float16::load(minimums + half * 8); }
};

// Codes of any kind, expanded.
template <class RowKind>
struct WideCodes {
    __m256i codes[kGroup / RowKind::kInputs][2];
    float scales[kPanel];
    float minimums[kPanel];

    Halves load(int step) const { return {codes[step][0], codes[step][1]}; }
    __m256 scale(int half) const { return _mm256_loadu_ps(scales + half * 8); }
    __m256 minimum(int half) const { return _mm256_loadu_ps(minimums + half * 8); }
};

// 16 outputs x 32 inputs are one `Codes`.
template <class Codes>
struct IntegerFormat {
    using Kind = typename Codes::Kind;
    using Wide = WideCodes<Kind>;
    static constexpr int kSteps = kGroup / Kind::kInputs;
    static constexpr bool kQuantises = true;
    static constexpr int kTile = 4;

    static int64_t panel_bytes(int64_t inputs) { return inputs / kGroup * sizeof(Codes); }

    static void prepare(const Rows& rows, int64_t row, int64_t inputs) {
        const int64_t groups = inputs / kGroup;
        const float* x = rows.values + row * inputs;
        auto* codes = static_cast<typename Kind::Code*>(rows.codes) + row * inputs;
        for (int64_t group = 0; group < groups; ++group, x += kGroup, codes += kGroup) {
            const float peak = group_peak(x);
            const __m256 factor = _mm256_set1_ps(peak > 0 ? Kind::kLargest / peak : 0.0f);
            __m256i part[4];
            for (int i = 0; i < 4; ++i) part[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i * 8), factor));
            Kind::store(part, codes);
            const float scale = peak / Kind::kLargest;
            rows.scales[row * groups + group] = scale;
            if constexpr (Codes::kAffine) {
                const __m256i sum =
                    _mm256_add_epi32(_mm256_add_epi32(part[0], part[1]), _mm256_add_epi32(part[2], part[3]));
                rows.sums[row * groups + group] = horizontal_sum(_mm256_cvtepi32_ps(sum)) * scale;
            }
        }
    }

    static const Codes* packed(const void* panel) { return static_cast<const Codes*>(panel); }

    static const Wide* expand(const void* panel, int64_t inputs, void* scratch) {
        const Codes* from = packed(panel);
        Wide* to = static_cast<Wide*>(scratch);
        for (int64_t group = 0; group < inputs / kGroup; ++group, ++from, ++to) {
            for (int step = 0; step < kSteps; ++step) {
                const Halves halves = from->load(step);
                to->codes[step][0] = halves.left;
                to->codes[step][1] = halves.right;
            }
            for (int half = 0; half < 2; ++half) {
                _mm256_storeu_ps(to->scales + half * 8, from->scale(half));
                _mm256_storeu_ps(to->minimums + half * 8, from->minimum(half));
            }
        }
        return static_cast<const Wide*>(scratch);
    }

    template <int R, class Source>
    static void tile(const Rows& rows, int64_t row, int64_t inputs, const Source* weight, __m256 (&out)[R][2]) {
        const int64_t groups = inputs / kGroup;
        const auto* x = static_cast<const typename Kind::Code*>(rows.codes) + row * inputs;
        const float* scales = rows.scales + row * groups;
        const float* row_sums = rows.sums + row * groups;
        __m256 sums[R][2];
        for (int r = 0; r < R; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_ps();
        for (int64_t group = 0; group < groups; ++group, x += kGroup, ++scales, ++row_sums, ++weight) {
            __m256i exact[R][2];
            for (int r = 0; r < R; ++r) exact[r][0] = exact[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 8
            for (int step = 0; step < kSteps; ++step) {
                const Halves halves = weight->load(step);
                for (int r = 0; r < R; ++r) {
                    const __m256i value = _mm256_set1_epi32(load_int32(x + r * inputs + step * Kind::kInputs));
                    exact[r][0] = Kind::add_product(exact[r][0], halves.left, value);
                    exact[r][1] = Kind::add_product(exact[r][1], halves.right, value);
                    keep_in_registers(exact[r]);
                }
            }
            for (int half = 0; half < 2; ++half) {
                const __m256 weight_scale = weight->scale(half), minimum = weight->minimum(half);
                for (int r = 0; r < R; ++r) {
                    const __m256 scale = _mm256_mul_ps(weight_scale, _mm256_broadcast_ss(scales + r * groups));
                    const __m256 product = _mm256_cvtepi32_ps(Kind::total(exact[r][half]));
                    sums[r][half] = _mm256_fmadd_ps(product, scale, sums[r][half]);
                    if constexpr (Codes::kAffine) {
                        const __m256 row_sum = _mm256_broadcast_ss(row_sums + r * groups);
                        sums[r][half] = _mm256_fmadd_ps(minimum, row_sum, sums[r][half]);
                    }
                }
            }
        }
        for (int r = 0; r < R; ++r) out[r][0] = sums[r][0], out[r][1] = sums[r][1];
    }
};

// Call `emit(row, left, right)` with the 16 outputs of each row from `first` to `last`.
template <class F, int R = F::kTile, class Source, class Emit>
void multiply_rows(const Rows& rows, int64_t first, int64_t last, int64_t inputs, const Source& source,
                   const Emit& emit) {
    for (; first + R <= last; first += R) {
        __m256 sums[R][2];
        F::template tile<R>(rows, first, inputs, source, sums);
        for (int r = 0; r < R; ++r) emit(first + r, sums[r][0], sums[r][1]);
    }
    if constexpr (R > 1) multiply_rows<F, R - 1>(rows, first, last, inputs, source, emit);
}

template <class F, class Emit>
void multiply_panel(const Rows& rows, int64_t first, int64_t last, int64_t inputs, const void* panel, void* scratch,
                    const Emit& emit) {
    if (last - first <= F::kTile) {
        multiply_rows<F>(rows, first, last, inputs, F::packed(panel), emit);
    } else {
        multiply_rows<F>(rows, first, last, inputs, F::expand(panel, inputs, scratch), emit);
    }
}

// Call `use` with an object of the format's class.
template <class Use>
auto with_format(Format format, const Use& use) {
    switch (format) {
        case Format::kFloat16: return use(FloatFormat<Float16>{});
        case Format::kBFloat16: return use(FloatFormat<BFloat16>{});
        case Format::kInt8: return use(IntegerFormat<Int8Codes>{});
        case Format::kInt4: return use(IntegerFormat<Int4Codes<Pairs>>{});
        case Format::kInt4Rows8: return use(IntegerFormat<Int4Codes<Quads>>{});
        default: return use(FloatFormat<Float32>{});
    }
}

}  // namespace headrace
