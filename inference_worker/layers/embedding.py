"""Tokens to vectors, and vectors to scores over the vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Embedding(nn.Module):
    """A table of one row a token; the output head of a model with tied embeddings is the same table."""

    def __init__(self, vocab_size: int, hidden: int, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden, dtype=dtype), requires_grad=False)

    def forward(self, token_ids: Tensor) -> Tensor:
        """[T] to [T, hidden]."""
        return F.embedding(token_ids, self.weight)

    def scores(self, hidden: Tensor) -> Tensor:
        """[R, hidden] to [R, vocab] float32."""
        return F.linear(hidden, self.weight).float()
