// Prints the blocks of some spans: `row_blocks SIZE SIZE SPAN...`; a size, of blocks of prompts and of others, is
// `FITTING:LEAST:TILE`, a span `FIRST:LAST:PROMPT`. A line per block: whether it is of prompts, then the first and the
// last row of each of its spans.
#include <cstdio>
#include <cstdlib>

#include "spans.h"

using namespace headrace;

int main(int count, char** arguments) {
    BlockSize sizes[2];
    for (int i = 0; i < 2; ++i) {
        long fitting, least, tile;
        if (i + 1 >= count || std::sscanf(arguments[i + 1], "%ld:%ld:%ld", &fitting, &least, &tile) != 3)
            return EXIT_FAILURE;
        sizes[i] = {fitting, least, tile};
    }
    Spans spans;
    for (int i = 3; i < count; ++i) {
        long first, last;
        int prompt;
        if (std::sscanf(arguments[i], "%ld:%ld:%d", &first, &last, &prompt) != 3) return EXIT_FAILURE;
        spans.push_back({first, last, prompt != 0});
    }
    const Blocks blocks(spans, sizes[0], sizes[1]);
    for (int64_t block = 0; block < blocks.count(); ++block) {
        std::printf("%d", blocks.of_prompts(block));
        blocks.each(block, [](int64_t first, int64_t last) {
            std::printf(" %ld %ld", static_cast<long>(first), static_cast<long>(last));
        });
        std::printf("\n");
    }
    return EXIT_SUCCESS;
}
