// Prints the blocks of some spans: `row_blocks MOST TILE SPAN...`; a span is `FIRST:LAST:PROMPT`. A line per block:
// whether it is of prompts, then the first and the last row of each of its spans.
#include <cstdio>
#include <cstdlib>

#include "spans.h"

using namespace headrace;

int main(int count, char** arguments) {
    const BlockSize size{std::atoll(arguments[1]), std::atoll(arguments[2])};
    Spans spans;
    for (int i = 3; i < count; ++i) {
        long first, last;
        int prompt;
        if (std::sscanf(arguments[i], "%ld:%ld:%d", &first, &last, &prompt) != 3) return EXIT_FAILURE;
        spans.push_back({first, last, prompt != 0});
    }
    const Blocks blocks(spans, size, size);
    for (int64_t block = 0; block < blocks.count(); ++block) {
        std::printf("%d", blocks.of_prompts(block));
        blocks.each(block, [](int64_t first, int64_t last) {
            std::printf(" %ld %ld", static_cast<long>(first), static_cast<long>(last));
        });
        std::printf("\n");
    }
    return EXIT_SUCCESS;
}
