"""The best tokens of each row, without sorting the vocabulary.

A score and its token id make one integer that sorts as they do: the higher score first, of equal ones the lower id. So
every order here is total, and an answer does not depend on the batch. Knows scores only.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

GROUP = 32
"""Neighbours in the vocabulary whose best is looked at first."""
_LAST = 0x7FFFFFFF


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best of each row, best first: [R, V] float32 to scores and ids, [R, count]."""
    vocabulary = scores.shape[1]
    if vocabulary % GROUP or count * GROUP * 4 > vocabulary:
        keys = _keys(scores, torch.arange(vocabulary, device=scores.device))
    else:
        # They are in the `count` groups with the best leaders, of equal ones the first.
        groups = _groups(scores)
        leaders = groups.amax(dim=-1)
        chosen = _ids(_largest(_keys(leaders, torch.arange(leaders.shape[1], device=scores.device)), count))
        ids = (chosen[:, :, None] * GROUP + torch.arange(GROUP, device=scores.device)).flatten(1)
        keys = _keys(_members(groups, chosen).flatten(1), ids)
    found = _largest(keys, min(count, vocabulary))
    return _scores(found), _ids(found)


def first_best(scores: Tensor) -> Tensor:
    """The best token of each row, the first of equals: [R, V] to [R]."""
    if scores.shape[1] % GROUP:
        return scores.argmax(dim=-1)
    groups = _groups(scores)
    group = groups.amax(dim=-1).argmax(dim=-1, keepdim=True)
    return (group * GROUP)[:, 0] + _members(groups, group)[:, 0].argmax(dim=-1)


def in_order_of_ids(ids: Tensor) -> Tensor:
    """[R, K] ids, each once a row, to the places [R, K] at which they stand from the lowest to the highest."""
    keys = _joined(ids.int(), torch.arange(ids.shape[1], dtype=torch.int32, device=ids.device))
    ordered = torch.from_numpy(np.sort(keys.numpy())) if keys.device.type == "cpu" else keys.sort(dim=-1).values
    return _halves(ordered)[1].long()


def _largest(keys: Tensor, count: int) -> Tensor:
    """Of each row, descending. On the CPU by numpy, whose selection is vectorised: ten times as fast as torch's."""
    if keys.device.type != "cpu":
        return keys.topk(count).values
    rest = keys.shape[1] - count
    kept = np.partition(keys.numpy(), rest)[:, rest:] if rest else keys.numpy()
    return torch.from_numpy(np.sort(kept)).flip(1)


def _keys(scores: Tensor, ids: Tensor) -> Tensor:
    return _joined(_ordered((scores + 0.0).view(torch.int32)), _LAST - ids.int())  # adding turns -0 into 0, its equal


def _ids(keys: Tensor) -> Tensor:
    return _LAST - _halves(keys)[1].long()


def _scores(keys: Tensor) -> Tensor:
    return _ordered(_halves(keys)[0]).view(torch.float32)


def _joined(high: Tensor, low: Tensor) -> Tensor:
    """[R, N] int32 and as many that are not negative to int64, by bytes (little-endian): shifting is slow."""
    return torch.stack((low.expand_as(high), high), dim=-1).view(torch.int64)[..., 0]


def _halves(keys: Tensor) -> tuple[Tensor, Tensor]:
    """The high and the low parts of [R, N]."""
    low, high = keys.contiguous().view(torch.int32).view(*keys.shape, 2).unbind(dim=-1)
    return high.contiguous(), low


def _ordered(bits: Tensor) -> Tensor:
    """The bits of a float as an integer of the same order, and back."""
    return bits ^ (bits >> 31 & _LAST)


def _groups(scores: Tensor) -> Tensor:
    return scores.view(scores.shape[0], -1, GROUP)


def _members(groups: Tensor, chosen: Tensor) -> Tensor:
    """[R, G, GROUP] and [R, C] to [R, C, GROUP]."""
    rows = torch.arange(len(groups), device=groups.device)[:, None] * groups.shape[1]
    return groups.flatten(0, 1)[(rows + chosen).flatten()].view(*chosen.shape, GROUP)
