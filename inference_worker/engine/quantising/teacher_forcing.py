"""Measures how well an engine's model predicts a given text (teacher forcing), computed as in serving, not sampled.

Drives the engine's own runner (its model, attention and cache), for text as in a prompt or as generated, which may use
different weights.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference_worker.engine.attention_backend import StepAttention
from inference_worker.engine.batch import ScheduledSequence
from inference_worker.engine.engine import Engine
from inference_worker.engine.execution.fault_isolation import IsolatingRunner
from inference_worker.engine.execution.model_runner import ModelRunner
from inference_worker.engine.execution.step_inputs import build_inputs
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams

PASSAGE = Path(__file__).with_name("passage.txt")
"""1,550 words of our own: a tale, a recipe, code, a letter, sums. Changing it makes older results incomparable."""
WINDOWS = 8
"""Number of windows of the text that are computed together."""


@dataclass(frozen=True)
class Prediction:
    """For N tokens, text after text: each one's negative log probability, and the model's most likely token."""

    losses: NDArray[np.float64]
    choices: NDArray[np.int64]

    @property
    def perplexity(self) -> float:
        """Perplexity of the text by the model: the exponential of the tokens' mean negative log probability."""
        return float(np.exp(self.losses.mean()))

    def agreement(self, other: Prediction) -> float:
        """Return the share, 0 to 1, of positions at which this and `other` have the same most likely token."""
        return float((self.choices == other.choices).mean())


def model_runner(engine: Engine) -> ModelRunner:
    """Return the model runner inside a generation engine, to call it directly.

    Raises:
        TypeError: the engine was not built from settings.
    """
    if not isinstance(engine.runner, IsolatingRunner):
        raise TypeError("the engine was not built from settings")
    return engine.runner.runner


def windows(ids: list[int], length: int | None = None) -> list[list[int]]:
    """Return `WINDOWS` pieces of the text `ids` (token ids) that start at equal distances.

    Each has `length` ids, by default as many as up to the next piece.
    """
    step = len(ids) // WINDOWS
    return [ids[start : start + (length or step)] for start in range(0, step * WINDOWS, step)]


def predict_generated(engine: Engine, texts: list[list[int]]) -> Prediction:
    """Compute how the engine's model predicts the texts as text that it generates: in steps of one token of each text.

    Every token but a text's first is predicted, from the true tokens before it.

    Args:
        engine: an idle engine without prefix cache (its blocks are overwritten).
        texts: token ids, all of one length.
    """
    return _predict(engine, texts, prompt_tokens=1, step_tokens=1)


def predict_prompts(engine: Engine, texts: list[list[int]], rows: int) -> Prediction:
    """Compute how the engine's model predicts the texts as prompts: in steps of `rows` tokens, shared among the texts.

    Every token but a text's first is predicted, from the true tokens before it.

    Args:
        engine: an idle engine without prefix cache (its blocks are overwritten).
        texts: token ids, all of one length.
        rows: tokens of a step; it has at least one of each text.
    """
    return _predict(engine, texts, prompt_tokens=len(texts[0]), step_tokens=max(1, rows // len(texts)))


@torch.inference_mode()
def _predict(engine: Engine, texts: list[list[int]], *, prompt_tokens: int, step_tokens: int) -> Prediction:
    runner = model_runner(engine)
    blocks = engine.scheduler.blocks.blocks_for(len(texts[0]))
    sampling = SamplingParams(seed=0)
    sequences = [Sequence("quality", i, array("q", ids), prompt_tokens, sampling, 0) for i, ids in enumerate(texts)]
    for i, sequence in enumerate(sequences):
        sequence.block_table.extend(range(i * blocks, (i + 1) * blocks))
    last = len(texts[0]) - 1
    steps = (
        [ScheduledSequence(sequence, start, min(step_tokens, last - start)) for sequence in sequences]
        for start in range(0, last, step_tokens)
    )
    parts = zip(*(_losses(runner, entries) for entries in steps), strict=True)
    losses, choices = (torch.cat(part, dim=1).flatten().numpy() for part in parts)
    return Prediction(losses, choices)


def _losses(runner: ModelRunner, entries: list[ScheduledSequence]) -> tuple[Tensor, Tensor]:
    """Return the losses and most likely tokens of a step of S sequences, [S, T / S] float64 and int64."""
    inputs = build_inputs(entries, runner.attention.cache.shape.block_size, runner.device)
    metadata = replace(inputs.attention, read_from=None)  # the states of all tokens are read
    hidden = runner.model.forward(inputs.token_ids, inputs.positions, StepAttention(runner.attention, metadata))
    logits = runner.model.logits(hidden).double()
    following = [entry.sequence.token_ids[entry.start + 1 : entry.start + entry.count + 1] for entry in entries]
    targets = torch.tensor([token for ids in following for token in ids], device=logits.device)
    losses = logits.logsumexp(dim=-1) - logits.gather(1, targets[:, None])[:, 0]
    by_text = (len(entries), -1)
    return losses.view(by_text).cpu(), logits.argmax(dim=-1).view(by_text).cpu()
