"""Runs Hugging Face transformers' continuous batching (`generate_batch`) at the batch sizes of a comparison."""

from __future__ import annotations

import os
import sys

import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from benchmarks.peers.runners.protocol import serve

model = AutoModelForCausalLM.from_pretrained(
    sys.argv[1], dtype=getattr(torch, os.environ["PEER_DTYPE"]), attn_implementation="sdpa_paged"
)


def generate(prompts: list[list[int]], output_tokens: int) -> int:
    """Generate `output_tokens` greedily for each prompt by continuous batching, at once; return the number generated.

    The end of sequence is ignored.
    """
    config = GenerationConfig(max_new_tokens=output_tokens, do_sample=False, eos_token_id=-1, pad_token_id=0)
    with torch.inference_mode():
        outcome = model.generate_batch(inputs=prompts, generation_config=config, progress_bar=False)
    return sum(len(each.generated_tokens) for each in outcome.values())


serve(generate)
