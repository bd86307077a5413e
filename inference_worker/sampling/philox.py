"""Counter-based random numbers: the same (seed, choice, position) gives the same number in any batch and process.

Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, in torch
int64 operations (a wrapped 64-bit product still has the right bits). Knows no requests and keeps no state.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox4x32(counter: Tensor, key: Tensor) -> Tensor:
    """The block function.

    Args:
        counter: [4, R] int64, each in 0 .. 2**32-1.
        key: [2, R] int64, likewise.

    Returns:
        [4, R] int64, likewise.
    """
    multipliers = torch.tensor(_MULTIPLIERS, device=key.device)[:, None]
    weyl = torch.tensor(_WEYL, device=key.device)[:, None]
    even, odd = counter[0::2], counter[1::2]
    for _ in range(_ROUNDS):
        product = even * multipliers
        even = ((product >> 32) & _MASK).flip(0) ^ odd ^ key
        odd = (product & _MASK).flip(0)
        key = (key + weyl) & _MASK
    return torch.stack((even[0], odd[0], even[1], odd[1]))


def uniform(seed: Tensor, choice: Tensor, position: Tensor) -> Tensor:
    """One number in [0, 1) with 53 random bits per row.

    Args:
        seed: [R] int64, all 64 bits count.
        choice, position: [R] int64, from 0.

    Returns:
        [R] float64.
    """
    counter = torch.stack((position & _MASK, (position >> 32) & _MASK, choice & _MASK, torch.zeros_like(choice)))
    words = philox4x32(counter, torch.stack((seed & _MASK, (seed >> 32) & _MASK)))
    return (((words[0] >> 5) << 26) + (words[1] >> 6)).to(torch.float64) * 2.0**-53
