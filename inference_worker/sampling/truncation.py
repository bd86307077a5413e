"""Cuts unlikely tokens off a distribution: min_p, top_k and top_p, in this order (vLLM's).

min_p: Nguyen et al. 2024; top_k: Fan et al. 2018; top_p: Holtzman et al. 2020. Equal scores keep the order
of their token ids, so exactly `top_k` tokens stay and the outcome does not depend on the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor


def apply_min_p(logits: Tensor, min_p: Tensor) -> Tensor:
    """Drop tokens less likely than `min_p` times the likeliest.

    Args:
        logits: [R, V], after temperature.
        min_p: [R], 0 is off.

    Returns:
        [R, V] with -inf where dropped.
    """
    floor = logits.amax(dim=-1, keepdim=True) + min_p.log()[:, None]
    return logits.masked_fill(logits < floor, float("-inf"))


def apply_top_k_top_p(logits: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Keep the `top_k` likeliest tokens, and of those the fewest whose probability reaches `top_p`.

    Args:
        logits: [R, V], after temperature.
        top_k: [R] int64, 0 is off.
        top_p: [R], 1 is off. The likeliest token always stays.

    Returns:
        [R, V] with -inf where dropped.
    """
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(logits.shape[1], device=logits.device)
    ordered.masked_fill_((rank >= top_k[:, None]) & (top_k[:, None] > 0), float("-inf"))
    before = ordered.double().softmax(dim=-1).cumsum(dim=-1).roll(1, dims=-1)
    before[:, 0] = 0.0
    ordered.masked_fill_((before >= top_p[:, None]) & (top_p[:, None] < 1) & (rank > 0), float("-inf"))
    return torch.empty_like(logits).scatter_(1, order, ordered)
