"""The numbers that bound planning, fixed at start-up. Knows nothing of where they come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineLimits:
    """What one engine can take.

    Attributes:
        max_model_len: context length: prompt and generated tokens of one choice. Must fit the block pool.
        max_num_seqs: sequences running together.
        max_num_batched_tokens: tokens computed in one step.
        vocab_size: token ids are below it.
        eos_token_ids: tokens that end a choice unless `ignore_eos`.
        lookahead: decode steps that may follow one another without being planned one by one.
        prompts_ahead: with how many tokens prompts get a step of their own, ahead of sequences that only go on.
    """

    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    vocab_size: int
    eos_token_ids: frozenset[int]
    lookahead: int = 1
    prompts_ahead: range = range(0)
