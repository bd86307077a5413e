// Runs steps of a team for some seconds: `team_steps THREADS SECONDS`. Each call of `share` adds up what the one before
// it wrote, so a call that is skipped, or begins before the one before it has ended, is counted. Fails if any was.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "team.h"

constexpr int kShares = 4, kMostChunks = 3;

constexpr int chunks_of(int share) { return share % kMostChunks + 1; }

int main(int, char** arguments) {
    headrace::Team team(std::atoi(arguments[1]));
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(arguments[2]));
    std::atomic<int64_t> wrong{0};
    int64_t written[kShares][kMostChunks] = {};
    for (int64_t step = 1; std::chrono::steady_clock::now() < end; ++step) {
        team.run([&](int) {
            for (int share = 0; share < kShares; ++share)
                team.share(chunks_of(share), [&](int64_t chunk) {
                    for (int before = 0; share > 0 && before < chunks_of(share - 1); ++before)
                        wrong += written[share - 1][before] != step;
                    written[share][chunk] = step;
                });
        });
        for (int chunk = 0; chunk < chunks_of(kShares - 1); ++chunk) wrong += written[kShares - 1][chunk] != step;
    }
    std::printf("%lld wrong", static_cast<long long>(wrong));
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
