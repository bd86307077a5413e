"""Runs OpenVINO GenAI (`ContinuousBatchingPipeline`, on a GGUF file) at the batch sizes of a comparison."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import openvino
import openvino_genai

from benchmarks.peers.runners.protocol import serve

scheduler = openvino_genai.SchedulerConfig()
scheduler.max_num_batched_tokens = 2048
scheduler.max_num_seqs = 256
scheduler.cache_size = 2
scheduler.enable_prefix_caching = False
pipeline = openvino_genai.ContinuousBatchingPipeline(sys.argv[1], scheduler, "CPU", {})
numbers = itertools.count()


def generate(prompts: list[list[int]], output_tokens: int) -> int:
    """Generate `output_tokens` greedily for each prompt with OpenVINO GenAI, all at once; return the number generated.

    The end of sequence is ignored.
    """
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = output_tokens
    config.ignore_eos = True
    config.do_sample = False
    tensors = [openvino.Tensor(np.array([ids], dtype=np.int64)) for ids in prompts]
    handles = [pipeline.add_request(next(numbers), tensor, config) for tensor in tensors]
    while pipeline.has_non_finished_requests():
        pipeline.step()
    return sum(len(handle.read_all()[0].generated_ids) for handle in handles)


serve(generate)
