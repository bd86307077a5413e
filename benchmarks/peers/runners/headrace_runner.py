"""Our engine, called directly. Arguments after the sizes: the engine's.

Made ready as the others make themselves: its cache of 2 GiB (what vLLM is given) is written before anything is timed,
since its memory would otherwise be first touched in the steps, and what stays for good is kept from the collector, as
the engine's own process does it.
"""

from __future__ import annotations

import argparse
import gc
import sys

from benchmarks import driving
from benchmarks.engine import add_engine_arguments, engine_under_test, model_runner
from benchmarks.peers.runners.protocol import serve
from benchmarks.workloads import Request
from runtime import logging

parser = argparse.ArgumentParser()
add_engine_arguments(parser)
logging.configure("benchmark", level="warning")
build = engine_under_test(parser.parse_args(["--model", sys.argv[1], *sys.argv[3:]]), max_num_seqs=256)
engine = build(kv_cache_memory=2 * 2**30)
cache = model_runner(engine).attention.cache
for side in (*cache.keys, *cache.values):
    side.zero_()
gc.collect()
gc.freeze()


def generate(prompts: list[list[int]], output_tokens: int) -> int:
    """All at once, greedy, the end of sequence ignored."""
    driver = driving.together(engine, [Request(ids, output_tokens) for ids in prompts])
    return sum(timeline.output_tokens for timeline in driver.timelines.values())


serve(generate)
