"""Rounds a matrix to int4, int8 or FP8 as a compressed-tensors checkpoint stores it (`weights/compressed_tensors.py`).

Codes of int8 and FP8 are the nearest to the weights. Those of int4 are chosen for the inputs that the matrix has with
some text (`gptq_rounding.py`).
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
from inference_worker.engine.quantising.gptq_rounding import InputMoments, round_matrix

SchemeName = Literal["int4", "int8", "fp8"]

_FP8_LARGEST = torch.finfo(torch.float8_e4m3fn).max


@dataclass(frozen=True)
class Scheme:
    """A way to store a matrix: the fields of its `quantization_config`, and a function that rounds a matrix.

    Attributes:
        layout: the field `format`.
        weights, activations: how a group of modules has weights, and input activations in engines that quantise them.
        calibrated: whether rounding uses the moments of a matrix's inputs.
        round: returns the tensors of a module for its matrix of [out, in], with a multiple of 32 inputs, and the
            moments of its inputs; None: unknown.
    """

    layout: str
    weights: Mapping[str, Any]
    activations: Mapping[str, Any] | None
    calibrated: bool
    round: Callable[[Tensor, InputMoments | None], dict[str, Tensor]]

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


def _int4(weight: Tensor, moments: InputMoments | None) -> dict[str, Tensor]:
    """Round to 4 bits with a scale and a zero point for each 32 inputs."""
    inputs = InputMoments.uncorrelated(weight.shape[1]) if moments is None else moments
    rounded = round_matrix(weight, inputs, _scale_dtype(weight.dtype))
    return {
        "weight_packed": _packed(rounded.codes, 4),
        "weight_scale": rounded.scales.to(_scale_dtype(weight.dtype)),
        "weight_zero_point": _packed(rounded.zeros.T, 4).T.contiguous(),
        "weight_shape": torch.tensor(weight.shape),
    }


def _int8(weight: Tensor, _: InputMoments | None) -> dict[str, Tensor]:
    """Round to 8 bits with a scale for each 32 inputs."""
    groups = _groups(weight)
    scales = _rounded(groups.abs().amax(-1, keepdim=True) / 127, weight.dtype)
    codes = (groups / scales).round().clamp(-127, 127) + 128
    return {
        "weight_packed": _packed(codes.flatten(1), 8),
        "weight_scale": scales.squeeze(-1).to(_scale_dtype(weight.dtype)),
        "weight_shape": torch.tensor(weight.shape),
    }


def _fp8(weight: Tensor, _: InputMoments | None) -> dict[str, Tensor]:
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
        "int4": Scheme("pack-quantized", {**_INT, "num_bits": 4, "symmetric": False}, None, True, _int4),
        "int8": Scheme("pack-quantized", {**_INT, "num_bits": 8, "symmetric": True}, None, False, _int8),
        "fp8": Scheme(
            "float-quantized",
            {**_FLOAT, "strategy": "channel"},
            {**_FLOAT, "strategy": "token", "dynamic": True},
            False,
            _fp8,
        ),
    }
)
