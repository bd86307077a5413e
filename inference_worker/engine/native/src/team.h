// A team of threads that execute a step together, chunk by chunk.
//
// Any thread may lose its core to another process at any time. So threads wait for chunks of work, never for each
// other: a step goes on without late threads, which skip what is done. Between chunks, when no other thread depends on
// it, a thread yields its core to other processes. Between steps all threads sleep.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "processor.h"

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

    // Runs `step(rank)` on every thread that wakes in time, with the caller as rank 0; returns when all have ended.
    void run(const std::function<void(int)>& step) {
        if (size_ == 1) return step(0);
        step_ = &step;
        first_share_ = share_.load(std::memory_order_relaxed);
        inside_.store(0, std::memory_order_release);
        steps_.fetch_add(1, std::memory_order_release);
        steps_.notify_all();
        execute(0);
        for (int32_t inside = 0; !inside_.compare_exchange_weak(inside, kClosed, std::memory_order_acq_rel); inside = 0)
            if (inside != 0) wait_while(inside_, [inside](int32_t now) { return now == inside; });
    }

    // Distributes `chunks` pieces of work; every thread must make the same calls. Returns when all pieces are done.
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
        if (static_cast<uint32_t>(claim >> 32) == share)
            wait_while(share_, [share](uint32_t now) { return !is_later(now, share); });
    }

  private:
    static constexpr int kSpins = 4000, kSpinsPerYield = 50;  // a spin is some 20 nanoseconds
    static constexpr int32_t kClosed = -1;
    static constexpr uint64_t kOffersPerSecond = 10'000;

    void serve(int rank) {
        for (uint32_t seen = 0;;) {
            wait_while(steps_, [seen](uint32_t now) { return now == seen; });
            seen = steps_.load(std::memory_order_acquire);
            if (ending_) return;
            if (!enter()) continue;
            execute(rank);
            inside_.fetch_sub(1, std::memory_order_acq_rel);
            inside_.notify_all();
        }
    }

    // Joins the current step; returns false if it is over already.
    bool enter() {
        int32_t inside = inside_.load(std::memory_order_acquire);
        while (inside != kClosed)
            if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acq_rel)) return true;
        return false;
    }

    void execute(int rank) {
        next_share = first_share_;
        (*step_)(rank);
    }

    void finish(uint32_t share) {
        done_.store(0, std::memory_order_relaxed);
        claim_.store(static_cast<uint64_t>(share + 1) << 32, std::memory_order_release);
        // Other threads may finish later calls of `share` before this thread gets here, so the number only grows.
        uint32_t before = share_.load(std::memory_order_relaxed);
        while (is_later(share + 1, before))
            if (share_.compare_exchange_weak(before, share + 1, std::memory_order_acq_rel)) return share_.notify_all();
    }

    // Whether a call of `share` comes after another one; their numbers wrap around.
    static bool is_later(uint32_t share, uint32_t other) { return static_cast<int32_t>(share - other) > 0; }

    // Yields this core to other processes; after a long interruption, not again for as long.
    static void offer_core() {
        const uint64_t now = ticks();
        if (now < next_offer) return;
        std::this_thread::yield();
        const uint64_t after = ticks();
        next_offer = after + std::max(ticks_per_second() / kOffersPerSecond, after - now);
    }

    // Waits, spinning at first, while `pending(value)`; threads that end the wait notify.
    template <class Number, class Pending>
    static void wait_while(const std::atomic<Number>& value, const Pending& pending) {
        for (int spin = 1; spin <= kSpins; ++spin) {
            if (!pending(value.load(std::memory_order_acquire))) return;
            spin_pause();
            // The thread that it waits for may be scheduled on this very core.
            if (spin % kSpinsPerYield == 0) std::this_thread::yield();
        }
        for (Number now; pending(now = value.load(std::memory_order_acquire));)
            value.wait(now, std::memory_order_acquire);
    }

    static inline thread_local uint32_t next_share = 0;  // this thread's next call of `share` in the current step
    static inline thread_local uint64_t next_offer = 0;

    const int size_;
    std::vector<std::thread> threads_;
    const std::function<void(int)>* step_ = nullptr;
    uint32_t first_share_ = 0;  // the step's first call of `share`
    std::atomic<bool> ending_{false};
    alignas(64) std::atomic<uint32_t> steps_{0};
    alignas(64) std::atomic<int32_t> inside_{kClosed};  // threads besides the caller that execute the step
    alignas(64) std::atomic<uint32_t> share_{0};        // number of the current `share`
    alignas(64) std::atomic<uint64_t> claim_{0};        // its number (high half) and its chunks handed out (low half)
    alignas(64) std::atomic<int64_t> done_{0};          // its chunks that are done
};

}  // namespace headrace
