"""Selects and creates the engine's attention backend by the configured name; `auto` is the fastest for the device."""

from __future__ import annotations

from importlib.util import find_spec

import structlog
import torch

from inference_worker.engine.attention.native import NativeAttention
from inference_worker.engine.attention.reference import ReferenceAttention
from inference_worker.engine.attention.sdpa import SdpaAttention
from inference_worker.engine.attention_backend import AttentionBackend
from inference_worker.engine.kv_cache import KVCache
from inference_worker.errors import NativeUnavailable, UnsupportedModel
from inference_worker.settings import Instructions

log = structlog.get_logger(__name__)

BACKENDS: dict[str, type[AttentionBackend]] = {
    backend.name: backend for backend in (ReferenceAttention, SdpaAttention, NativeAttention)
}


def select_backend(name: str, device: torch.device) -> type[AttentionBackend]:
    """Return the class of the attention backend called `name`; `auto` selects the fastest for the device.

    Raises:
        UnsupportedModel: there is no backend of that name.
    """
    if name == "triton" or (name == "auto" and device.type == "cuda" and find_spec("triton")):
        return _triton()
    if name == "auto":
        return NativeAttention if device.type == "cpu" else SdpaAttention
    if name not in BACKENDS:
        raise UnsupportedModel(f"no attention backend {name!r}; there are: auto, {', '.join(BACKENDS)}, triton")
    return BACKENDS[name]


def create_attention(
    name: str, cache: KVCache, device: torch.device, instructions: Instructions = "auto"
) -> AttentionBackend:
    """Create the attention backend called `name`, which reads and writes the KV cache `cache`.

    `auto` selects the fastest for the device, or `SdpaAttention` if that one can't run on this machine. The
    compiled kernels use the instruction set of the setting `instructions`.

    Raises:
        ModelError: the compiled kernels are selected, and this machine can't use the `instructions`.
        UnsupportedModel: there is no backend of that name, or the named backend can't run on this machine.
    """
    backend = select_backend(name, device)
    try:
        return NativeAttention(cache, instructions) if backend is NativeAttention else backend(cache)
    except NativeUnavailable as error:
        if name != "auto":
            raise UnsupportedModel(f"attention backend {name!r}: {error}") from error
        log.warning("attention is computed by PyTorch", reason=str(error))
        return SdpaAttention(cache)


def _triton() -> type[AttentionBackend]:
    """Import the Triton backend, only once it is chosen, because it loads a compiler.

    Raises:
        UnsupportedModel: Triton is not installed (it comes with torch for CUDA).
    """
    try:
        from inference_worker.engine.attention.triton_attention import TritonAttention  # noqa: PLC0415
    except ImportError as error:
        raise UnsupportedModel(f"attention backend 'triton': {error}") from error
    return TritonAttention
