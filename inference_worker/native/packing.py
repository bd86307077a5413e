"""Lays weights out as the native kernels read them (`src/linear.h`): panels of 16 outputs, groups of 32 inputs.

A tied embedding is the output head's packed weight, so rows can be taken out of the panels again. Knows layouts, not
where values come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

PANEL = 16
"""Outputs that lie side by side."""
GROUP = 32
"""Inputs of an output that share a scale."""

FLOATS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
"""Numbers of the floating formats, as `Format` of `src/linear.h` counts them."""
INT8, INT4, INT4_ROWS8 = 3, 4, 5


@dataclass(frozen=True)
class Int4Values:
    """`codes * scales + minimums`: [out, in] uint8 below 16, and two of [out, in / 32] float32."""

    codes: Tensor
    scales: Tensor
    minimums: Tensor

    def dense(self) -> Tensor:
        """[out, in] float32."""
        groups = self.codes.view(*self.scales.shape, GROUP).float()
        return (groups * self.scales[..., None] + self.minimums[..., None]).flatten(1)


@dataclass(frozen=True)
class Int8Values:
    """`codes * scales`: [out, in] int8 and [out, in / 32] float32."""

    codes: Tensor
    scales: Tensor

    @staticmethod
    def of(weight: Tensor) -> Int8Values:
        """Round a [out, in] weight: symmetric, the largest of a group becomes 127."""
        groups = weight.float().view(weight.shape[0], -1, GROUP)
        # Rounded first: codes are chosen for the scale that the kernel multiplies by.
        scales = (groups.abs().amax(dim=-1) / 127).half().float()
        codes = (groups / scales.clamp_min(1e-12)[..., None]).round().clamp(-127, 127).to(torch.int8)
        return Int8Values(codes.flatten(1), scales)

    def dense(self) -> Tensor:
        """[out, in] float32."""
        return (self.codes.view(*self.scales.shape, GROUP) * self.scales[..., None]).flatten(1)


Values = Tensor | Int4Values | Int8Values
"""A weight of [out, in]: floating point, or quantised."""


def stacked(parts: Sequence[Values]) -> Values:
    """Matrices of one kind and width, one below the other."""
    if isinstance(parts[0], Tensor):
        return torch.cat(parts)  # type: ignore[arg-type]
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return type(parts[0])(*map(torch.cat, columns))


@dataclass(frozen=True)
class PackedWeight:
    """A weight of [out, in] in the kernels' layout.

    Attributes:
        format: as `Format` of `src/linear.h` numbers them.
        inputs, outputs: of the weight.
        panels: its bytes; outputs are filled up to a multiple of 16.
        bias: [padded outputs] float32, or none.
    """

    format: int
    inputs: int
    outputs: int
    panels: Tensor
    bias: Tensor | None = None

    @property
    def padded_outputs(self) -> int:
        """Outputs that the kernels compute."""
        return -(-self.outputs // PANEL) * PANEL

    def rows(self, outputs: Tensor) -> Tensor:
        """Rows of the weight, for a table of embeddings: [T] int64 to [T, in] float32."""
        panel, place = outputs // PANEL, outputs % PANEL
        if self.format in FLOATS.values():
            return self.panels[panel, :, place].float()
        groups, half, place_in_half, every = self.panels[panel], place // 8, place % 8, torch.arange(len(outputs))
        if self.format == INT8:
            taken = groups[..., :512].view(*groups.shape[:2], 16, 2, 8, 2)[every, :, :, half, place_in_half]
            return Int8Values(taken.view(torch.int8).flatten(1), _taken(groups[..., 512:], place)).dense()
        together = 4 if self.format == INT4_ROWS8 else 2
        steps = groups[..., :256].view(*groups.shape[:2], GROUP // together, 8, together)
        both = steps[every, :, :, place_in_half].flatten(1)
        codes = (both >> (4 * half[:, None])) & 15
        return Int4Values(codes, _taken(groups[..., 256:288], place), _taken(groups[..., 288:], place)).dense()


def pack(values: Values, bias: Tensor | None = None, *, row_bits: int = 16) -> PackedWeight:
    """Lay a weight out; `row_bits`: 16 or 8, what rows are rounded to beside int4."""
    if isinstance(values, Int4Values):
        form, inputs_together = (INT4_ROWS8, 4) if row_bits == 8 else (INT4, 2)
        panels, size = _int4_panels(values, inputs_together), values.codes.shape
    elif isinstance(values, Int8Values):
        form, panels, size = INT8, _int8_panels(values), values.codes.shape
    else:
        form, panels, size = FLOATS[values.dtype], _paneled(values).transpose(1, 2).contiguous(), values.shape
    outputs, inputs = size
    padded = None if bias is None else pad(bias.float(), (0, -outputs % PANEL)).contiguous()
    return PackedWeight(form, inputs, outputs, panels, padded)


def _paneled(values: Tensor) -> Tensor:
    """[out, ...] to [panels, 16, ...]."""
    short = -values.shape[0] % PANEL
    if short:
        values = torch.cat((values, values.new_zeros(short, *values.shape[1:])))
    return values.view(-1, PANEL, *values.shape[1:])


def _halves(values: Tensor) -> Tensor:
    """[out, groups] to bytes of float16, [panels, groups, 32]."""
    return _paneled(values).transpose(1, 2).half().contiguous().view(torch.uint8)


def _taken(halves: Tensor, place: Tensor) -> Tensor:
    """One output's float16 of each group: [T, groups, 32] bytes to [T, groups] float32."""
    return halves.contiguous().view(torch.float16)[torch.arange(len(place)), :, place].float()


def _int4_panels(values: Int4Values, together: int) -> Tensor:
    """[panels, groups, 320]; a byte holds an output and the one 8 further on."""
    codes = _paneled(values.codes).view(-1, 2, 8, values.scales.shape[1], GROUP // together, together)
    both = codes[:, 0] | (codes[:, 1] << 4)  # panel out group step in
    packed = both.permute(0, 2, 3, 1, 4).flatten(2)
    return torch.cat((packed, _halves(values.scales), _halves(values.minimums)), dim=-1)


def _int8_panels(values: Int8Values) -> Tensor:
    """[panels, groups, 544]."""
    codes = _paneled(values.codes).view(-1, 2, 8, values.scales.shape[1], 16, 2)  # panel half out group pair in
    packed = codes.permute(0, 3, 4, 1, 2, 5).flatten(2).view(torch.uint8)
    return torch.cat((packed, _halves(values.scales)), dim=-1)
