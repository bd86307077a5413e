"""Loads an embedding model's encoder by the code of `transformers`, and computes the vectors of texts' token ids.

Safetensors only, never a repository's own code. Loading tests whether padded batches give correct vectors, instead of
relying on a list of architectures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedModel

from inference_worker.engine.embedding.pooling import pool
from inference_worker.engine.loading.model_loader import read_config
from inference_worker.engine.weights.pretrained import from_pretrained
from inference_worker.engine.weights.weights import SafetensorsFolder
from inference_worker.errors import UnsupportedModel
from inference_worker.model_files.embedding_folder import EmbeddingConfig

FALLBACK_LENGTH = 512
"""Longest input in tokens of a model whose configuration has no limit."""
TOLERANCE = {torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}
"""Largest difference of a vector in a padded batch from the vector alone, as a share of its largest number, by the
number format of the products."""


class Encoder:
    """A loaded encoder model that turns token ids into one vector per text by its configured pooling."""

    def __init__(self, model: PreTrainedModel, config: EmbeddingConfig, products: torch.dtype) -> None:
        """Wrap the model and test it.

        If `products` is not the model's number format, matrices are multiplied in it, and all else is computed in the
        model's format (mixed precision).

        Raises:
            UnsupportedModel: the model computes other vectors in padded batches than for single texts.
        """
        self.products = products
        """Number format in which the model's matrices are multiplied."""
        self._is_mixed = products != model.dtype
        if self._is_mixed:
            _convert_linear_layers(model, products)
        self.module = model
        self._pooling = config.pooling
        self._device = next(model.parameters()).device
        self._padding = getattr(model.config, "pad_token_id", None) or 0
        self.vocab_size: int = model.config.vocab_size
        self.dimensions = self._check_padding()
        self.positions = max_positions(model)
        """Longest input in tokens that can be computed."""
        self.max_tokens = min(config.max_tokens or self.positions, self.positions)
        """Longest input in tokens that the model was trained for."""

    @torch.inference_mode()
    def embed(self, texts: Sequence[list[int]]) -> Tensor:
        """Compute the vectors of texts (lists of token ids): [texts, dimensions] float32 on the CPU, not normalised."""
        lengths = torch.tensor([len(ids) for ids in texts])
        width = int(lengths.max())
        padded = torch.tensor([ids + [self._padding] * (width - len(ids)) for ids in texts])
        mask = (torch.arange(width) < lengths[:, None]).long()
        with torch.autocast(self._device.type, self.products, enabled=self._is_mixed):
            outputs = self.module(input_ids=padded.to(self._device), attention_mask=mask.to(self._device))
        states = outputs.last_hidden_state
        return pool(states, lengths.to(self._device), self._pooling).cpu()

    def _check_padding(self) -> int:
        name = self.module.config.model_type
        texts = [self._some_ids(5), self._some_ids(12)]
        try:
            together = self.embed(texts)
            alone = torch.cat([self.embed([ids]) for ids in texts])
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError) as error:
            raise UnsupportedModel(f"{name} can't be used as an encoder: {error}") from error
        allowed = TOLERANCE.get(self.products, 1e-3) * float(alone.abs().max())
        if not bool((together - alone).abs().max() <= allowed):
            raise UnsupportedModel(f"{name} computes something else in a padded batch")
        return int(alone.shape[1])

    def _some_ids(self, count: int) -> list[int]:
        """Return distinct test ids without the padding id."""
        ids = [(place * 7919 + count) % self.vocab_size for place in range(1, count + 1)]
        return [id_ if id_ != self._padding else self._padding + 1 for id_ in ids]


def max_positions(model: PreTrainedModel) -> int:
    """Return the most tokens that a text may have in an encoder, by the size of the encoder's position embeddings.

    Some families (RoBERTa's) count positions from the padding id on, which leaves fewer.
    """
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            taken = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - taken
    return getattr(model.config, "max_position_embeddings", None) or FALLBACK_LENGTH


def _convert_linear_layers(model: nn.Module, dtype: torch.dtype) -> None:
    """Convert the matrices of linear layers to `dtype` once; automatic mixed precision would do it for each batch."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.to(dtype)


def load(
    folder: Path, config: EmbeddingConfig, dtype: torch.dtype, products: torch.dtype, device: torch.device
) -> Encoder:
    """Load the embedding encoder in `folder` from its safetensors onto `device`, and test that padded batches work.

    Its number format is `dtype`, but matrices are multiplied in the format `products`.

    Raises:
        UnsupportedModel: the model is not an encoder, or gives other vectors in padded batches.
        BadWeights: the checkpoint is damaged or incomplete.
    """
    described = read_config(folder)
    if getattr(described, "is_encoder_decoder", False):
        raise UnsupportedModel(f"{described.model_type} is an encoder-decoder: no embeddings of it are served")
    SafetensorsFolder(folder).shapes()
    # The pooler is a classification head, which embeddings do not use.
    model = from_pretrained(AutoModel, folder, described, dtype, unused="pooler.")
    return Encoder(model.to(device).eval().requires_grad_(False), config, products)
