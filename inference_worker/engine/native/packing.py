"""Packs model weights in the CPU kernels' memory layout (`src/linear.h`): panels of outputs, groups of 32 inputs.

A panel has 8, 16 or 32 outputs, depending on the kernels' vector width (`Kernels.panel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from inference_worker.settings import ActivationBits

GROUP = 32
"""Number of an output's inputs that share a scale."""

FLOATS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
"""Values of `Format` in `src/linear.h` for the floating-point formats."""
INT8, INT4, UNSIGNED8 = 3, 4, 5


@dataclass(frozen=True)
class Int4Values:
    """An int4 weight, `codes * scales + minimums`: [out, in] uint8 below 16, and two of [out, in / 32] float32."""

    codes: Tensor
    scales: Tensor
    minimums: Tensor

    def dequantise(self) -> Tensor:
        """Return the weight that these 4-bit codes stand for as floats, [out, in] float32."""
        groups = self.codes.view(*self.scales.shape, GROUP).float()
        return (groups * self.scales[..., None] + self.minimums[..., None]).flatten(1)


@dataclass(frozen=True)
class Int8Values:
    """An int8 weight, `codes * scales`: [out, in] int8 and [out, in / 32] float32."""

    codes: Tensor
    scales: Tensor

    @staticmethod
    def of(weight: Tensor) -> Int8Values:
        """Quantise an [out, in] weight to int8 in groups of 32 inputs: symmetric, the largest magnitude becomes 127."""
        largest = weight.float().view(weight.shape[0], -1, GROUP).abs().amax(dim=-1)
        # Scales are rounded first, because the kernel multiplies codes by the rounded scale.
        return Int8Values.at(weight, (largest / 127).half().float())

    @staticmethod
    def at(weight: Tensor, scales: Tensor) -> Int8Values:
        """Round an [out, in] weight to int8 codes of the given `scales`, [out, in / 32]; where they are 0, to zeros."""
        groups = weight.float().view(*scales.shape, GROUP)
        codes = groups / torch.where(scales == 0, torch.inf, scales)[..., None]
        return Int8Values(codes.round().clamp(-128, 127).to(torch.int8).flatten(1), scales)

    def dequantise(self) -> Tensor:
        """Return the weight that these 8-bit codes stand for as floats, [out, in] float32."""
        return (self.codes.view(*self.scales.shape, GROUP) * self.scales[..., None]).flatten(1)


@dataclass(frozen=True)
class Fp8Values:
    """An FP8 weight, `codes * scales`: [out, in] float8_e4m3fn and [out, in / 32] float32; not for the CPU kernels."""

    codes: Tensor
    scales: Tensor

    def dequantise(self) -> Tensor:
        """Return the weight that these FP8 codes stand for as floats, [out, in] float32."""
        return (self.codes.float().view(*self.scales.shape, GROUP) * self.scales[..., None]).flatten(1)


Values = Tensor | Int4Values | Int8Values
"""A weight of [out, in]: floating point, or quantised."""

AnyValues = Values | Fp8Values
"""A weight of [out, in] in any format of a file that some kernels have: the CPU's, or those for CUDA."""

V = TypeVar("V", Values, AnyValues)


def concatenate(parts: Sequence[V]) -> V:
    """Return one weight with the outputs of several of one input size.

    Of weights of different formats it is int8: the others are rounded again, by at most 1/254 of a group's largest
    weight. If any is floating-point, it is of that type.
    """
    for one in parts:
        if isinstance(one, Tensor):
            return torch.cat([part if isinstance(part, Tensor) else part.dequantise().to(one.dtype) for part in parts])
    if len({type(part) for part in parts}) > 1:
        parts = [part if isinstance(part, Tensor | Int8Values) else Int8Values.of(part.dequantise()) for part in parts]
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return type(parts[0])(*map(torch.cat, columns))


def interleave_rows(rows: Tensor, every: int) -> Tensor:
    """Interleave the halves of a tensor's rows: `every` rows of the first, as many of the second, and so on."""
    return rows.view(2, -1, every, *rows.shape[1:]).transpose(0, 1).flatten(0, 2)


def interleave(values: Values, every: int) -> Values:
    """Interleave the two halves of a weight's outputs, `every` outputs at a time, for a float, int8 or int4 weight."""
    if isinstance(values, Tensor):
        return interleave_rows(values, every)
    return type(values)(*(interleave_rows(part, every) for part in vars(values).values()))


