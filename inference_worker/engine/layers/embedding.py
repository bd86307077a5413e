"""Defines the token embedding layer of the engine's decoders, whose table may serve as the output head too."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Embedding(nn.Module):
    """A table with one hidden vector per token id; with tied embeddings the same table is the output head."""

    def __init__(self, vocab_size: int, hidden: int, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden, dtype=dtype), requires_grad=False)

    def forward(self, token_ids: Tensor) -> Tensor:
        """Return the embedding vector of each token id: [T] to [T, hidden]."""
        return F.embedding(token_ids, self.weight)

    def scores(self, hidden: Tensor) -> Tensor:
        """Return logits, with the embedding table as output head: [R, hidden] states to [R, vocab] float32."""
        return F.linear(hidden, self.weight).float()
