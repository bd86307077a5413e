"""Pools the hidden states of a text's tokens to the text's embedding vector, and truncates and normalises vectors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from inference_worker.model_files.embedding_folder import Pooling


def pool(states: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
    """Pool the hidden states of each text's tokens to one vector per text: [texts, size] in float32, not normalised.

    Args:
        states: hidden states, [texts, width, size], padded on the right.
        lengths: [texts], tokens of each text, at least 1.
        pooling: the model's kind of pooling.
    """
    states = states.float()
    if pooling == "cls":
        return states[:, 0]
    if pooling == "last":
        return states[torch.arange(len(lengths), device=states.device), lengths - 1]
    real = (torch.arange(states.shape[1], device=states.device) < lengths[:, None])[..., None]
    if pooling == "max":
        return states.masked_fill(~real, float("-inf")).amax(dim=1)
    return (states * real).sum(dim=1) / lengths[:, None]


def truncated(vectors: Tensor, dimensions: int | None) -> Tensor:
    """Cut each row of `vectors` to its first `dimensions` numbers (`None`: all), scaled to Euclidean length 1."""
    return F.normalize(vectors[..., :dimensions], dim=-1)
