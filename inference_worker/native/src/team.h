// A team of threads that walk through a step together. Knows no numbers, only chunks of work.
//
// Between steps they sleep; within a step they meet at barriers, spinning shortly and then sleeping, so that a team whose
// core was taken by another process neither burns the other cores nor holds a chunk that somebody else could take.
#pragma once

#include <immintrin.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace headrace {

class Team {
  public:
    explicit Team(int size) : size_(size) {
        for (int rank = 1; rank < size; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
    }

    ~Team() {
        ending_ = true;
        steps_.fetch_add(1);
        steps_.notify_all();
        for (auto& thread : threads_) thread.join();
    }

    int size() const { return size_; }

    // Let every member run `step(rank)`, the caller as rank 0; returns when all have ended.
    void run(const std::function<void(int)>& step) {
        if (size_ == 1) return step(0);
        step_ = &step;
        steps_.fetch_add(1);
        steps_.notify_all();
        step(0);
        barrier();
    }

    // Share out `chunks` pieces of work; to be called by all members alike. Returns when all pieces are done.
    template <class Work>
    void share(int64_t chunks, const Work& work) {
        if (size_ == 1) {
            for (int64_t chunk = 0; chunk < chunks; ++chunk) work(chunk);
            return;
        }
        for (int64_t chunk; (chunk = next_.fetch_add(1, std::memory_order_relaxed)) < chunks;) work(chunk);
        barrier();
    }

  private:
    static constexpr int kSpins = 4000, kSpinsPerYield = 50;  // a spin is some 20 nanoseconds

    void serve(int rank) {
        uint32_t seen = 0;
        while (true) {
            wait_for_change(steps_, seen);
            ++seen;
            if (ending_) return;
            (*step_)(rank);
            barrier();
        }
    }

    void barrier() {
        const uint32_t phase = phase_.load(std::memory_order_acquire);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
            arrived_.store(0, std::memory_order_relaxed);
            next_.store(0, std::memory_order_relaxed);
            phase_.store(phase + 1, std::memory_order_release);
            phase_.notify_all();
        } else {
            wait_for_change(phase_, phase);
        }
    }

    static void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
        for (int spin = 1; spin <= kSpins; ++spin) {
            if (value.load(std::memory_order_acquire) != old) return;
            _mm_pause();
            // The one waited for may have been put on this very core.
            if (spin % kSpinsPerYield == 0) std::this_thread::yield();
        }
        while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
    }

    const int size_;
    std::vector<std::thread> threads_;
    const std::function<void(int)>* step_ = nullptr;
    std::atomic<bool> ending_{false};
    alignas(64) std::atomic<uint32_t> steps_{0};
    alignas(64) std::atomic<uint32_t> phase_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<int64_t> next_{0};
};

}  // namespace headrace
