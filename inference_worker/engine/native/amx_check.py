"""Checks products by AMX: `python -m inference_worker.engine.native.amx_check PARENT INSTRUCTIONS THREADS`.

`amx.py` starts it: a process of its own, because it crashes where a processor or hypervisor is broken.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from inference_worker.engine.native.library import Kernels
from inference_worker.engine.native.packing import GROUP, Int4Values, Int8Values, pack
from inference_worker.errors import NativeError, NativeUnavailable
from inference_worker.settings import ActivationBits
from runtime.parent_death import end_with_parent

FEW = 15
"""Rows that fill no tile of AMX, `kTileRows - 1` in `src/amx.h`."""
ROWS = (1, FEW, FEW + 1, FEW + 2, 3 * FEW, 2 * 32 + 20)
"""Numbers of rows: one, those around a tile, and some that end with a part of a tile or of two."""
_BITS: tuple[ActivationBits, ...] = ("auto", 16, 8)


def check_products(linear: Callable[..., Tensor], panel: int, threads: int = 1) -> None:
    """Check products by AMX: those of bytes are those of AVX-512, others as near to PyTorch's as bfloat16 allows.

    Args:
        linear: `Kernels.linear`.
        panel: `Kernels.panel`.
        threads: number of threads of the kernels; each has outputs to compute.

    Raises:
        NativeUnavailable: products differ.
    """
    generator = torch.Generator().manual_seed(0)
    outputs, inputs = 2 * panel * threads, 3 * GROUP
    codes = torch.randint(0, 16, (outputs, inputs), generator=generator, dtype=torch.uint8)
    scales, minimums = torch.rand(2, outputs, inputs // GROUP, generator=generator).half().float()
    weights: list[Int4Values | Int8Values] = [
        Int4Values(codes, scales, -8 * minimums),
        Int8Values.of(torch.randn(outputs, inputs, generator=generator)),
    ]
    x = torch.randn(max(ROWS), inputs, generator=generator)
    for values, bits, prompt in product(weights, _BITS, (False, True)):
        weight, kind = pack(values, panel=panel, activation_bits=bits), type(values).__name__
        few = torch.cat([linear(weight, x[at : at + FEW], prompt=prompt) for at in range(0, len(x), FEW)])
        if not all(torch.equal(linear(weight, x[:count], prompt=prompt), few[:count]) for count in ROWS):
            raise NativeUnavailable(f"AMX computes other products of {kind} for many rows than for few")
        dense = values.dequantise()
        if prompt and not ((few - x @ dense.T).abs() <= _largest_error(x, dense, bits)).all():
            raise NativeUnavailable(f"AMX computes other products of {kind} for prompts than PyTorch")
    matrix, whole = (torch.randint(-8, 9, (each, inputs), generator=generator).float() for each in (outputs, len(x)))
    weight = pack(matrix.bfloat16(), panel=panel, paired=True)
    expected = whole @ matrix.T  # sums of whole numbers are exact in any order
    if not all(torch.equal(linear(weight, whole[:count]), expected[:count]) for count in ROWS):
        raise NativeUnavailable("AMX computes other products of bfloat16 than PyTorch")


def _largest_error(x: Tensor, weight: Tensor, bits: ActivationBits) -> Tensor:
    """Return a bound of the errors of a prompt's products: [R, in] and [out, in] to [R, out].

    Panels of bfloat16 round rows and weights, by 1/256 at most; byte panels to codes of 1/127 of the largest, where
    half a step is rounding. Rows of 16 bits are nearer.
    """
    rows, weights = x.abs(), weight.abs()
    if bits == "auto":
        return 1.01 / 128 * rows @ weights.T  # a little for the order of sums
    largest_rows, largest_weights = (each.amax(dim=1, keepdim=True) for each in (rows, weights))
    sums, sums_of_weights = (each.sum(dim=1, keepdim=True) for each in (rows, weights))
    return (largest_rows @ sums_of_weights.T + sums @ largest_weights.T) / 127


def main(parent: int, instructions: str, threads: int) -> None:
    """Check the kernels of an instruction set with `threads`; exit with the reason if products differ.

    `parent`: id of the process that waits for the answer, with which this one ends.
    """
    end_with_parent(parent)
    try:
        kernels = Kernels(threads, instructions)
        check_products(kernels.linear, kernels.panel, threads)
    except (NativeUnavailable, NativeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
