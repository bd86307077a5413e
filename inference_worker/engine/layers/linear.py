"""Defines the linear layers of the engine's decoders: a single projection, and several of one input merged to one.

Merged: matrices with the same input are one matrix, so that the input is read once and one call does the work of three
(query, key, value) or two (gate, up). Checkpoints store them apart, so `parts` gives the rows of each
(`weights/weights.py` fills them). Parameters are left uninitialised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Linear(nn.Module):
    """A linear layer for inference: `x @ weight.T + bias`, weight is [out, in]."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = _parameter((outputs, inputs), dtype)
        self.bias = _parameter((outputs,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the projection of `x`, `x @ weight.T + bias`: [..., in] to [..., out]."""
        return F.linear(x, self.weight, self.bias)


class MergedLinear(Linear):
    """Several projections of one input as rows of one matrix; `parts` maps each name to its number of rows."""

    def __init__(self, inputs: int, parts: Mapping[str, int], *, bias: bool, dtype: torch.dtype) -> None:
        super().__init__(inputs, sum(parts.values()), bias=bias, dtype=dtype)
        self.parts = dict(parts)

    def views(self) -> Iterator[tuple[str, Tensor]]:
        """Yield each merged projection's weight and bias, named as in checkpoints: views of the merged parameters.

        A name is such as `q_proj.weight`. Used to load the parts, which checkpoints store apart.
        """
        start = 0
        for part, rows in self.parts.items():
            yield f"{part}.weight", self.weight[start : start + rows]
            if self.bias is not None:
                yield f"{part}.bias", self.bias[start : start + rows]
            start += rows


def _parameter(size: tuple[int, ...], dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(torch.empty(size, dtype=dtype), requires_grad=False)
