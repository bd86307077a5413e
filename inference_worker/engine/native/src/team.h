// A team of threads that walk through a step together. Knows no numbers, only chunks of work.
//
// What one needs, another may hold up: its core may be given to another process at any time. So nobody waits for a member,
// only for chunks: a step goes on without those that are late, who walk past what is done. Between chunks a member offers
// its core to whoever waits for it, for while it holds none nobody waits for it. Between steps all sleep.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>
#include <x86intrin.h>

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

    // Let every member that comes in time run `step(rank)`, the caller as rank 0; returns when all have ended.
    void run(const std::function<void(int)>& step) {
        if (size_ == 1) return step(0);
        step_ = &step;
        first_share_ = share_.load(std::memory_order_relaxed);
        inside_.store(0, std::memory_order_release);
        steps_.fetch_add(1, std::memory_order_release);
        steps_.notify_all();
        walk(0);
        for (int32_t nobody = 0; !inside_.compare_exchange_weak(nobody, kClosed, std::memory_order_acq_rel); nobody = 0)
            if (nobody != 0) wait_for_change(inside_, nobody);
    }

    // Share out `chunks` pieces of work; to be called by all members alike. Returns when all pieces are done.
    template <class Work>
    void share(int64_t chunks, const Work& work) {
        if (size_ == 1) {
            for (int64_t chunk = 0; chunk < chunks; ++chunk) work(chunk);
            return;
        }
        if (chunks == 0) return;
        const uint32_t share = next_share++;
        uint64_t claim = claim_.load(std::memory_order_acquire);
        while (static_cast<uint32_t>(claim >> 32) == share && static_cast<uint32_t>(claim) < chunks) {
            if (!claim_.compare_exchange_weak(claim, claim + 1, std::memory_order_acq_rel)) continue;
            work(static_cast<uint32_t>(claim));
            if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == chunks) return finish(share);
            offer_core();
            claim = claim_.load(std::memory_order_acquire);
        }
        if (static_cast<uint32_t>(claim >> 32) == share) wait_for_change(share_, share);
    }

  private:
    static constexpr int kSpins = 4000, kSpinsPerYield = 50;  // a spin is some 20 nanoseconds
    static constexpr int32_t kClosed = -1;
    static constexpr uint64_t kTicksPerOffer = 200'000;  // some 0.1 milliseconds

    void serve(int rank) {
        for (uint32_t seen = 0;;) {
            wait_for_change(steps_, seen);
            seen = steps_.load(std::memory_order_acquire);
            if (ending_) return;
            if (!enter()) continue;
            walk(rank);
            inside_.fetch_sub(1, std::memory_order_acq_rel);
            inside_.notify_all();
        }
    }

    // Whether there is a step to take part in; who is late for one may find it over.
    bool enter() {
        int32_t inside = inside_.load(std::memory_order_acquire);
        while (inside != kClosed)
            if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acq_rel)) return true;
        return false;
    }

    void walk(int rank) {
        next_share = first_share_;
        (*step_)(rank);
    }

    void finish(uint32_t share) {
        done_.store(0, std::memory_order_relaxed);
        claim_.store(static_cast<uint64_t>(share + 1) << 32, std::memory_order_release);
        share_.store(share + 1, std::memory_order_release);
        share_.notify_all();
    }

    // Let another process have this core, if one waits for it; who was taken long at its word does not offer soon again.
    static void offer_core() {
        const uint64_t now = __rdtsc();
        if (now < next_offer) return;
        std::this_thread::yield();
        const uint64_t after = __rdtsc();
        next_offer = after + std::max(kTicksPerOffer, after - now);
    }

    template <class Number>
    static void wait_for_change(const std::atomic<Number>& value, Number old) {
        for (int spin = 1; spin <= kSpins; ++spin) {
            if (value.load(std::memory_order_acquire) != old) return;
            _mm_pause();
            // The one waited for may have been put on this very core.
            if (spin % kSpinsPerYield == 0) std::this_thread::yield();
        }
        while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
    }

    static inline thread_local uint32_t next_share = 0;  // of the step that this thread walks through
    static inline thread_local uint64_t next_offer = 0;

    const int size_;
    std::vector<std::thread> threads_;
    const std::function<void(int)>* step_ = nullptr;
    uint32_t first_share_ = 0;  // of the step
    std::atomic<bool> ending_{false};
    alignas(64) std::atomic<uint32_t> steps_{0};
    alignas(64) std::atomic<int32_t> inside_{kClosed};  // members besides the caller that walk through the step
    alignas(64) std::atomic<uint32_t> share_{0};        // the share that is being worked on
    alignas(64) std::atomic<uint64_t> claim_{0};        // its number, and how many of its chunks were handed out
    alignas(64) std::atomic<int64_t> done_{0};          // of its chunks
};

}  // namespace headrace
