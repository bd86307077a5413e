"""Selects the number formats (dtypes) of an engine's weights and KV cache from the settings and the device."""

from __future__ import annotations

import torch

from inference_worker.errors import ModelError
from inference_worker.settings import ActivationBits

_NAMED = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def weight_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the number format of the weights that the setting `name` means.

    `auto` is bfloat16 if the device multiplies it natively, else float32.

    Raises:
        ModelError: the name is unknown.
    """
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" or _cpu_multiplies_bfloat16() else torch.float32
    if name not in _NAMED:
        raise ModelError(f"unknown dtype {name!r}; there are: auto, {', '.join(_NAMED)}")
    return _NAMED[name]


def kv_cache_dtype_for(
    name: str, dtype: torch.dtype, quantization: str, activation_bits: ActivationBits, device: torch.device
) -> torch.dtype:
    """Return the number format of the KV cache that the setting `name` means.

    `auto` is `dtype`, the weights' format; on a CPU it is, for weights with `quantization`, int8 with 8-bit
    activations, else float16.

    Raises:
        ModelError: the name is unknown.
    """
    if name == "int8":  # for the cache only: int8 weights are a quantisation
        return torch.int8
    if name == "auto" and quantization != "none" and device.type == "cpu":
        return torch.int8 if activation_bits == 8 else torch.float16
    if name == "auto":
        return dtype
    return weight_dtype(name, torch.device("cpu"))


def _cpu_multiplies_bfloat16() -> bool:
    features = torch.cpu.get_capabilities()
    return bool(features.get("avx512_bf16") or features.get("amx_bf16"))