@dataclass(frozen=True)
class PackedWeight:
    """A weight of [out, in] in the kernels' layout.

    Attributes:
        format: a value of `Format` in `src/linear.h`.
        inputs, outputs: sizes of the weight.
        panel: number of outputs per panel.
        panels: the packed data; outputs are padded to whole panels.
        bias: [padded outputs] float32, or none.
        activation_bits: as of `pack`.
    """

    format: int
    inputs: int
    outputs: int
    panel: int
    panels: Tensor
    bias: Tensor | None = None
    activation_bits: ActivationBits = "auto"

    @property
    def padded_outputs(self) -> int:
        """Number of outputs that the kernels compute, padding included."""
        return len(self.panels) * self.panel


def pack(
    values: Values,
    bias: Tensor | None = None,
    *,
    panel: int,
    activation_bits: ActivationBits = "auto",
    signed: bool = False,
    paired: bool = False,
) -> PackedWeight:
    """Return a copy of a weight and its bias in the CPU kernels' layout: panels of `panel` outputs (`Kernels.panel`).

    Args:
        values: the weight.
        bias: [out], or none.
        panel: number of outputs per panel.
        activation_bits: bits of the activations with which an integer weight is multiplied: 16, 8, or "auto": 8, but 16
            for the largest of each group of 32 inputs (ADR 0083).
        signed: multiply an int8 weight as signed codes, two at a time, with rows that are all rounded to 16 bits.
        paired: lay a bfloat16 weight out in pairs of inputs, for kernels that multiply bfloat16
            (`Kernels.multiplies_bfloat16`).
    """
    if isinstance(values, Int4Values):
        form, panels, size = INT4, _int4_panels(values, panel), values.codes.shape
    elif isinstance(values, Int8Values):
        form, panels, size = INT8 if signed else UNSIGNED8, _int8_panels(values, panel, signed), values.codes.shape
    else:
        together = 2 if paired and values.dtype == torch.bfloat16 else 1
        form, panels, size = FLOATS[values.dtype], _float_panels(values, panel, together), values.shape
    outputs, inputs = size
    padded = None if bias is None else pad(bias.float(), (0, -outputs % panel)).contiguous()
    return PackedWeight(form, inputs, outputs, panel, panels, padded, activation_bits)


def _paneled(values: Tensor, panel: int) -> Tensor:
    """Pad and reshape [out, ...] to [panels, panel, ...]."""
    short = -values.shape[0] % panel
    if short:
        values = torch.cat((values, values.new_zeros(short, *values.shape[1:])))
    return values.view(-1, panel, *values.shape[1:])


def _float_panels(values: Tensor, panel: int, together: int) -> Tensor:
    """Convert [out, in] to [panels, in / together, panel, together]: `together` inputs of an output are adjacent."""
    panels = _paneled(values, panel)
    return panels.view(*panels.shape[:2], -1, together).transpose(1, 2).contiguous()


def _halves(values: Tensor, panel: int) -> Tensor:
    """Convert [out, groups] to bytes of float16, [panels, groups, 2 x panel]."""
    return _paneled(values, panel).transpose(1, 2).half().contiguous().view(torch.uint8)


def _int4_panels(values: Int4Values, panel: int) -> Tensor:
    """Return [panels, groups, 20 x panel]; a byte holds codes of two outputs, half a panel apart."""
    groups = values.scales.shape[1]
    codes = _paneled(values.codes, panel).view(-1, 2, panel // 2, groups, GROUP // 4, 4)
    both = codes[:, 0] | (codes[:, 1] << 4)  # [panel, output, group, step, input]
    packed = both.permute(0, 2, 3, 1, 4).flatten(2)
    return torch.cat((packed, _halves(values.scales, panel), _halves(values.minimums, panel)), dim=-1)


def _int8_panels(values: Int8Values, panel: int, signed: bool) -> Tensor:
    """Return [panels, groups, 34 x panel]: two inputs together, or four if codes are unsigned."""
    groups = values.scales.shape[1]
    together = 2 if signed else 4
    codes = values.codes.view(torch.uint8) ^ (0 if signed else 128)
    halves = _paneled(codes, panel).view(-1, 2, panel // 2, groups, GROUP // together, together)
    packed = halves.permute(0, 3, 4, 1, 2, 5).flatten(2)  # from [panel, group, step, half, output, input]
    return torch.cat((packed, _halves(values.scales, panel)), dim=-1)
