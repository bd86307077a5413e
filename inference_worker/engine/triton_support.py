"""What all of the engine's Triton kernels share: whether they can run, and the number formats of matrix products."""

from __future__ import annotations

import os
import shutil

import torch
import triton
import triton.language as tl

from inference_worker.errors import NativeUnavailable, UnsupportedModel

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""Whether kernels run in Triton's interpreter on the CPU, for tests."""


def product_format(dtype: torch.dtype) -> tl.dtype:
    """Return the number format of matrix products with `dtype`; Triton's interpreter has no bfloat16 product."""
    if INTERPRETED:
        return tl.float32
    return {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}[dtype]


def check_usable(device: torch.device) -> None:
    """Check that Triton kernels can run on `device`.

    Raises:
        UnsupportedModel: it is no CUDA device.
        NativeUnavailable: there is no C compiler.
    """
    if device.type != "cuda" and not INTERPRETED:
        raise UnsupportedModel(f"attention backend 'triton' is for CUDA, not for {device}")
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        raise NativeUnavailable("Triton needs a C compiler (gcc or clang) for its link to the driver")
