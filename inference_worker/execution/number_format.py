"""Which number format weights and KV cache have. Knows devices, not models."""

from __future__ import annotations

import torch

from inference_worker.errors import ModelError

_NAMED = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def number_format(name: str, device: torch.device) -> torch.dtype:
    """The dtype called `name`; `auto`: bfloat16 where the device multiplies it natively, else float32.

    Raises:
        ModelError: an unknown name.
    """
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" or _cpu_multiplies_bfloat16() else torch.float32
    if name not in _NAMED:
        raise ModelError(f"unknown dtype {name!r}; there are: auto, {', '.join(_NAMED)}")
    return _NAMED[name]


def cache_format(name: str, dtype: torch.dtype, quantization: str, activation_bits: int) -> torch.dtype:
    """The dtype of the KV cache called `name`; `auto`: the weights', beside quantised ones as many bits as states have.

    Raises:
        ModelError: an unknown name.
    """
    if name == "int8":  # a cache's only: weights of 8 bits are a quantization
        return torch.int8
    if name == "auto" and quantization != "none":
        return torch.int8 if activation_bits == 8 else torch.float16
    if name == "auto":
        return dtype
    return number_format(name, torch.device("cpu"))


def _cpu_multiplies_bfloat16() -> bool:
    features = torch.cpu.get_capabilities()
    return bool(features.get("avx512_bf16") or features.get("amx_bf16"))
