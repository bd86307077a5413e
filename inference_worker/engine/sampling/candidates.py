"""Selects each row's k highest-scored tokens for sampling without sorting the vocabulary; ties go to the lower id.

A score and its token id are packed into one integer that sorts as they do: the higher score first, the lower id first
among equal scores. So every order here is total, and a result does not depend on the batch.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

GROUP = 32
"""Number of neighbouring tokens in the vocabulary whose maximum is compared first."""
_LAST = 0x7FFFFFFF


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each row's `count` highest scores, best first, and their token ids: [R, V] float32 to two [R, count]."""
    vocabulary = scores.shape[1]
    if vocabulary % GROUP or count * GROUP * 4 > vocabulary:
        keys = _keys(scores, torch.arange(vocabulary, device=scores.device))
    else:
        # The best tokens are in the `count` groups with the highest maxima; among equal maxima in the first ones.
        groups = _groups(scores)
        leaders = groups.amax(dim=-1)
        chosen = _ids(_largest(_keys(leaders, torch.arange(leaders.shape[1], device=scores.device)), count))
        ids = (chosen[:, :, None] * GROUP + torch.arange(GROUP, device=scores.device)).flatten(1)
        keys = _keys(_members(groups, chosen).flatten(1), ids)
    found = _largest(keys, min(count, vocabulary))
    return _scores(found), _ids(found)


def top_token(scores: Tensor) -> Tensor:
    """Return the token id of each row's highest score, the lowest id among equal scores: [R, V] to [R]."""
    if scores.shape[1] % GROUP:
        return scores.argmax(dim=-1)
    groups = _groups(scores)
    group = groups.amax(dim=-1).argmax(dim=-1, keepdim=True)
    return (group * GROUP)[:, 0] + _members(groups, group)[:, 0].argmax(dim=-1)


def in_order_of_ids(ids: Tensor) -> Tensor:
    """Return the indices that sort each row's distinct token ids in ascending order: [R, K] ids to [R, K] indices."""
    keys = _joined(ids.int(), torch.arange(ids.shape[1], dtype=torch.int32, device=ids.device))
    ordered = torch.from_numpy(np.sort(keys.numpy())) if keys.device.type == "cpu" else keys.sort(dim=-1).values
    return _halves(ordered)[1].long()


def _largest(keys: Tensor, count: int) -> Tensor:
    """Return each row's largest keys, descending. On the CPU by numpy, which is ten times as fast as torch here."""
    if keys.device.type != "cpu":
        return keys.topk(count).values
    rest = keys.shape[1] - count
    kept = np.partition(keys.numpy(), rest)[:, rest:] if rest else keys.numpy()
    return torch.from_numpy(np.sort(kept)).flip(1)


def _keys(scores: Tensor, ids: Tensor) -> Tensor:
    return _joined(_ordered((scores + 0.0).view(torch.int32)), _LAST - ids.int())  # adding 0 turns -0 into 0


def _ids(keys: Tensor) -> Tensor:
    return _LAST - _halves(keys)[1].long()


def _scores(keys: Tensor) -> Tensor:
    return _ordered(_halves(keys)[0]).view(torch.float32)


def _joined(high: Tensor, low: Tensor) -> Tensor:
    """Join [R, N] int32 and as many non-negative int32 to int64, by bytes (little-endian) because shifting is slow."""
    return torch.stack((low.expand_as(high), high), dim=-1).view(torch.int64)[..., 0]


def _halves(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Split [R, N] int64 into the high and the low int32."""
    low, high = keys.contiguous().view(torch.int32).view(*keys.shape, 2).unbind(dim=-1)
    return high.contiguous(), low


def _ordered(bits: Tensor) -> Tensor:
    """Map the bits of a float to an integer of the same order, or back."""
    return bits ^ (bits >> 31 & _LAST)


def _groups(scores: Tensor) -> Tensor:
    return scores.view(scores.shape[0], -1, GROUP)


def _members(groups: Tensor, chosen: Tensor) -> Tensor:
    """Gather the chosen groups: [R, G, GROUP] and [R, C] to [R, C, GROUP]."""
    rows = torch.arange(len(groups), device=groups.device)[:, None] * groups.shape[1]
    return groups.flatten(0, 1)[(rows + chosen).flatten()].view(*chosen.shape, GROUP)
