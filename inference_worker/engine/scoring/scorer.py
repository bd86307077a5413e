"""Computes scores in padded batches: token ids to one logit for each input, or for each of its positions.

Loading tests whether padded batches give correct scores, instead of relying on a list of architectures.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from inference_worker.engine_protocol import ScoreInput
from inference_worker.errors import UnsupportedModel

TOLERANCE = {torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}
"""Largest difference of a logit in a padded batch from the logit alone, as a share of the largest one."""


class Scorer(ABC):
    """A loaded model that computes logits of scores."""

    def __init__(self, model: PreTrainedModel, positions: int) -> None:
        """Wrap `model`, which can compute inputs of `positions` tokens."""
        self._model = model
        self._device = next(model.parameters()).device
        self._padding = getattr(model.config, "pad_token_id", None) or 0
        self.vocab_size: int = model.config.vocab_size
        self.positions = positions

    @abstractmethod
    def logits(self, inputs: Sequence[ScoreInput]) -> list[Tensor]:
        """Compute the logits of each input, in float32 on the CPU: one for each position, or one if it has none."""

    def check_padding(self) -> None:
        """Compare a padded batch with single inputs.

        Raises:
            UnsupportedModel: the model computes other scores in padded batches.
        """
        name = self._model.config.model_type
        inputs = [self._some_input(5), self._some_input(12)]
        try:
            together = torch.cat(self.logits(inputs))
            alone = torch.cat([score for each in inputs for score in self.logits([each])])
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError) as error:
            raise UnsupportedModel(f"{name} can't be used for scores: {error}") from error
        allowed = TOLERANCE.get(self._model.dtype, 1e-3) * max(1.0, float(alone.abs().max()))
        if not bool((together - alone).abs().max() <= allowed):
            raise UnsupportedModel(f"{name} computes something else in a padded batch")

    def _some_input(self, count: int) -> ScoreInput:
        """Return distinct test ids without the padding id."""
        ids = [(place * 7919 + count) % self.vocab_size for place in range(1, count + 1)]
        ids = [id_ if id_ != self._padding else self._padding + 1 for id_ in ids]
        return ScoreInput(ids, count, [count // 2, count - 1])

    def _padded(self, inputs: Sequence[ScoreInput]) -> dict[str, Tensor]:
        """Return ids padded on the right, and their mask unless all inputs have the same length."""
        lengths = torch.tensor([len(each.ids) for each in inputs])
        width = int(lengths.max())
        ids = torch.tensor([each.ids + [self._padding] * (width - len(each.ids)) for each in inputs])
        arguments = {"input_ids": ids.to(self._device)}
        if int(lengths.min()) < width:
            arguments["attention_mask"] = (torch.arange(width) < lengths[:, None]).long().to(self._device)
        return arguments


class PairScorer(Scorer):
    """A cross-encoder: the classifier of an encoder reads a pair of texts and computes one logit."""

    def __init__(self, model: PreTrainedModel, positions: int) -> None:
        """Wrap a model for sequence classification with one label."""
        super().__init__(model, positions)
        self._has_segments = "token_type_ids" in inspect.signature(model.forward).parameters

    @torch.inference_mode()
    def logits(self, inputs: Sequence[ScoreInput]) -> list[Tensor]:
        """Compute the logit of each pair, in float32 on the CPU."""
        arguments: dict[str, Any] = self._padded(inputs)
        if self._has_segments:
            width = arguments["input_ids"].shape[1]
            second = torch.tensor([each.second_from for each in inputs])
            real = torch.tensor([len(each.ids) for each in inputs])
            places = torch.arange(width)
            segments = (places >= second[:, None]) & (places < real[:, None])
            arguments["token_type_ids"] = segments.long().to(self._device)
        return list(self._model(**arguments).logits.float().cpu())


class PositionScorer(Scorer):
    """A decoder with a head that reads the hidden states at chosen positions and computes one logit at each."""

    def __init__(self, model: PreTrainedModel, head: nn.Module, positions: int) -> None:
        """Wrap the base `model`, and a `head` in float32 that maps states [N, hidden] to logits [N]."""
        super().__init__(model, positions)
        self._head = head

    @torch.inference_mode()
    def logits(self, inputs: Sequence[ScoreInput]) -> list[Tensor]:
        """Compute the logits at the positions of each input, in float32 on the CPU."""
        states = self._model(**self._padded(inputs), use_cache=False).last_hidden_state
        counts = [len(each.positions) for each in inputs]
        rows = torch.repeat_interleave(torch.arange(len(inputs)), torch.tensor(counts))
        columns = torch.tensor([position for each in inputs for position in each.positions])
        read = states[rows.to(self._device), columns.to(self._device)]
        return list(self._head(read.float()).cpu().split(counts))
