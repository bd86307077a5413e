"""Executes one planned engine step: copies KV blocks, runs the model over the packed tokens, samples the next ones."""

from __future__ import annotations

from typing import Protocol

import torch

from inference_worker.engine.attention_backend import AttentionBackend, StepAttention
from inference_worker.engine.batch import Batch, BlockCopy, ScheduledSequence, StepResult
from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.execution.step_inputs import build_inputs
from inference_worker.engine.sampling.prompt_scores import score_prompts
from inference_worker.engine.sampling.sampler import Sampler
from inference_worker.engine_protocol import PositionLogprobs, PromptScores


class Runner(Protocol):
    """The interface of an object that computes planned batches for the engine."""

    def execute(self, batch: Batch) -> StepResult:
        """Compute one planned batch: run the model, write keys and values to the cache, and return the sampled tokens.

        Every runner of the engine implements this method; the engine calls it once per step.
        """
        ...


class ModelRunner:
    """Runs one model over one KV cache on one device, and samples the next tokens. Errors are raised."""

    def __init__(self, model: CausalLM, attention: AttentionBackend, device: torch.device) -> None:
        self.model = model
        self.attention = attention
        self.device = device
        self.sampler = Sampler()

    @torch.inference_mode()
    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        """Copy KV cache blocks in all layers, as the copy-on-writes `copies` of a batch list them.

        All sources are read before any target is written.
        """
        if copies:
            source, target = torch.tensor([(copy.source, copy.target) for copy in copies], device=self.device).T
            self.attention.cache.copy_blocks(source, target)

    @torch.inference_mode()
    def compute(self, entries: list[ScheduledSequence]) -> StepResult:
        """Run the model over the tokens of a batch's `entries` and sample each sequence's next tokens.

        Can be repeated: the same cache slots are written again. Errors of the model or the device are raised.
        """
        if not entries:
            return StepResult()
        inputs = build_inputs(entries, self.attention.cache.shape.block_size, self.device)
        step = StepAttention(self.attention, inputs.attention)
        hidden = self.model.forward(inputs.token_ids, inputs.positions, step)
        scores = score_prompts(entries, hidden, self.model.logits)
        rows = [row for entry in entries for row in entry.sampling_contexts()]
        if not rows:
            return StepResult([[] for _ in entries], [None] * len(entries), scores=scores)
        sampled = self.sampler.sample(self.model.logits(hidden[inputs.sampled_rows]), rows)
        return _split_by_entry(entries, *sampled, scores)


def _split_by_entry(
    entries: list[ScheduledSequence],
    tokens: list[int],
    logprobs: list[PositionLogprobs | None],
    scores: dict[str, PromptScores],
) -> StepResult:
    """Split the sampled rows by entry."""
    result, end = StepResult(scores=scores), 0
    for entry in entries:
        start, end = end, end + entry.sample_count
        result.token_ids.append(tokens[start:end])
        result.logprobs.append([one for one in logprobs[start:end] if one is not None] or None)
    return result
