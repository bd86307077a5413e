"""Linear projections with quantised weights: packed for few rows, dense for many, from the same weights.

Few rows wait for memory, many for arithmetic: the packed weight is read where its bytes count and the dense one where a
float32 matrix product is faster. Both stay in memory. PyTorch's packed operators are fast on AVX2 for bfloat16 inputs
only, so the packed product rounds inputs, scales and outputs to bfloat16. Nothing here knows files or models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from inference_worker.layers.linear import Linear

GROUP = 32
"""Weights of a row that share a scale and a minimum in int4."""


def packable(weight: Tensor) -> bool:
    """Whether PyTorch's packed operators take a weight of this shape: they work on tiles of 32 rows and columns."""
    return not any(size % GROUP for size in weight.shape)


class PackedWeight(Protocol):
    """A weight of [out, in] in an operator's own layout."""

    max_rows: int
    """Used up to so many rows: about where float32 caught up on a machine with AVX2; others may differ."""

    def product(self, x: Tensor) -> Tensor:
        """[R, in] bfloat16 to [R, out] bfloat16."""
        ...


@dataclass(frozen=True)
class Int4Values:
    """`codes * scales + minimums`: [out, in] uint8 below 16, and two of [out, in / 32] float32."""

    codes: Tensor
    scales: Tensor
    minimums: Tensor

    @staticmethod
    def stacked(parts: Sequence[Int4Values]) -> Int4Values:
        """Several matrices of the same width, one below the other."""
        columns = ([part.codes for part in parts], [part.scales for part in parts], [part.minimums for part in parts])
        return Int4Values(*(torch.cat(column) for column in columns))

    def dense(self) -> Tensor:
        """[out, in] float32."""
        groups = self.codes.view(*self.scales.shape, GROUP).float()
        return (groups * self.scales[..., None] + self.minimums[..., None]).flatten(1)


class Int4Weight:
    """Groups of 32, affine: the codes of a Q4_0 or Q4_1 are kept as they are, their scales rounded to bfloat16."""

    max_rows = 12

    def __init__(self, values: Int4Values) -> None:
        self.packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(values.codes.int(), 1)
        # The operator counts codes from 8: q * scale + minimum = (q - 8) * scale + (minimum + 8 * scale).
        zeros = values.minimums + 8 * values.scales
        self.scales_and_zeros = torch.stack((values.scales.T, zeros.T), dim=-1).bfloat16().contiguous()

    def product(self, x: Tensor) -> Tensor:
        """See `PackedWeight.product`."""
        out: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.packed, GROUP, self.scales_and_zeros)
        return out


class Int8Weight:
    """One scale a row, symmetric: made of the dense weight."""

    max_rows = 8

    def __init__(self, weight: Tensor) -> None:
        scales = weight.float().abs().amax(dim=1).clamp_min(1e-12) / 127
        # Rounded first: codes are chosen for the scale that the operator multiplies by.
        self.scales = scales.bfloat16()
        codes = weight.float() / self.scales.float()[:, None]
        self.codes = codes.round().clamp(-127, 127).to(torch.int8)

    def product(self, x: Tensor) -> Tensor:
        """See `PackedWeight.product`."""
        return torch._weight_int8pack_mm(x, self.codes, self.scales)


class QuantizedLinear(nn.Module):
    """Takes the place of a loaded `Linear`."""

    def __init__(self, dense: Linear, packed: PackedWeight) -> None:
        super().__init__()
        self.dense = dense
        self.packed = packed

    def forward(self, x: Tensor) -> Tensor:
        """[R, in] to [R, out]."""
        if x.shape[0] > self.packed.max_rows:
            out: Tensor = self.dense(x)
            return out
        out = self.packed.product(x.bfloat16()).to(x.dtype)
        return out if self.dense.bias is None else out + self.dense.bias
