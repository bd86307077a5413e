// A clock, and the pause of a waiting thread, by processor.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace headrace {

#if defined(__aarch64__)
// A clock, the same for all cores.
inline uint64_t ticks() {
    uint64_t now;
    asm volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
}

inline uint64_t ticks_per_second() {
    uint64_t frequency;
    asm volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
    return frequency;
}

// Waits for some nanoseconds: most processors ignore `yield`.
inline void spin_pause() { asm volatile("isb" ::: "memory"); }
#else
inline uint64_t ticks() { return __rdtsc(); }

// Roughly, because it differs among processors.
inline uint64_t ticks_per_second() { return 2'000'000'000; }

inline void spin_pause() { _mm_pause(); }
#endif

}  // namespace headrace
