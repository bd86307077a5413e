"""Triton kernel that computes the random numbers of `philox.py` on the GPU, in one launch of a captured decode step."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def uniform_kernel(out_ptr, seeds_ptr, choices_ptr, positions_ptr, count, ROWS: tl.constexpr):
    """Triton kernel that writes one random number in [0, 1) per row: the number of `philox.uniform`.

    Grid: (count / ROWS,). Inputs (seed, choice and position of each row) are int64, the output is float64.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < count
    position = tl.load(positions_ptr + row, mask=inside, other=0)
    choice = tl.load(choices_ptr + row, mask=inside, other=0)
    seed = tl.load(seeds_ptr + row, mask=inside, other=0)
    high, low, _, _ = tl.philox(
        seed.to(tl.uint64, bitcast=True),
        position.to(tl.uint32),
        (position >> 32).to(tl.uint32),
        choice.to(tl.uint32),
        tl.zeros([ROWS], tl.uint32),
    )
    bits = ((high >> 5).to(tl.int64) << 26) + (low >> 6).to(tl.int64)
    tl.store(out_ptr + row, bits.to(tl.float64) * 1.1102230246251565e-16, mask=inside)


def uniform(seed: Tensor, choice: Tensor, position: Tensor) -> Tensor:
    """Return each row's random number in [0, 1) on the GPU, equal to that of `philox.uniform`, in one kernel launch.

    `seed`, `choice` and `position` are dense [R] int64; the result is [R] float64.
    """
    out = torch.empty_like(seed, dtype=torch.float64)
    uniform_kernel[(triton.cdiv(len(seed), 128),)](out, seed, choice, position, len(seed), ROWS=128)
    return out
