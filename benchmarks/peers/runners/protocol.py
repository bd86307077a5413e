"""Protocol of the peers' runner programs: batch sizes as JSON arguments; each is timed and printed as a JSON line.

A batch size is [sequences, prompt tokens, output tokens]; short ones are run several times, and the median counts.
Must import only the standard library, because it runs in the peers' environments.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable

FIRST_ID, VOCAB_SIZE = 32, 49152

SPENT_SECONDS = 2.0
"""Least time spent on one size."""

Generate = Callable[[list[list[int]], int], int]
"""A function from prompts and the output tokens of each to the number of generated tokens."""


def serve(generate: Generate) -> None:
    """Main function of a runner: warm up, time `generate` at each batch size in the arguments, print the seconds.

    `generate` takes prompts as token ids and the number of output tokens, and returns how many tokens it generated.
    """
    sizes = json.loads(sys.argv[2])
    rng = random.Random(sys.argv[2])
    generate(prompts(rng, 2, 64), 8)
    for size in sizes:
        runs: list[float] = []
        while sum(runs) < SPENT_SECONDS:
            runs.append(run(generate, rng, *size))
        print(json.dumps({"size": size, "seconds": statistics.median(runs)}), flush=True)


def run(generate: Generate, rng: random.Random, sequences: int, inputs: int, outputs: int) -> float:
    """Time one call of `generate`: `sequences` random prompts of `inputs` tokens, `outputs` generated tokens each.

    Returns the seconds.

    Raises:
        SystemExit: the peer generated fewer tokens than requested.
    """
    batch = prompts(rng, sequences, inputs)
    begin = time.perf_counter()
    tokens = generate(batch, outputs)
    seconds = time.perf_counter() - begin
    if tokens != sequences * outputs:
        raise SystemExit(f"{tokens} tokens were generated, {sequences * outputs} were requested")
    return seconds


def prompts(rng: random.Random, count: int, length: int) -> list[list[int]]:
    """Return `count` random prompts for a runner, each a list of `length` token ids."""
    return [[rng.randrange(FIRST_ID, VOCAB_SIZE) for _ in range(length)] for _ in range(count)]
