"""Defines the limits of an engine's scheduler, fixed at start-up: context length, sequences, tokens per step."""

from __future__ import annotations

from dataclasses import dataclass

FLEX_RESERVE = 8
"""One in so many slots stays free of sequences of the class `flex`, for others that come during a step of theirs."""

FLEX_STEP_TOKENS = 128
"""Most tokens of a step of `flex` alone on a CPU: other sequences that arrive wait for the end of its current layer."""

SHORT_FLEX_STEP_TOKENS = 16
"""The same while sequences of other classes run or came lately. What follows the last layer can't be interrupted."""

SHORT_FLEX_STEP_SECONDS = 10.0
"""Seconds after the last sequence of another class for which steps of `flex` on a CPU stay short, with pauses between
them (`Engine.pause`)."""


@dataclass(frozen=True)
class EngineLimits:
    """Limits within which one engine's scheduler plans steps and accepts requests.

    Attributes:
        max_model_len: context length in tokens, prompt and output of one choice. One full sequence must fit the pool.
        max_num_seqs: most sequences that run at the same time.
        max_num_batched_tokens: most tokens computed in one step.
        vocab_size: size of the vocabulary; token ids are below it.
        eos_token_ids: tokens that end a choice unless `ignore_eos`.
        max_decode_steps: most decode steps that one batch may run without being re-planned.
        priority_prefill_tokens: range of prompt tokens in a step for which the step's decodes are deferred.
    """

    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    vocab_size: int
    eos_token_ids: frozenset[int]
    max_decode_steps: int = 1
    priority_prefill_tokens: range = range(0)
