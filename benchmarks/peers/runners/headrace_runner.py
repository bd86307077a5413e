"""Runs our engine, called directly, at the batch sizes of a comparison; arguments after the sizes configure it.

It is prepared as the peers prepare themselves: its cache of 2 GiB (the same as vLLM's) is written before anything is
timed, because its pages would otherwise be allocated during steps, and long-lived objects are excluded from garbage
collection, as in the engine process.
"""

from __future__ import annotations

import argparse
import gc
import sys

from benchmarks import engine_driver
from benchmarks.engine import add_engine_arguments, engine_under_test
from benchmarks.peers.runners.protocol import serve
from benchmarks.workloads import Request
from inference_worker.engine.quantising.teacher_forcing import model_runner
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
    """Generate `output_tokens` greedily for each prompt with our engine, all at once; return the number generated.

    The end of sequence is ignored.
    """
    driver = engine_driver.run_batch(engine, [Request(ids, output_tokens) for ids in prompts])
    return sum(timeline.output_tokens for timeline in driver.timelines.values())


serve(generate)
