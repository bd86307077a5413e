// Matrix products `rows x weight^T` with weights of several formats, two vectors of outputs at a time.
//
// A weight of [outputs, inputs] is stored in panels of outputs (packed by `native/packing.py`). With few rows, which
// are bound by memory, a panel is read as it is. With many it is expanded once into a scratch that stays in the cache
// and is used by all rows, unless the processor unpacks as fast as it multiplies. Either way each output is summed in
// the same order: a row's result is bit for bit the same, independent of the rows computed with it.
//
// Integers: an int4 weight is `code * scale + minimum` per group of 32 inputs, an int8 weight `code * scale`. The rows
// are rounded per group too, symmetrically, to 16 bits, to 8, or to 8 with outliers of 16 (`RowBits`, ADR 0083). Within
// a group sums are exact in integers; groups are added in float32. Rows of a prompt may be multiplied with weights that
// are rounded once more (`byte_panels.h`, `bfloat16_panels.h`): the caller says which, and they are computed
// separately.
#pragma once

#include <cstdint>
#include <type_traits>

#include "float_formats.h"

namespace headrace {

enum class Format : int32_t {
    kFloat32 = 0,
    kFloat16 = 1,
    kBFloat16 = 2,
    kInt8 = 3,
    kInt4 = 4,
    kUnsigned8 = 5,
};

// A group of int8 codes in memory: `code * scale`.
struct Int8Codes {
    using Kind = Pairs;
    static constexpr bool kAffine = false;
    static constexpr bool kTiled = false;

    int8_t codes[kGroup / 2][2 * kPanel];  // [pair of inputs][output, input]
    uint16_t scales[kPanel];               // float16

    int code(int64_t output, int64_t input) const { return codes[input / 2][2 * output + input % 2]; }
    Halves load(int pair) const { return byte_pairs(codes[pair]); }
    Floats scale(int half) const { return Float16::load(scales + half * kWidth); }
    Floats minimum(int) const { return zero(); }
};

// A group of int8 codes for rows of bytes: unsigned, `(code - 128) * scale`.
struct UnsignedCodes {
    using Kind = ByteQuads;
    static constexpr bool kAffine = true;
    static constexpr bool kTiled = true;  // in the layout of AMX

    uint8_t codes[kGroup / 4][4 * kPanel];  // [quad of inputs][output, input]
    uint16_t scales[kPanel];                // float16

    int code(int64_t output, int64_t input) const { return codes[input / 4][4 * output + input % 4]; }
    Halves load(int quad) const { return halves(codes[quad]); }
    Floats scale(int half) const { return Float16::load(scales + half * kWidth); }
    Floats minimum(int half) const { return scale(half) * broadcast(-128.0f); }
};

// A group of int4 codes in memory: `code * scale + minimum`.
struct Int4Codes {
    using Kind = Quads;
    static constexpr bool kAffine = true;
    static constexpr bool kTiled = false;
    static constexpr float kLargest = 15.0f;

    // [quad of inputs][half of the outputs x inputs]; low bits: left half of the panel, high bits: right.
    uint8_t codes[kGroup / Kind::kInputs][kWidth * Kind::kInputs];
    uint16_t scales[kPanel];  // float16
    uint16_t minimums[kPanel];

    int code(int64_t output, int64_t input) const {
        const int both = codes[input / Kind::kInputs][output % kWidth * Kind::kInputs + input % Kind::kInputs];
        return output < kWidth ? both & 15 : both >> 4;
    }
    Halves load(int step) const { return nibble_quads(codes[step]); }
    Floats scale(int half) const { return Float16::load(scales + half * kWidth); }
    Floats minimum(int half) const { return Float16::load(minimums + half * kWidth); }
};

// A group of codes of any kind, expanded.
template <class RowKind>
struct UnpackedCodes {
    Halves codes[kGroup / RowKind::kInputs];
    float scales[kPanel];
    float minimums[kPanel];

    const Halves& load(int step) const { return codes[step]; }
    Floats scale(int half) const { return headrace::load(scales + half * kWidth); }
    Floats minimum(int half) const { return headrace::load(minimums + half * kWidth); }
};

// A format of integer codes for rows of `bits`; one `Codes` is a panel of 32 inputs.
template <class Codes, RowBits bits>
struct IntegerFormat {
    using Kind = typename Codes::Kind;
    using Group = std::conditional_t<Kind::kBytes, ByteGroup<bits>, PairGroup>;
    using Unpacked = UnpackedCodes<Kind>;
    static constexpr int kSteps = kGroup / Kind::kInputs;
    static constexpr bool kPreparesRows = true;
    static constexpr bool kUsesTiles = kHasTiles && Kind::kBytes;
    static constexpr bool kExpands = kUsesTiles ? !Codes::kTiled : !kUnpacksForFree;
    static constexpr int kTile = kIntegerTile;  // rows that share a load of the weights

