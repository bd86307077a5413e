"""Rounds a matrix to int4, int8 or FP8 as a compressed-tensors checkpoint stores it (`weights/compressed_tensors.py`).

Codes are the nearest to the weights; no text is needed for it. Of int4, the range of a group of 32 inputs is the one
of several that leaves the least squared error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from inference_worker.engine.native.packing import GROUP

SchemeName = Literal["int4", "int8", "fp8"]

_INT4_RANGES = (1.0, 0.97, 0.94, 0.91, 0.88, 0.85, 0.8)
"""Parts of a group's range that are tried; weights beyond are clipped."""
_AT_ONCE = 1 << 22
"""Weights whose ranges are chosen at once: bounds the temporary memory."""
_FP8_LARGEST = torch.finfo(torch.float8_e4m3fn).max


@dataclass(frozen=True)
class Scheme:
    """A way to store a matrix: the fields of its `quantization_config`, and a function that rounds a matrix.

    Attributes:
        layout: the field `format`.
        weights, activations: how a group of modules has weights, and input activations in engines that quantise them.
        round: returns the tensors of a module for its matrix of [out, in], with a multiple of 32 inputs.
    """

    layout: str
    weights: Mapping[str, Any]
    activations: Mapping[str, Any] | None
    round: Callable[[Tensor], dict[str, Tensor]]

    def config(self, ignore: list[str]) -> dict[str, Any]:
        """Return the `quantization_config` of a model all of whose linear layers have this scheme, but for `ignore`."""
        group = {
            "targets": ["Linear"],
            "weights": {"dynamic": False, **self.weights},
            "input_activations": self.activations and dict(self.activations),
            "output_activations": None,
        }
        return {
            "quant_method": "compressed-tensors",
            "format": self.layout,
            "quantization_status": "compressed",
            "config_groups": {"group_0": group},
            "ignore": ignore,
            "kv_cache_scheme": None,
        }


def _int4(weight: Tensor) -> dict[str, Tensor]:
    """Round to 4 bits with a scale and a zero point for each 32 inputs."""
    step = max(_AT_ONCE // weight.shape[1], 1)
    parts = [_int4_rows(_groups(rows), weight.dtype) for rows in torch.split(weight, step)]
    codes, scales, zeros = (torch.cat(column) for column in zip(*parts, strict=True))
    return {
        "weight_packed": _packed(codes.flatten(1), 4),
        "weight_scale": scales.to(_scale_dtype(weight.dtype)),
        "weight_zero_point": _packed(zeros.T, 4).T.contiguous(),
        "weight_shape": torch.tensor(weight.shape),
    }


def _int4_rows(groups: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes, scales and zero points of [out, groups, 32] weights, with the best of the ranges."""
    low, high = groups.amin(-1, keepdim=True).clamp(max=0), groups.amax(-1, keepdim=True).clamp(min=0)
    least = torch.full_like(low, torch.inf)
    codes, scales, zeros = torch.zeros_like(groups), torch.zeros_like(low), torch.zeros_like(low)
    for part in _INT4_RANGES:
        tried = _rounded((high - low) * (part / 15), dtype)
        zero = (-low * part / tried).round().clamp(0, 15)
        code = (groups / tried + zero).round().clamp(0, 15)
        error = ((code - zero) * tried - groups).square().sum(-1, keepdim=True)
        better = error < least
        least, codes = torch.where(better, error, least), torch.where(better, code, codes)
        scales, zeros = torch.where(better, tried, scales), torch.where(better, zero, zeros)
    return codes, scales.squeeze(-1), zeros.squeeze(-1)


def _int8(weight: Tensor) -> dict[str, Tensor]:
    """Round to 8 bits with a scale for each 32 inputs."""
    groups = _groups(weight)
    scales = _rounded(groups.abs().amax(-1, keepdim=True) / 127, weight.dtype)
    codes = (groups / scales).round().clamp(-127, 127) + 128
    return {
        "weight_packed": _packed(codes.flatten(1), 8),
        "weight_scale": scales.squeeze(-1).to(_scale_dtype(weight.dtype)),
        "weight_shape": torch.tensor(weight.shape),
    }


def _fp8(weight: Tensor) -> dict[str, Tensor]:
    """Round to e4m3 with a scale for each output."""
    scales = weight.float().abs().amax(1, keepdim=True) / _FP8_LARGEST
    scales = torch.where(scales == 0, 1, scales)
    return {"weight": (weight.float() / scales).to(torch.float8_e4m3fn), "weight_scale": scales}


def _groups(weight: Tensor) -> Tensor:
    return weight.float().view(len(weight), -1, GROUP)


def _scale_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.bfloat16 if dtype == torch.bfloat16 else torch.float16


def _rounded(scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Round scales as they are stored, before codes are chosen by them; those of nothing but zeros become 1."""
    stored = scales.to(_scale_dtype(dtype)).float()
    return torch.where(stored == 0, 1, stored)


def _packed(codes: Tensor, bits: int) -> Tensor:
    """Pack [n, m] codes in int32 words, [n, m * bits / 32], the first in the lowest bits; the last word is padded."""
    filled = pad(codes.to(torch.uint8), (0, -codes.shape[1] % (32 // bits)))
    octets = filled.view(len(codes), -1, 8 // bits) << torch.arange(0, 8, bits, dtype=torch.uint8)
    return octets.sum(-1, dtype=torch.uint8).view(torch.int32)


_INT = {"type": "int", "strategy": "group", "group_size": GROUP}
_FLOAT = {"num_bits": 8, "type": "float", "symmetric": True}

SCHEMES: Mapping[SchemeName, Scheme] = MappingProxyType(
    {
        "int4": Scheme("pack-quantized", {**_INT, "num_bits": 4, "symmetric": False}, None, _int4),
        "int8": Scheme("pack-quantized", {**_INT, "num_bits": 8, "symmetric": True}, None, _int8),
        "fp8": Scheme(
            "float-quantized",
            {**_FLOAT, "strategy": "channel"},
            {**_FLOAT, "strategy": "token", "dynamic": True},
            _fp8,
        ),
    }
)
