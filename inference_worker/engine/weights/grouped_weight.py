"""A quantised matrix whose weights are `(code - zero) * scale`, and its repacking as a weight of the kernels.

All formats of `quantised_folder.py` are read as this form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from inference_worker.engine.native.packing import GROUP, Fp8Values, Int4Values, Int8Values
from inference_worker.errors import BadWeights


@dataclass(frozen=True)
class GroupedWeight:
    """A quantised matrix; each scale and zero belongs to a group of an output's inputs.

    Attributes:
        codes: [out, in] uint8, int8 or float8.
        scales: [out, groups] float32.
        zeros: [out, groups] float32, the codes of weight 0; None: all 0.
        group_of: [in] int64, each input's group.
        bits: of a code; an integer format's codes are less than 2 ** bits apart.
    """

    codes: Tensor
    scales: Tensor
    zeros: Tensor | None
    group_of: Tensor
    bits: int

    def dequantise(self) -> Tensor:
        """Return the weights that the codes stand for, [out, in] float32."""
        weight = self.codes.float()
        if self.zeros is not None:
            weight -= self.zeros[:, self.group_of]
        return weight.mul_(self.scales[:, self.group_of])

    def values(self) -> Int4Values | Int8Values | Fp8Values:
        """Repack the weights for the kernels, whose groups are 32 inputs with float16 scales and minimums.

        Exact but for the rounding of scales and minimums to float16, if the codes have 4 bits or fewer, are int8 with
        one zero, or FP8, and all inputs of a kernel's group share a scale. Others are rounded to int8 by the largest
        weight of 32.

        Raises:
            BadWeights: a scale or minimum is not finite as float16, or a code is not a number.
        """
        values = self._exact_values() or Int8Values.of(self.dequantise())
        check_finite(values)
        return values

    @property
    def is_int4(self) -> bool:
        """Whether `values` repacks the weights as int4; the number of inputs must be a multiple of 32."""
        return self.bits <= 4 and self._shares_scales()

    def _shares_scales(self) -> bool:
        groups = self.group_of.view(-1, GROUP)
        return bool((groups == groups[:, :1]).all())

    def _exact_values(self) -> Int4Values | Int8Values | Fp8Values | None:
        groups = self.group_of.view(-1, GROUP)
        if not self._shares_scales():
            return None
        scales = self.scales[:, groups[:, 0]]
        if self.codes.is_floating_point():
            return Fp8Values(self.codes, scales) if self.zeros is None else None
        zeros = self.scales.new_zeros(()) if self.zeros is None else self.zeros[:, groups[:, 0]]
        if self.bits <= 4:
            lowest = -(2 ** (self.bits - 1)) if self.codes.dtype == torch.int8 else 0
            return Int4Values((self.codes - lowest).to(torch.uint8), scales, (lowest - zeros) * scales)
        centre = 128 if self.codes.dtype == torch.uint8 else 0
        if not (zeros == centre).all():
            return None
        return Int8Values((self.codes.short() - centre).to(torch.int8), scales)


def groups_of(inputs: int, groups: int) -> Tensor:
    """Return the group of each of `inputs` inputs where `groups` groups of equal size follow one another."""
    return torch.arange(inputs) // (inputs // groups)


def groups_in_range(group_of: Tensor, groups: int) -> Tensor:
    """Return each input's group as int64; raises `BadWeights` if one is not below `groups`."""
    if group_of.min() < 0 or group_of.max() >= groups:
        raise BadWeights(f"g_idx has groups from {group_of.min()} to {group_of.max()}, there are {groups}")
    return group_of.long()


def check_finite(values: Int4Values | Int8Values | Fp8Values) -> None:
    """Raise `BadWeights` if a scale or minimum of a weight is not finite as float16, or an FP8 code is not a number.

    The scales of FP8 weights are checked as those of the int8 weights that the CPU kernels round them to.
    """
    columns = vars(values)
    if isinstance(values, Fp8Values):
        columns = {"scales": values.dequantise().abs().amax(dim=1) / 127}
    for name, column in columns.items():
        if name != "codes" and not torch.isfinite(column.half()).all():
            raise BadWeights(f"{name} of quantised weights are not finite as float16")


def int32_part(parts: Mapping[str, Tensor], name: str) -> Tensor:
    """Return the part `name` of a quantised module; raises `BadWeights` if it is not int32."""
    if parts[name].dtype != torch.int32:
        raise BadWeights(f"{name} is {parts[name].dtype}, not int32")
    return parts[name]


def unpack_words(words: Tensor, bits: int) -> Tensor:
    """Split int32 words, [..., n], into their codes of `bits` bits, the lowest first: [..., n * 32 / bits] uint8."""
    octets: Tensor = words.contiguous().view(torch.uint8)
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8)
    codes: Tensor = octets[..., None] >> shifts & 2**bits - 1
    return codes.flatten(-2)
