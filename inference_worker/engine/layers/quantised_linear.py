"""Defines a linear layer of the engine's decoders with an int4, int8 or FP8 matrix, multiplied by Triton kernels.

Importing this module loads Triton, so import it only where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import triton
from torch import Tensor, nn

from inference_worker.engine.layers.linear import Linear
from inference_worker.engine.layers.quantised_kernels import product_kernel
from inference_worker.engine.native.packing import GROUP, Fp8Values, Int4Values, Int8Values
from inference_worker.engine.triton_support import product_format

WIDE_GROUP = 128
"""Inputs that share a scale in memory where all of a matrix's neighbouring groups of 32 have the same."""

MatrixFormat = Literal["float", "int8", "int4", "fp8"]
"""The format of a matrix in memory, as `quantised_kernels.py` describes it."""


@dataclass(frozen=True)
class KernelMatrix:
    """A matrix of [outputs, inputs] as the Triton kernels read it.

    Attributes:
        format: a `FORMAT` of `quantised_kernels.py`, which describes the tensors.
        codes, scales, minimums: on the device; those that the format lacks are `codes`, which is not read as such.
        group: inputs that share a scale.
    """

    format: MatrixFormat
    outputs: int
    inputs: int
    codes: Tensor
    scales: Tensor
    minimums: Tensor
    group: int


@dataclass(frozen=True)
class Tiling:
    """Launch parameters of `product_kernel`: rows, outputs and inputs of a product, warps, pipeline stages."""

    rows: int
    outputs: int
    inputs: int
    warps: int
    stages: int


class QuantisedLinear(nn.Module):
    """A linear layer for inference whose matrix stays quantised: `x @ weight.T + bias`."""

    def __init__(self, values: Int4Values | Int8Values | Fp8Values, bias: Tensor | None, device: torch.device) -> None:
        """Pack the matrix on the CPU, and copy it to `device`. `bias`: [out], in the format of the activations."""
        super().__init__()
        self.format: MatrixFormat
        self.outputs, self.inputs = values.codes.shape
        scales, minimums, short = values.scales, None, torch.float16
        match values:
            case Int4Values():
                self.format, codes = "int4", values.codes[:, ::2] | values.codes[:, 1::2] << 4
                minimums = values.minimums
            case Int8Values():
                self.format, codes = "int8", values.codes
            case Fp8Values():  # its scales are of whole blocks or rows, and few
                self.format, codes, short = "fp8", values.codes.view(torch.uint8), torch.float32
        self.group = GROUP
        if self.inputs % WIDE_GROUP == 0 and _are_wide(scales) and (minimums is None or _are_wide(minimums)):
            self.group = WIDE_GROUP
            scales, minimums = _first_of_wide(scales), None if minimums is None else _first_of_wide(minimums)
        self.codes = _constant(codes, device)
        self.scales = _constant(scales.to(short), device)
        self.minimums = None if minimums is None else _constant(minimums.to(short), device)
        self.bias = None if bias is None else _constant(bias, device)

    def forward(self, x: Tensor) -> Tensor:
        """Return the projection of `x`, `x @ weight.T + bias`: [..., in] to [..., out], in the format of `x`."""
        rows = x.reshape(-1, self.inputs).contiguous()
        out = x.new_empty((len(rows), self.outputs))
        matrix, launch = kernel_matrix(self), tiling(len(rows), x.itemsize)
        product_kernel[(triton.cdiv(self.outputs, launch.outputs), triton.cdiv(len(rows), launch.rows))](
            out,
            rows,
            matrix.codes,
            matrix.scales,
            matrix.minimums,
            matrix.codes if self.bias is None else self.bias,
            len(rows),
            self.inputs,
            self.outputs,
            BIAS=self.bias is not None,
            FORMAT=matrix.format,
            GROUP=matrix.group,
            BLOCK_ROWS=launch.rows,
            BLOCK_OUT=launch.outputs,
            BLOCK_IN=launch.inputs,
            STAGES=launch.stages,
            PRODUCT=product_format(x.dtype),
            num_warps=launch.warps,
        )
        return out.view(*x.shape[:-1], self.outputs)


def kernel_matrix(linear: Linear | QuantisedLinear) -> KernelMatrix:
    """Return the matrix of a linear layer, quantised or not, as the Triton kernels read it."""
    if isinstance(linear, Linear):
        outputs, inputs = linear.weight.shape
        return KernelMatrix("float", outputs, inputs, linear.weight, linear.weight, linear.weight, GROUP)
    minimums = linear.codes if linear.minimums is None else linear.minimums
    return KernelMatrix(
        linear.format, linear.outputs, linear.inputs, linear.codes, linear.scales, minimums, linear.group
    )


def tiling(rows: int, itemsize: int) -> Tiling:
    """Return the launch parameters of `product_kernel` for a number of rows of numbers of `itemsize` bytes.

    They are estimates, which fit the shared memory of all GPUs from compute capability 8.0 on. Float32 uses no tensor
    cores, so its tiles are small enough for registers. A tensor core's product has 16 rows at least.
    """
    if itemsize > 2:
        return Tiling(16, 32, 32, warps=4, stages=2)
    if rows <= 16:
        return Tiling(16, 32, 128, warps=4, stages=4)
    if rows <= 64:
        return Tiling(64, 64, 64, warps=4, stages=3)
    return Tiling(128, 128, 64, warps=8, stages=3)


def _are_wide(numbers: Tensor) -> bool:
    """Return whether all groups of 32 inputs in a group of `WIDE_GROUP` have the same number, [out, in / 32]."""
    wide = numbers.view(len(numbers), -1, WIDE_GROUP // GROUP)
    return bool((wide == wide[..., :1]).all())


def _first_of_wide(numbers: Tensor) -> Tensor:
    return numbers[:, :: WIDE_GROUP // GROUP]


def _constant(tensor: Tensor, device: torch.device) -> nn.Parameter:
    return nn.Parameter(tensor.contiguous().to(device), requires_grad=False)
