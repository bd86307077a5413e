// Serves a library of the kernels to a process of another architecture: `served_kernels LIBRARY`, run by an emulator
// (`emulated_library.py`). Calls arrive at standard input as 13 words with addresses in the caller's memory, which this
// program asks for and writes to by messages at standard output, three words and data: see `Message`.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "decoder.h"

using namespace headrace;

namespace {

enum class Message : int64_t { kRead, kWrite, kReturn };  // address and size, and the data of a write; or a result
enum class Function : int64_t {
    kPanel, kMultipliesBytes, kMultipliesBFloat16, kCreate, kLinear, kGather, kAttention, kDecode
};

void receive(void* to, size_t bytes) {
    for (char* at = static_cast<char*>(to); bytes;) {
        const ssize_t count = read(STDIN_FILENO, at, bytes);
        if (count <= 0) std::_Exit(count == 0 ? EXIT_SUCCESS : EXIT_FAILURE);  // 0: the caller is done
        at += count;
        bytes -= count;
    }
}

void send(const void* from, size_t bytes) {
    for (const char* at = static_cast<const char*>(from); bytes;) {
        const ssize_t count = write(STDOUT_FILENO, at, bytes);
        if (count <= 0) std::_Exit(EXIT_FAILURE);
        at += count;
        bytes -= count;
    }
}

void send(Message message, int64_t first, int64_t second = 0) {
    const int64_t words[] = {static_cast<int64_t>(message), first, second};
    send(words, sizeof words);
}

template <class T>
T read_from(const T* there) {
    T value;
    send(Message::kRead, reinterpret_cast<int64_t>(there), sizeof value);
    receive(&value, sizeof value);
    return value;
}

// Copies of the caller's arrays, and of what they point to, for one call. The destructor writes changed ones back.
class Copies {
  public:
    ~Copies() {
        for (const Copy& copy : copies_) {
            if (!copy.changes) continue;
            send(Message::kWrite, copy.there, copy.bytes.size());
            send(copy.bytes.data(), copy.bytes.size());
        }
    }

    template <class T>
    T* array(T* there, int64_t count, bool changes = false) {
        if (!there) return nullptr;
        Copy& copy = copies_.emplace_back();
        copy.there = reinterpret_cast<int64_t>(there);
        copy.changes = changes;
        copy.bytes.resize(count * sizeof(T));
        send(Message::kRead, copy.there, copy.bytes.size());
        receive(copy.bytes.data(), copy.bytes.size());
        return reinterpret_cast<T*>(copy.bytes.data());
    }

    Linear linear(Linear weight) {
        const int64_t panel_bytes = with_format(static_cast<Format>(weight.format), weight.bits,
                                                [&](auto format) { return format.panel_bytes(weight.inputs); });
        weight.panels = array(static_cast<const char*>(weight.panels), weight.outputs / kPanel * panel_bytes);
        weight.bias = array(weight.bias, weight.outputs);
        return weight;
    }

    Norm norm(Norm norm, int64_t size) { return {array(norm.weight, size), norm.epsilon}; }

    Step step(Step step) {
        step.query_start = array(step.query_start, step.sequences + 1);
        step.lengths = array(step.lengths, step.sequences);
        step.block_tables = array(step.block_tables, step.sequences * step.table_width);
        step.slots = array(step.slots, step.rows);
        step.read_from = array(step.read_from, step.sequences);
        step.prompt_lengths = array(step.prompt_lengths, step.sequences);
        return step;
    }

    // Keys or values of one layer, up to the last block that the step uses.
    void* side(void* there, const Cache& cache, const Heads& heads, const Step& step) {
        int64_t last = 0;
        for (int64_t i = 0; i < step.sequences * step.table_width; ++i) last = std::max(last, step.block_tables[i]);
        for (int64_t i = 0; i < step.rows; ++i) last = std::max(last, step.slots[i] / cache.block_size);
        const int64_t vectors = (last + 1) * cache.block_size * heads.kv;
        return array(static_cast<char*>(there), vectors * vector_bytes(cache, heads), true);
    }

    Layer layer(Layer layer, const Model& model, const Step& step) {
        for (Linear* weight : {&layer.qkv, &layer.output, &layer.gate_up, &layer.down}) *weight = linear(*weight);
        for (Norm* each : {&layer.input_norm, &layer.post_norm}) *each = norm(*each, model.hidden);
        for (Norm* each : {&layer.query_norm, &layer.key_norm}) *each = norm(*each, model.heads.size);
        for (void** each : {&layer.keys, &layer.values}) *each = side(*each, model.cache, model.heads, step);
        return layer;
    }

  private:
    struct Copy {
        int64_t there;
        bool changes;
        std::vector<char> bytes;
    };

