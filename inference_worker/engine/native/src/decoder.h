// The forward pass of a decoder of the Llama family (`layers/decoder.py` is the same in PyTorch) and its operators,
// computed by a team of threads.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "attention.h"
#include "linear.h"
#include "spans.h"
#include "team.h"

namespace headrace {

// The fields of these structures are mirrored in `native/library.py`, which fills them.
struct Linear {
    int64_t format, inputs, outputs;  // outputs: whole panels
    const void* panels;
    const float* bias;  // or null
    RowBits bits;       // of rows that are multiplied as bytes; with 8 bits rows of prompts use byte panels
};

struct Norm {
    const float* weight;  // null: no normalisation
    float epsilon;
};

struct Layer {
    Norm input_norm, post_norm, query_norm, key_norm;
    Linear qkv, output, gate_up, down;  // the first half of each panel of gate_up are gates, the second the ups
    int64_t rotary, window;             // window 0: no sliding window
    void *keys, *values;
};

struct Cache {
    int64_t format, block_size;  // format: a floating-point `Format`, or kInt8
    int64_t bits;                // of numbers in attention in tiles: 32, or fewer (8) unless the cache is float32
};

struct Model {
    int64_t hidden, inner, layers;
    Heads heads;
    Norm final_norm;
    const Layer* layer;
    Cache cache;
};

// A bump allocator for activations, kept from step to step and grown when a step is larger.
class Workspace {
  public:
    void fit(int64_t bytes) {
        if (bytes > size_) {
            data_.reset(static_cast<char*>(std::aligned_alloc(64, padded(bytes))));
            size_ = data_ ? bytes : 0;
            if (!data_) throw std::bad_alloc();
        }
        used_ = 0;
    }

    template <class T>
    T* take(int64_t count) {
        char* at = data_.get() + used_;
        used_ += padded(count * sizeof(T));
        return reinterpret_cast<T*>(at);
    }

    void* start() const { return data_.get(); }

    static int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  private:
    struct Free {
        void operator()(char* data) const { std::free(data); }
    };
    std::unique_ptr<char, Free> data_;
    int64_t size_ = 0, used_ = 0;
};

// The destination of a product's outputs: rows `stride` floats apart, with `outputs_per_float` outputs per float.
struct Destination {
    float* start;
    int64_t stride, outputs_per_float = 1;
};

// The work of a layer: all rows of a step, or in the last layer those whose states are read.
struct Work {
    std::vector<AttentionTask> tasks;
    Spans spans;
};

class Kernels {
  public:
    explicit Kernels(int threads) : team_(threads), scratch_(threads) {}

    // Computes `out = x weight^T + bias`: x is [rows, inputs], out [rows, outputs].
    void linear(const Linear& weight, const float* x, int64_t rows, bool prompt, float* out);

    // Gathers rows of a weight, as in an embedding: `out` is [count, inputs].
    void gather(const Linear& weight, const int64_t* outputs, int64_t count, float* out);

    // Writes the step's keys and values to one layer's cache, then attends: query and out are [rows, query heads, head
    // size].
    void attention(const Heads& heads, const Cache& cache, void* keys, void* values, const Step& step,
                   const float* query, const float* key, const float* value, float scale,
                   const Weighting& weighting, float* out);

    // Computes all layers and the final norm. `x` is [rows, hidden]: embeddings in, final states out. cos, sin: [rows,
    // head size / 2]. Returns between two layers if `wakeup_fd` (a file descriptor; -1: none; -2: always) is readable.
    // Returns the number of computed layers; call it again with that as `first` to continue. Other steps may be
    // computed in between.
    int64_t decode(const Model& model, const Step& step, const float* cos, const float* sin, float* x, int64_t first,
                   int wakeup_fd);

  private:
    struct Buffers;

    void fit_scratch(int64_t bytes);
    static Buffers buffers(Workspace& space, const Model& model, int64_t rows);
    void decode_layer(const Model& model, const Layer& layer, const Step& step, const Spans& all, const Work& states,
                      const float* cos, const float* sin, const Buffers& activations, float* x, int rank);
    template <class Vector>
    void attend(const Step& step, const std::vector<AttentionTask>& tasks, const float* query, int64_t stride,
                const PagedSide<Vector>& keys, const PagedSide<Vector>& values, int64_t bits,
                const Weighting& weighting, float* out, int64_t out_stride, int rank);
    template <class Put>
    void multiply(const Linear& weight, const Rows& x, const Spans& spans, int rank, const Destination& destination,
                  const Put& put);
    template <class Use>
    void each_row(const Spans& spans, const Use& use);
    void prepare(const Linear& weight, const Rows& x, const Spans& spans);
    void normalise(const Norm& norm, const Linear& next, const float* x, const Spans& spans, const Rows& out);

    Team team_;
    Workspace space_;
    std::vector<Workspace> scratch_;  // one per thread
};

}  // namespace headrace
