#include "decoder.h"

#include <poll.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <utility>

#include "prompt_panels.h"
#include "row_attention.h"
#include "tiled_attention.h"

namespace headrace {
namespace {

constexpr int64_t kChunkPanels = 32 / kPanel;     // panels per chunk of a product
constexpr int64_t kMinPiece = 1, kMaxPiece = 32;  // rows per piece of row-wise work
constexpr int64_t kPiecesPerThread = 4;           // pieces of row-wise work per thread, if there are enough rows

// Scratch for an expanded panel of any format.
int64_t scratch_bytes(int64_t inputs) {
    const int64_t integers = inputs / kGroup * sizeof(UnpackedCodes<Pairs>), floats = inputs * kPanel * sizeof(float);
    return std::max({integers, floats, BytePanel::scratch_bytes(inputs)});
}

int64_t attention_scratch_bytes(const Heads& heads) {
    using AnyVector = ByteVector;
    return std::max({TiledAttention<AnyVector, FloatNumbers>::scratch_floats(heads),
                     TiledAttention<AnyVector, NarrowNumbers>::scratch_floats(heads),
                     RowAttention<AnyVector>::scratch_floats(heads)}) *
           sizeof(float);
}

template <class Use>
void with_vector(int64_t format, const Use& use) {
    switch (static_cast<Format>(format)) {
        case Format::kFloat16: return use(FloatVector<Float16>{});
        case Format::kBFloat16: return use(FloatVector<BFloat16>{});
        case Format::kInt8: return use(ByteVector{});
        default: return use(FloatVector<Float32>{});
    }
}

template <class Vector>
PagedSide<Vector> paged(void* side, const Cache& cache, const Heads& heads) {
    return {static_cast<typename Vector::Stored*>(side), cache.block_size, heads};
}

// `weight * x / sqrt(mean(x^2) + epsilon)`; `size` is a multiple of 16.
void rms_norm(const Norm& norm, const float* x, int64_t size, float* out) {
    Floats squares = zero();
    for (int64_t i = 0; i < size; i += kWidth) {
        const Floats value = load(x + i);
        squares = fmadd(value, value, squares);
    }
    const Floats factor = broadcast(1.0f / std::sqrt(sum(squares) / size + norm.epsilon));
    for (int64_t i = 0; i < size; i += kWidth) store(out + i, load(x + i) * factor * load(norm.weight + i));
}

// Rotates dimension i with dimension i + size / 2 (Su et al. 2021, halves layout).
void rotate(float* head, int64_t size, const float* cos, const float* sin) {
    for (int64_t i = 0; i < size / 2; ++i) {
        const float first = head[i], second = head[size / 2 + i];
        head[i] = first * cos[i] - second * sin[i];
        head[size / 2 + i] = second * cos[i] + first * sin[i];
    }
}

// In place of a file descriptor, as in `native/step_interrupt.py`.
constexpr int never = -1, at_next_layer = -2;

// Whether a read from a file descriptor would not block.
bool readable(int descriptor) {
    pollfd asked{descriptor, POLLIN, 0};
    return poll(&asked, 1, 0) > 0;
}

void scale_by(float* x, int64_t count, float factor) {
    for (int64_t i = 0; i < count; i += kWidth) store(x + i, load(x + i) * broadcast(factor));
}

// Normalises and rotates query and key heads in place, scales the queries, and stores keys and values in the cache.
template <class Vector>
void position(const Model& model, const Layer& layer, const PagedSide<Vector>& keys, const PagedSide<Vector>& values,
              int64_t slot, const float* cos, const float* sin, float* qkv) {
    const Heads& heads = model.heads;
    for (int64_t head = 0; head < heads.query + heads.kv; ++head) {
        float* at = qkv + head * heads.size;
        const Norm& norm = head < heads.query ? layer.query_norm : layer.key_norm;
        if (norm.weight) rms_norm(norm, at, heads.size, at);
        if (layer.rotary) rotate(at, heads.size, cos, sin);
    }
    scale_by(qkv, heads.query * heads.size, 1.0f / std::sqrt(static_cast<float>(heads.size)));
    const float* key = qkv + heads.query * heads.size;
    keys.store(slot, key);
    values.store(slot, key + heads.kv * heads.size);
}

// Writes the outputs of a panel's rows to their destination, with the bias added.
template <class Put>
struct PanelOutputs {
    const float* bias;  // the panel's, or null
    float* start;
    int64_t stride, bytes;  // floats to the next row, and bytes written per row
    const Put& put;

