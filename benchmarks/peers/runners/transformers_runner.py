"""Runs Hugging Face transformers' `generate` at a comparison's batch sizes, on prompts of one length (no padding)."""

from __future__ import annotations

import os
import sys

import torch
from transformers import AutoModelForCausalLM

from benchmarks.peers.runners.protocol import serve

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=getattr(torch, os.environ["PEER_DTYPE"]))


def generate(prompts: list[list[int]], output_tokens: int) -> int:
    """Generate exactly `output_tokens` greedily for each prompt by `generate`, at once; return their number."""
    ids = torch.tensor(prompts)
    with torch.inference_mode():
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=output_tokens,
            min_new_tokens=output_tokens,
            do_sample=False,
            pad_token_id=0,
        )
    return int(out.shape[0] * (out.shape[1] - ids.shape[1]))


serve(generate)