    static int64_t panel_bytes(int64_t inputs) { return inputs / kGroup * sizeof(Codes); }

    static int64_t row_bytes(int64_t inputs) { return inputs / kGroup * sizeof(Group); }

    static void prepare(const Rows& rows, int64_t row, int64_t inputs) {
        const float* x = rows.values + row * inputs;
        Group* to = rows.groups<Group>(row, inputs);
        for (int64_t group = 0; group < inputs / kGroup; ++group) round_to_codes(x + group * kGroup, to[group]);
    }

    struct AsStored {
        static constexpr int64_t kTileBytes = kUsesTiles && Codes::kTiled ? kGroup : 0;
        const Codes* groups;
        int64_t ahead;
        const Codes& group(int64_t index) const { return groups[index]; }
        void prefetch_ahead(int64_t index) const {
            if (ahead) prefetch(reinterpret_cast<const char*>(groups + index) + ahead, sizeof(Codes));
        }
    };

    struct Expanded {
        static constexpr int64_t kTileBytes = kUsesTiles ? kGroup : 0;
        const Unpacked* groups;
        int64_t ahead = 0;
        const Unpacked& group(int64_t index) const { return groups[index]; }
        void prefetch_ahead(int64_t) const {}
    };

    static AsStored as_stored(const Packed& from) { return {static_cast<const Codes*>(from.panel), from.ahead}; }

    // Reads one output's weights.
    static void read_output(const void* panel, int64_t output, int64_t inputs, float* out) {
        alignas(64) float scales[kPanel], minimums[kPanel];
        const Codes* codes = static_cast<const Codes*>(panel);
        for (int64_t group = 0; group < inputs / kGroup; ++group, ++codes) {
            for (int half = 0; half < 2; ++half) {
                store(scales + half * kWidth, codes->scale(half));
                store(minimums + half * kWidth, codes->minimum(half));
            }
            for (int64_t i = 0; i < kGroup; ++i) *out++ = codes->code(output, i) * scales[output] + minimums[output];
        }
    }

    static Expanded expand(const void* panel, int64_t inputs, void* scratch) {
        const Codes* from = static_cast<const Codes*>(panel);
        Unpacked* to = static_cast<Unpacked*>(scratch);
        for (int64_t group = 0; group < inputs / kGroup; ++group, ++from, ++to) {
            for (int step = 0; step < kSteps; ++step) to->codes[step] = from->load(step);
            for (int half = 0; half < 2; ++half) {
                store(to->scales + half * kWidth, from->scale(half));
                store(to->minimums + half * kWidth, from->minimum(half));
            }
        }
        return {static_cast<const Unpacked*>(scratch)};
    }

    template <int R, class Source>
    static void tile(const Rows& rows, int64_t row, int64_t inputs, const Source& source, Outputs (&out)[R]) {
        const int64_t groups = inputs / kGroup;
        const Group* x = rows.groups<Group>(row, inputs);
        Outputs sums[R];
        for (int r = 0; r < R; ++r) sums[r].half[0] = sums[r].half[1] = zero();
        for (int64_t group = 0; group < groups; ++group, ++x) {
            const auto& weight = source.group(group);
            source.prefetch_ahead(group);
            Ints exact[R][2];
            if constexpr (R == kTileRows) {
                multiply_tiles(x, groups, &weight.codes, exact);
            } else {
                multiply_group(weight, x, groups, exact);
            }
            for (int half = 0; half < 2; ++half) {
                const Floats weight_scale = weight.scale(half), minimum = weight.minimum(half);
                for (int r = 0; r < R; ++r) {
                    const Floats scale = weight_scale * broadcast(x[r * groups].scale);
                    Floats& sum = sums[r].half[half];
                    sum = fmadd(to_floats(exact[r][half]), scale, sum);
                    if constexpr (Codes::kAffine) sum = fmadd(minimum, broadcast(x[r * groups].sum), sum);
                }
            }
        }
        for (int r = 0; r < R; ++r) out[r] = sums[r];
    }

  private:
    // Multiplies a group of `R` rows, which are `groups` groups apart, with its weights.
    template <int R, class Weight>
    static inline __attribute__((always_inline)) void multiply_group(const Weight& weight, const Group* x,
                                                                     int64_t groups, Ints (&exact)[R][2]) {
        for (int r = 0; r < R; ++r) exact[r][0] = exact[r][1] = Ints{};
        if constexpr (Kind::kBytes && bits != RowBits::k8) {
            add_high(weight, x, groups, exact);
            for (int r = 0; r < R; ++r)
                for (int half = 0; half < 2; ++half) exact[r][half] = times_256(exact[r][half]);
        }
        add_products(weight, x->codes, groups * sizeof(Group), exact);
    }

