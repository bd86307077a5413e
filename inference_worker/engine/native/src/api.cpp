// The C interface that `native/library.py` calls through ctypes. Calls that can fail return null, or an error message.
#include <exception>

#include "decoder.h"

using namespace headrace;

namespace {

template <class Call>
const char* guarded(const Call& call) {
    try {
        call();
        return nullptr;
    } catch (const std::exception& error) {
        static thread_local char message[200];
        std::strncpy(message, error.what(), sizeof message - 1);
        return message;
    }
}

}  // namespace

extern "C" {

int64_t headrace_panel() { return kPanel; }

bool headrace_multiplies_bytes() { return kMultipliesBytes; }

bool headrace_multiplies_bfloat16() { return kMultipliesBFloat16; }

bool headrace_has_tiles() { return kHasTiles; }

const char* headrace_create(int threads, Kernels** kernels) {
    return guarded([&] { *kernels = new Kernels(threads); });
}

void headrace_destroy(Kernels* kernels) { delete kernels; }

const char* headrace_linear(Kernels* kernels, const Linear* weight, const float* x, int64_t rows, bool prompt,
                            float* out) {
    return guarded([&] { kernels->linear(*weight, x, rows, prompt, out); });
}

const char* headrace_gather(Kernels* kernels, const Linear* weight, const int64_t* outputs, int64_t count, float* out) {
    return guarded([&] { kernels->gather(*weight, outputs, count, out); });
}

const char* headrace_attention(Kernels* kernels, const Heads* heads, const Cache* cache, void* keys, void* values,
                               const Step* step, const float* query, const float* key, const float* value, float scale,
                               const Weighting* weighting, float* out) {
    return guarded(
        [&] { kernels->attention(*heads, *cache, keys, values, *step, query, key, value, scale, *weighting, out); });
}

const char* headrace_decode(Kernels* kernels, const Model* model, const Step* step, const float* cos, const float* sin,
                            float* x, int64_t first, int32_t wakeup_fd, int64_t* done) {
    return guarded([&] { *done = kernels->decode(*model, *step, cos, sin, x, first, wakeup_fd); });
}
}
