"""The numbers of a captured step, drawn on the host: what the Triton kernel draws on a device."""

from __future__ import annotations

import torch
from torch import Tensor

from inference_worker.engine.sampling import philox


def uniform(seed: Tensor, choice: Tensor, position: Tensor) -> Tensor:
    """[R] int64 each, to [R] float64."""
    words = (numbers.contiguous().numpy().view("uint64") for numbers in (seed, choice, position))
    return torch.from_numpy(philox.uniform(*words))