    PanelOutputs(const Linear& weight, const Destination& destination, int64_t column, const Put& put)
        : bias(weight.bias ? weight.bias + column : nullptr),
          start(destination.start + column / destination.outputs_per_float),
          stride(destination.stride), bytes(kPanel / destination.outputs_per_float * sizeof(float)), put(put) {}

    void expect(int64_t row) const { prefetch_for_write(start + row * stride, bytes); }
    void operator()(int64_t row, Outputs out) const {
        if (bias)
            for (int half = 0; half < 2; ++half) out.half[half] += load(bias + half * kWidth);
        put(start + row * stride, out);
    }
};

// The most bytes of a row's codes, in any form.
int64_t row_code_bytes(int64_t inputs) { return inputs / kGroup * kMostGroupBytes + kRowPadding; }

// Bytes of a prompt's row of bfloat16, which integer weights are expanded for on AMX only.
int64_t bfloat16_row_bytes(int64_t inputs) { return kHasTiles ? BFloat16Format::row_bytes(inputs) : 0; }

// Lambdas instead of functions: each has its own type, so that products are compiled with it inlined.
constexpr auto store_at = [](float* to, const Outputs& out) { out.store(to); };
constexpr auto add_at = [](float* to, const Outputs& out) { out.add_to(to); };
constexpr auto store_gated = [](float* to, const Outputs& out) { store(to, silu(out.half[0]) * out.half[1]); };

}  // namespace

// The activations of a step. The quantised rows are overwritten for each product.
struct Kernels::Buffers {
    float *normed, *qkv, *mixed, *inner;
    char *codes, *bfloat16;

