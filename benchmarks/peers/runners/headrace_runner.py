"""Our engine, called directly. Arguments after the sizes: the engine's."""

from __future__ import annotations

import argparse
import sys

from benchmarks import driving
from benchmarks.engine import add_engine_arguments, engine_under_test
from benchmarks.peers.runners.protocol import serve
from benchmarks.workloads import Request
from infra.runtime import logging

parser = argparse.ArgumentParser()
add_engine_arguments(parser)
logging.configure("benchmark", level="warning")
engine = engine_under_test(parser.parse_args(["--model", sys.argv[1], *sys.argv[3:]]), max_num_seqs=256)()


def generate(prompts: list[list[int]], output_tokens: int) -> int:
    """All at once, greedy, the end of sequence ignored."""
    driver = driving.together(engine, [Request(ids, output_tokens) for ids in prompts])
    return sum(timeline.output_tokens for timeline in driver.timelines.values())


serve(generate)
