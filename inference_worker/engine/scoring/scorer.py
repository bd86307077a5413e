"""Computes the scores of a cross-encoder for pairs of texts, in padded batches: token ids to one logit per pair.

Loading tests whether padded batches give correct scores, instead of relying on a list of architectures.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from inference_worker.engine_protocol import ScoreInput
from inference_worker.errors import UnsupportedModel

TOLERANCE = {torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}
"""Largest difference of a logit in a padded batch from the logit alone, as a share of the largest one."""


class PairScorer:
    """A cross-encoder: the classifier of an encoder reads a pair of texts and computes one logit."""

    def __init__(self, model: PreTrainedModel, positions: int) -> None:
        """Wrap a model for sequence classification with one label, of `positions` tokens at most."""
        self.module = model
        self._device = next(model.parameters()).device
        self._padding = getattr(model.config, "pad_token_id", None) or 0
        self.vocab_size: int = model.config.vocab_size
        self.positions = positions
        self._has_segments = "token_type_ids" in inspect.signature(model.forward).parameters

    @torch.inference_mode()
    def logits(self, inputs: Sequence[ScoreInput]) -> list[Tensor]:
        """Compute the logit of each pair of texts in one padded batch, in float32 on the CPU."""
        arguments: dict[str, Any] = self._padded(inputs)
        if self._has_segments:
            width = arguments["input_ids"].shape[1]
            second = torch.tensor([each.second_from for each in inputs])
            real = torch.tensor([len(each.ids) for each in inputs])
            places = torch.arange(width)
            segments = (places >= second[:, None]) & (places < real[:, None])
            arguments["token_type_ids"] = segments.long().to(self._device)
        return list(self.module(**arguments).logits.float().cpu())

    def check_padding(self) -> None:
        """Check that the model scores pairs in a padded batch as it scores each of them alone; called after loading.

        Raises:
            UnsupportedModel: the scores differ.
        """
        name = self.module.config.model_type
        inputs = [self._some_input(5), self._some_input(12)]
        try:
            together = torch.cat(self.logits(inputs))
            alone = torch.cat([score for each in inputs for score in self.logits([each])])
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError) as error:
            raise UnsupportedModel(f"{name} can't be used for scores: {error}") from error
        allowed = TOLERANCE.get(self.module.dtype, 1e-3) * max(1.0, float(alone.abs().max()))
        if not bool((together - alone).abs().max() <= allowed):
            raise UnsupportedModel(f"{name} computes something else in a padded batch")

    def _some_input(self, count: int) -> ScoreInput:
        """Return distinct test ids without the padding id."""
        ids = [(place * 7919 + count) % self.vocab_size for place in range(1, count + 1)]
        ids = [id_ if id_ != self._padding else self._padding + 1 for id_ in ids]
        return ScoreInput(ids, count, [])

    def _padded(self, inputs: Sequence[ScoreInput]) -> dict[str, Tensor]:
        """Return ids padded on the right, and their mask unless all inputs have the same length."""
        lengths = torch.tensor([len(each.ids) for each in inputs])
        width = int(lengths.max())
        ids = torch.tensor([each.ids + [self._padding] * (width - len(each.ids)) for each in inputs])
        arguments = {"input_ids": ids.to(self._device)}
        if int(lengths.min()) < width:
            arguments["attention_mask"] = (torch.arange(width) < lengths[:, None]).long().to(self._device)
        return arguments