    Rows rows(const float* values) const { return {values, codes, bfloat16}; }
};

Kernels::Buffers Kernels::buffers(Workspace& space, const Model& model, int64_t rows) {
    const int64_t queries = model.heads.query * model.heads.size;
    const int64_t qkv = model.layer->qkv.outputs;
    const int64_t widest = std::max({model.hidden, model.inner, queries});
    const int64_t floats = model.hidden + qkv + queries + model.inner;
    space.fit(rows * (floats * sizeof(float) + row_code_bytes(widest) + bfloat16_row_bytes(widest)) + 6 * 64);
    Buffers taken{};
    taken.normed = space.take<float>(rows * model.hidden);
    taken.qkv = space.take<float>(rows * qkv);
    taken.mixed = space.take<float>(rows * queries);
    taken.inner = space.take<float>(rows * model.inner);
    taken.codes = space.take<char>(rows * row_code_bytes(widest));
    taken.bfloat16 = space.take<char>(rows * bfloat16_row_bytes(widest));
    return taken;
}

void Kernels::fit_scratch(int64_t bytes) {
    for (auto& scratch : scratch_) scratch.fit(bytes);
}

// Calls `use` with each row from the first span to the last, shared among the threads.
template <class Use>
void Kernels::each_row(const Spans& spans, const Use& use) {
    const int64_t first = spans.front().first, last = spans.back().last;
    const int64_t size = std::clamp((last - first) / (kPiecesPerThread * team_.size()), kMinPiece, kMaxPiece);
    team_.share(pieces(last - first, size), [&](int64_t piece) {
        const int64_t start = first + piece * size;
        for (int64_t row = start; row < std::min(last, start + size); ++row) use(row);
    });
}

void Kernels::prepare(const Linear& weight, const Rows& x, const Spans& spans) {
    with_format(static_cast<Format>(weight.format), weight.bits, [&](auto format) {
        using F = decltype(format);
        if (F::kPreparesRows) each_row(spans, [&](int64_t row) { prepare_row<F>(x, spans, row, weight.inputs); });
    });
}

void Kernels::normalise(const Norm& norm, const Linear& next, const float* x, const Spans& spans, const Rows& out) {
    const int64_t size = next.inputs;
    with_format(static_cast<Format>(next.format), next.bits, [&](auto format) {
        each_row(spans, [&](int64_t row) {
            rms_norm(norm, x + row * size, size, const_cast<float*>(out.values) + row * size);
            prepare_row<decltype(format)>(out, spans, row, size);
        });
    });
}

// Multiplies rows with a weight, its panels shared among the threads; `put(to, outputs)` writes one row's of a panel.
template <class Put>
void Kernels::multiply(const Linear& weight, const Rows& x, const Spans& spans, int rank,
                       const Destination& destination, const Put& put) {
    with_format(static_cast<Format>(weight.format), weight.bits, [&](auto format) {
        using F = decltype(format);
        using Panels = PromptPanel<F>;
        const Span all{spans.front().first, spans.back().last, false};
        const Blocks blocks(kHasPromptPanels<F> ? spans : std::span(&all, 1), block_size<Panels>(weight.inputs),
                            block_size<F>(weight.inputs));
        const int64_t panels = weight.outputs / kPanel, groups = pieces(panels, kChunkPanels);
        void* scratch = scratch_[rank].start();
        const int64_t panel_bytes = F::panel_bytes(weight.inputs);
        const int64_t ahead = team_.size() * kChunkPanels * panel_bytes;  // to this thread's next chunk, probably
        TileConfiguration configuration;
        team_.share(groups * blocks.count(), [&](int64_t chunk) {
            const int64_t block = chunk / groups;
            const int64_t start = chunk % groups * kChunkPanels;
            for (int64_t panel = start; panel < std::min(panels, start + kChunkPanels); ++panel) {
                const Packed packed{static_cast<const char*>(weight.panels) + panel * panel_bytes, ahead};
                const PanelOutputs emit(weight, destination, panel * kPanel, put);
                if constexpr (kHasPromptPanels<F>) {
                    if (blocks.of_prompts(block)) {
                        Panels tiles(packed, x, weight.inputs, scratch);
                        blocks.each(block, [&](int64_t first, int64_t last) {
                            multiply_block<Panels::kTile>(configuration, tiles, first, last, emit);
                        });
                        continue;
                    }
                }
                blocks.each(block, [&](int64_t first, int64_t last) {
                    multiply_panel<F>(configuration, x, first, last, weight.inputs, packed, scratch, emit);
                });
            }
        });
    });
}

void Kernels::linear(const Linear& weight, const float* x, int64_t rows, bool prompt, float* out) {
    if (rows == 0) return;
    space_.fit(rows * (row_code_bytes(weight.inputs) + bfloat16_row_bytes(weight.inputs)) + 2 * 64);
    char* codes = space_.take<char>(rows * row_code_bytes(weight.inputs));
    const Rows input{x, codes, space_.take<char>(rows * bfloat16_row_bytes(weight.inputs))};
    fit_scratch(scratch_bytes(weight.inputs));
    const Spans spans{{0, rows, prompt}};
    team_.run([&](int rank) {
        prepare(weight, input, spans);
        multiply(weight, input, spans, rank, {out, weight.outputs}, store_at);
    });
}

void Kernels::gather(const Linear& weight, const int64_t* outputs, int64_t count, float* out) {
    with_format(static_cast<Format>(weight.format), weight.bits, [&](auto format) {
        const int64_t panel_bytes = format.panel_bytes(weight.inputs);
        team_.run([&](int) {
            team_.share(pieces(count, kMinPiece), [&](int64_t chunk) {
                for (int64_t i = chunk * kMinPiece; i < std::min(count, (chunk + 1) * kMinPiece); ++i) {
                    const char* panel = static_cast<const char*>(weight.panels) + outputs[i] / kPanel * panel_bytes;
                    format.read_output(panel, outputs[i] % kPanel, weight.inputs, out + i * weight.inputs);
                }
            });
        });
    });
}

// Computes the attention tasks of one layer, shared among the threads. `query`, scaled, and `out` are [rows of the
// step, query heads, head size], rows `stride` and `out_stride` floats apart.
template <class Vector>
void Kernels::attend(const Step& step, const std::vector<AttentionTask>& tasks, const float* query, int64_t stride,
                     const PagedSide<Vector>& keys, const PagedSide<Vector>& values, int64_t bits,
                     const Weighting& weighting, float* out, int64_t out_stride, int rank) {
    float* scratch = static_cast<float*>(scratch_[rank].start());
    const int64_t count = tasks.size();
    team_.share(count, [&](int64_t index) {
        const AttentionTask& task = tasks[index];
        if (!task.tiled) {
            const int64_t next = index + team_.size();
            const AttentionTask* following = next < count && !tasks[next].tiled ? &tasks[next] : nullptr;
            RowAttention<Vector>(step, keys, values, weighting)
                .attend(task, following, query, stride, out, out_stride, scratch);
        } else {
            const int64_t queries_after = step.query_start[task.sequence + 1] - task.first;
            const auto attend = [&](auto attention) {
                attention.attend(task, query, stride, keys, values,
                                 step.block_tables + task.sequence * step.table_width,
                                 step.lengths[task.sequence] - queries_after, weighting, out, out_stride);
            };
            const bool rounds = !std::is_same_v<Vector, FloatVector<Float32>>;
            if (rounds && bits == 8) {
                attend(TiledAttention<Vector, NarrowNumbers>(keys.heads, scratch));
            } else {
                attend(TiledAttention<Vector, FloatNumbers>(keys.heads, scratch));
            }
        }
    });
}

void Kernels::attention(const Heads& heads, const Cache& cache, void* keys, void* values, const Step& step,
                        const float* query, const float* key, const float* value, float scale,
                        const Weighting& weighting, float* out) {
    const int64_t width = heads.query * heads.size, kv_width = heads.kv * heads.size;
    const auto tasks = attention_tasks(step, heads, team_.size());
    space_.fit(step.rows * width * sizeof(float) + 64);
    float* scaled = space_.take<float>(step.rows * width);
    fit_scratch(attention_scratch_bytes(heads));
    with_vector(cache.format, [&](auto vector) {
        using Vector = decltype(vector);
        const auto key_side = paged<Vector>(keys, cache, heads), value_side = paged<Vector>(values, cache, heads);
        team_.run([&](int rank) {
            team_.share(step.rows, [&](int64_t row) {
                std::copy_n(query + row * width, width, scaled + row * width);
                scale_by(scaled + row * width, width, scale);
                key_side.store(step.slots[row], key + row * kv_width);
                value_side.store(step.slots[row], value + row * kv_width);
            });
            attend<Vector>(step, tasks, scaled, width, key_side, value_side, cache.bits, weighting, out, width, rank);
        });
    });
}

int64_t Kernels::decode(const Model& model, const Step& step, const float* cos, const float* sin, float* x,
                        int64_t first, int wakeup_fd) {
    const Buffers activations = buffers(space_, model, step.rows);
    const int64_t widest = std::max({model.hidden, model.inner, model.heads.query * model.heads.size});
    fit_scratch(std::max(scratch_bytes(widest), attention_scratch_bytes(model.heads)));
    const auto work = [&](bool last_layer) {
        return Work{attention_tasks(step, model.heads, team_.size(), last_layer), spans_of(step, last_layer)};
    };
    const Work all = work(false), read = work(true);
    std::atomic<int64_t> end = model.layers;  // written within `share`, so that all threads see the same value after it
    team_.run([&](int rank) {
        for (int64_t layer = first; layer < model.layers; ++layer) {
            if (wakeup_fd != never && layer > first) {
                team_.share(1, [&](int64_t) {
                    if (wakeup_fd == at_next_layer || readable(wakeup_fd)) end = layer;
                });
                if (end == layer) return;
            }
            const Work& states = layer + 1 < model.layers ? all : read;
            decode_layer(model, model.layer[layer], step, all.spans, states, cos, sin, activations, x, rank);
        }
        each_row(all.spans, [&](int64_t row) {
            rms_norm(model.final_norm, x + row * model.hidden, model.hidden, x + row * model.hidden);
        });
    });
    return end;
}

// Computes one layer; every thread runs this, and `share` distributes the work and waits for all of it. Keys and values
// are stored for all rows, hidden states computed for those of `states`.
void Kernels::decode_layer(const Model& model, const Layer& layer, const Step& step, const Spans& all,
                           const Work& states, const float* cos, const float* sin, const Buffers& activations, float* x,
                           int rank) {
    const Heads& heads = model.heads;
    const int64_t hidden = model.hidden, qkv_width = layer.qkv.outputs;
    const Rows normed = activations.rows(activations.normed), mixed = activations.rows(activations.mixed);
    const Rows inner = activations.rows(activations.inner);
    normalise(layer.input_norm, layer.qkv, x, all, normed);
    multiply(layer.qkv, normed, all, rank, {activations.qkv, qkv_width}, store_at);
    with_vector(model.cache.format, [&](auto vector) {
        using Vector = decltype(vector);
        const auto keys = paged<Vector>(layer.keys, model.cache, heads);
        const auto values = paged<Vector>(layer.values, model.cache, heads);
        const int64_t turns = heads.size / 2;
        each_row(all, [&](int64_t row) {
            position(model, layer, keys, values, step.slots[row], cos + row * turns, sin + row * turns,
                     activations.qkv + row * qkv_width);
        });
        attend<Vector>(step, states.tasks, activations.qkv, qkv_width, keys, values, model.cache.bits,
                       {.window = layer.window}, activations.mixed, heads.query * heads.size, rank);
    });
    if (states.spans.empty()) return;
    prepare(layer.output, mixed, states.spans);
    multiply(layer.output, mixed, states.spans, rank, {x, hidden}, add_at);

    normalise(layer.post_norm, layer.gate_up, x, states.spans, normed);
    multiply(layer.gate_up, normed, states.spans, rank, {activations.inner, model.inner, 2}, store_gated);
    prepare(layer.down, inner, states.spans);
    multiply(layer.down, inner, states.spans, rank, {x, hidden}, add_at);
}

}  // namespace headrace
