"""Defines root mean square layer normalisation (Zhang and Sennrich, 2019), which the engine's decoders use."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    """RMS normalisation, `weight * x / sqrt(mean(x^2) + eps)`; the mean is computed in float32 for any dtype."""

    def __init__(self, size: int, eps: float, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, dtype=dtype), requires_grad=False)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with each vector of its last dimension divided by its root mean square, times the weight.

        The shape stays the same.
        """
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
