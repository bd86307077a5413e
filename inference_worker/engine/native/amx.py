"""AMX, Intel's matrix unit: asks the operating system for its registers, and checks the kernels that use it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import c_long

import torch
from torch import Tensor

from inference_worker.engine.native.packing import GROUP, Int4Values, Int8Values, PackedWeight, Values, pack
from inference_worker.errors import NativeUnavailable
from inference_worker.settings import ActivationBits

FEW = 15
"""Rows that fill no tile of AMX, `kTileRows - 1` in `src/amx.h`."""
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA = 158, 0x1023, 18
"""Number of the system call on x86-64, and its arguments."""


def request_tiles() -> None:
    """Ask the kernel to let this process use AMX's tile registers, all threads included; without it they would crash.

    Raises:
        NativeUnavailable: the kernel or a hypervisor has no AMX, or a policy refuses it.
    """
    system = ctypes.CDLL(None, use_errno=True)
    if system.syscall(c_long(_ARCH_PRCTL), c_long(_ARCH_REQ_XCOMP_PERM), c_long(_XTILEDATA)):
        raise NativeUnavailable(f"no permission to use AMX: {os.strerror(ctypes.get_errno())}")


def check_products(linear: Callable[[PackedWeight, Tensor], Tensor], panel: int) -> None:
    """Raise `NativeUnavailable` if products by AMX are not those of AVX-512, or, of bfloat16, not those of PyTorch.

    Args:
        linear: `Kernels.linear`.
        panel: `Kernels.panel`.
    """
    generator = torch.Generator().manual_seed(0)
    outputs, inputs = 2 * panel, 3 * GROUP
    codes = torch.randint(0, 16, (outputs, inputs), generator=generator, dtype=torch.uint8)
    scales, minimums = torch.rand(2, outputs, inputs // GROUP, generator=generator)
    weights: list[Values] = [
        Int4Values(codes, scales, -8 * minimums),
        Int8Values.of(torch.randn(outputs, inputs, generator=generator)),
    ]
    kinds: list[ActivationBits] = ["auto", 16, 8]
    rows = torch.randn(3 * FEW, inputs, generator=generator)
    for values in weights:
        for bits in kinds:
            weight = pack(values, panel=panel, activation_bits=bits)
            few = torch.cat([linear(weight, rows[at : at + FEW]) for at in range(0, len(rows), FEW)])
            if not torch.equal(linear(weight, rows), few):
                raise NativeUnavailable(f"AMX computes other products of {type(values).__name__} than AVX-512")
    matrix, whole = (torch.randint(-8, 9, (each, inputs), generator=generator).float() for each in (outputs, len(rows)))
    weight = pack(matrix.bfloat16(), panel=panel, paired=True)
    if not torch.equal(linear(weight, whole), whole @ matrix.T):  # sums of whole numbers are exact in any order
        raise NativeUnavailable("AMX computes other products of bfloat16 than PyTorch")