    // Adds a group's products with the high bytes of `R` rows, whose groups are `stride` apart.
    template <int R, class Weight>
    static inline __attribute__((always_inline)) void add_high(const Weight& weight, const Group* x, int64_t stride,
                                                               Ints (&exact)[R][2]) {
        if constexpr (bits == RowBits::k16) {
            add_products(weight, x->high, stride * sizeof(Group), exact);
        } else {
            for (int r = 0; r < R; ++r) {
                const Group& row = x[r * stride];
                Ints sums[2] = {Kind::start(exact[r][0]), Kind::start(exact[r][1])};
                for (int i = 0; i < kOutliers; ++i) {
                    const Halves& codes = weight.load(row.outliers[i]);
                    const Ints value = broadcast(load_int32(row.high[i]));
                    sums[0] = in_place(Kind::add(sums[0], codes.left, value));
                    sums[1] = in_place(Kind::add(sums[1], codes.right, value));
                }
                for (int half = 0; half < 2; ++half) exact[r][half] = Kind::total(exact[r][half], sums[half]);
            }
        }
    }

    // Adds a group's products with codes of `R` rows, `stride` bytes apart, to the exact sums.
    template <int R, class Weight, class Code>
    static inline __attribute__((always_inline)) void add_products(const Weight& weight, const Code* codes,
                                                                   int64_t stride, Ints (&exact)[R][2]) {
        const char* x = reinterpret_cast<const char*>(codes);
        Ints sums[R][2];
        for (int r = 0; r < R; ++r)
            for (int half = 0; half < 2; ++half) sums[r][half] = Kind::start(exact[r][half]);
#pragma GCC unroll 8
        for (int step = 0; step < kSteps; ++step) {
            const Halves& word = weight.load(step);
            for (int r = 0; r < R; ++r) {
                const Ints value = broadcast(load_int32(x + r * stride + step * sizeof(int32_t)));
                sums[r][0] = in_place(Kind::add(sums[r][0], word.left, value));
                sums[r][1] = in_place(Kind::add(sums[r][1], word.right, value));
            }
        }
        for (int r = 0; r < R; ++r)
            for (int half = 0; half < 2; ++half) exact[r][half] = Kind::total(exact[r][half], sums[r][half]);
    }
};

// Computes tiles of rows with one panel of a format, stored or expanded.
template <class F, class Source>
struct Tiles {
    static constexpr int64_t kTileBytes = Source::kTileBytes;  // of a row, in a tile of AMX; 0: tiles are not used
    const Rows& rows;
    int64_t inputs;
    Source source;

    template <int R>
    void compute(int64_t row, Outputs (&out)[R]) {
        F::template tile<R>(rows, row, inputs, source, out);
        source.ahead = 0;
    }
};

template <class F, class Emit>
void multiply_panel(TileConfiguration& configuration, const Rows& rows, int64_t first, int64_t last, int64_t inputs,
                    const Packed& packed, void* scratch, const Emit& emit) {
    const auto multiply = [&](auto source) {
        Tiles<F, decltype(source)> tiles{rows, inputs, source};
        multiply_block<F::kTile>(configuration, tiles, first, last, emit);
    };
    if constexpr (F::kExpands) {
        constexpr int kFew = F::kUsesTiles ? kTileRows - 1 : F::kTile;
        if (last - first > kFew) return multiply(F::expand(packed.panel, inputs, scratch));
    }
    multiply(F::as_stored(packed));
}

// Calls `use` with an object of the class of an integer format.
template <class Codes, class Use>
auto with_bits(RowBits bits, const Use& use) {
    switch (bits) {
        case RowBits::k8: return use(IntegerFormat<Codes, RowBits::k8>{});
        case RowBits::k16: return use(IntegerFormat<Codes, RowBits::k16>{});
        default: return use(IntegerFormat<Codes, RowBits::kMixed>{});
    }
}

// Calls `use` with an object of the format's class; `bits`: of rows that are multiplied as bytes.
template <class Use>
auto with_format(Format format, RowBits bits, const Use& use) {
    switch (format) {
        case Format::kFloat16: return use(FloatFormat<Float16>{});
        case Format::kBFloat16: return use(BFloat16Format{});
        case Format::kInt8: return use(IntegerFormat<Int8Codes, RowBits::k16>{});
        case Format::kInt4: return with_bits<Int4Codes>(bits, use);
        case Format::kUnsigned8: return with_bits<UnsignedCodes>(bits, use);
        default: return use(FloatFormat<Float32>{});
    }
}

}  // namespace headrace
