"""Runs vLLM's `LLM` class on the CPU at the batch sizes of a comparison."""

from __future__ import annotations

import os
import sys

from vllm import LLM, SamplingParams

from benchmarks.peers.runners.protocol import serve


def main() -> None:
    """Load the model with vLLM, then time and print the batch sizes in the arguments.

    A function, because vLLM's processes import this file.
    """
    llm = LLM(
        model=sys.argv[1],
        dtype=os.environ["PEER_DTYPE"],
        max_model_len=2048,
        max_num_seqs=256,
        enable_prefix_caching=False,
    )

    def generate(prompts: list[list[int]], output_tokens: int) -> int:
        sampling = SamplingParams(temperature=0, max_tokens=output_tokens, ignore_eos=True)
        inputs = [{"prompt_token_ids": ids} for ids in prompts]
        return sum(len(each.outputs[0].token_ids) for each in llm.generate(inputs, sampling, use_tqdm=False))

    serve(generate)


if __name__ == "__main__":
    main()
