// Storage formats of a head's key or value in the cache: floats, or bytes followed by their scale.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd.h"

namespace headrace {

template <class Number>
struct FloatVector {
    using Stored = typename Number::Stored;
    static constexpr bool kScaled = false;

    // Number of `Stored` elements of a vector of `size` numbers.
    static int64_t length(int64_t size) { return size; }

    static Floats load(const Stored* from) { return Number::load(from); }
    static float scale(const Stored*, int64_t) { return 1.0f; }

    static void store(const float* x, int64_t size, Stored* to) {
        for (int64_t d = 0; d < size; d += kWidth) Number::store(to + d, headrace::load(x + d));
    }
};

struct ByteVector {
    using Stored = int8_t;
    static constexpr bool kScaled = true;

    static int64_t length(int64_t size) { return size + sizeof(float); }

    // Loads codes as floats, without applying the scale.
    static Floats load(const Stored* from) { return load_int8(from); }

    static float scale(const Stored* vector, int64_t size) {
        float scale;
        std::memcpy(&scale, vector + size, sizeof scale);
        return scale;
    }

    static void store(const float* x, int64_t size, Stored* to) {
        const float highest = peak(x, size), scale = highest / kLargest;
        const Floats factor = broadcast(highest > 0 ? kLargest / highest : 0.0f);
        for (int64_t d = 0; d < size; d += kWidth) store_int8(to + d, to_ints(headrace::load(x + d) * factor));
        std::memcpy(to + size, &scale, sizeof scale);
    }

  private:
    static constexpr float kLargest = 127.0f;
};

}  // namespace headrace