    static int64_t vector_bytes(const Cache& cache, const Heads& heads) {
        switch (static_cast<Format>(cache.format)) {
            case Format::kFloat16:
            case Format::kBFloat16: return heads.size * sizeof(uint16_t);
            case Format::kInt8: return heads.size + sizeof(float);
            default: return heads.size * sizeof(float);
        }
    }

    std::deque<Copy> copies_;
};

class Server {
  public:
    explicit Server(const char* library) : library_(dlopen(library, RTLD_NOW)) {
        if (!library_) fail(dlerror());
    }

    // Computes a call and returns its result.
    int64_t serve(Function function, const int64_t* words) {
        switch (function) {
            case Function::kPanel: return find<int64_t()>("headrace_panel")();
            case Function::kMultipliesBytes: return find<bool()>("headrace_multiplies_bytes")();
            case Function::kMultipliesBFloat16: return find<bool()>("headrace_multiplies_bfloat16")();
            case Function::kCreate: call("headrace_create", static_cast<int>(words[0]), &kernels_); break;
            case Function::kLinear: linear(words + 1); break;
            case Function::kGather: gather(words + 1); break;
            case Function::kAttention: attention(words + 1); break;
            case Function::kDecode: decode(words + 1); break;
        }
        return 0;
    }

  private:
    template <class T>
    static T* at(int64_t word) {
        return reinterpret_cast<T*>(word);
    }

    static void fail(const char* message) {
        std::fprintf(stderr, "%s\n", message);
        std::_Exit(EXIT_FAILURE);
    }

    template <class Signature>
    Signature* find(const char* name) const {
        void* found = dlsym(library_, name);
        if (!found) fail(dlerror());
        return reinterpret_cast<Signature*>(found);
    }

    template <class... Arguments>
    void call(const char* name, Arguments... arguments) const {
        if (const char* message = find<const char*(Arguments...)>(name)(arguments...)) fail(message);
    }

    void linear(const int64_t* words) const {
        Copies copies;
        Linear weight = copies.linear(read_from(at<Linear>(words[0])));
        const int64_t rows = words[2];
        call("headrace_linear", kernels_, &weight, copies.array(at<float>(words[1]), rows * weight.inputs), rows,
             static_cast<bool>(words[3]), copies.array(at<float>(words[4]), rows * weight.outputs, true));
    }

    void gather(const int64_t* words) const {
        Copies copies;
        Linear weight = copies.linear(read_from(at<Linear>(words[0])));
        const int64_t count = words[2];
        call("headrace_gather", kernels_, &weight, copies.array(at<int64_t>(words[1]), count), count,
             copies.array(at<float>(words[3]), count * weight.inputs, true));
    }

    void attention(const int64_t* words) const {
        Copies copies;
        Heads heads = read_from(at<Heads>(words[0]));
        Cache cache = read_from(at<Cache>(words[1]));
        Step step = copies.step(read_from(at<Step>(words[4])));
        Weighting weighting = read_from(at<Weighting>(words[9]));
        weighting.sinks = copies.array(weighting.sinks, heads.query);
        const int64_t queries = step.rows * heads.query * heads.size, keys = step.rows * heads.kv * heads.size;
        float scale;
        std::memcpy(&scale, words + 8, sizeof scale);
        call("headrace_attention", kernels_, &heads, &cache, copies.side(at<void>(words[2]), cache, heads, step),
             copies.side(at<void>(words[3]), cache, heads, step), &step, copies.array(at<float>(words[5]), queries),
             copies.array(at<float>(words[6]), keys), copies.array(at<float>(words[7]), keys), scale, &weighting,
             copies.array(at<float>(words[10]), queries, true));
    }

    void decode(const int64_t* words) const {
        Copies copies;
        Model model = read_from(at<Model>(words[0]));
        Step step = copies.step(read_from(at<Step>(words[1])));
        Layer* layers = copies.array(const_cast<Layer*>(model.layer), model.layers);
        for (int64_t i = 0; i < model.layers; ++i) layers[i] = copies.layer(layers[i], model, step);
        model.layer = layers;
        model.final_norm = copies.norm(model.final_norm, model.hidden);
        const int64_t turns = step.rows * model.heads.size / 2;
        call("headrace_decode", kernels_, &model, &step, copies.array(at<float>(words[2]), turns),
             copies.array(at<float>(words[3]), turns),
             copies.array(at<float>(words[4]), step.rows * model.hidden, true),
             words[5], static_cast<int32_t>(words[6]), copies.array(at<int64_t>(words[7]), 1, true));
    }

    void* library_;
    Kernels* kernels_ = nullptr;
};

}  // namespace

int main(int, char** arguments) {
    Server server(arguments[1]);
    for (int64_t words[13];;) {
        receive(words, sizeof words);
        send(Message::kReturn, server.serve(static_cast<Function>(words[0]), words + 1));
    }
}
