"""Attention backends by name, and which one `auto` means on a device."""

from __future__ import annotations

import torch

from inference_worker.attention.backend import AttentionBackend
from inference_worker.attention.reference import ReferenceAttention
from inference_worker.attention.sdpa import SdpaAttention
from inference_worker.errors import UnsupportedModel
from inference_worker.execution.kv_cache import KVCache

BACKENDS: dict[str, type[AttentionBackend]] = {backend.name: backend for backend in (ReferenceAttention, SdpaAttention)}

AUTO: dict[str, type[AttentionBackend]] = {"cpu": SdpaAttention, "cuda": SdpaAttention}


def select_backend(name: str, device: torch.device) -> type[AttentionBackend]:
    """The backend called `name`; `auto`: the best for the device.

    Raises:
        UnsupportedModel: there is none of that name.
    """
    if name == "auto":
        return AUTO.get(device.type, SdpaAttention)
    if name not in BACKENDS:
        raise UnsupportedModel(f"no attention backend {name!r}; there are: auto, {', '.join(BACKENDS)}")
    return BACKENDS[name]


def create_attention(name: str, cache: KVCache, device: torch.device) -> AttentionBackend:
    """An instance over `cache`."""
    return select_backend(name, device)(cache)
