"""Loads models for the engine's own kernels, matrix by matrix, with weights quantised as configured.

The kernels are the compiled ones of the CPU, or Triton's for CUDA (`triton_conversion.py`). A model that they can't
compute stays with PyTorch, and the log says why.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import torch

from inference_worker.engine.attention.registry import select_backend
from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.native_decoder import NativeDecoder, check_supported
from inference_worker.engine.loading.model_loader import describe_decoder, load_model, open_checkpoint
from inference_worker.engine.native.library import Kernels, usable_instructions
from inference_worker.engine.native.packing import GROUP, Fp8Values, Int8Values, Values
from inference_worker.engine.native.shared_weights import build_shared
from inference_worker.engine.native.weight_arena import WeightStore
from inference_worker.engine.weights.weights import Checkpoint, LoadedModel
from inference_worker.errors import NativeUnavailable, UnsupportedModel
from inference_worker.model_files.model_source import ModelSource
from inference_worker.settings import EngineSettings

if TYPE_CHECKING:
    from inference_worker.engine.loading.triton_conversion import Kept

log = structlog.get_logger(__name__)


def load_or_describe(source: ModelSource, dtype: torch.dtype, settings: EngineSettings) -> CausalLM:
    """Return the model `source`: on the meta device if this project's kernels can compute it, else loaded.

    The kernels' weights are read by `convert_to_kernels`, matrix by matrix, so that the model is in memory once.

    Raises:
        UnsupportedModel: the engine does not support the model.
        BadWeights: a file is damaged, incomplete or hostile.
    """
    model = describe_decoder(source, dtype)
    try:
        if model is not None:
            return model if _computed_by_triton(settings) else _native(model, settings)[0]
    except NativeUnavailable:
        pass  # `convert_to_kernels` reports it
    return load_model(source, dtype, torch.device(settings.device))


def convert_to_kernels(model: CausalLM, source: ModelSource, settings: EngineSettings) -> tuple[CausalLM, str]:
    """Return the `model` of `load_or_describe` on the compiled CPU kernels, or on the Triton kernels for CUDA.

    The second value names the quantisation of its weights: `none`, `int8`, `int4` or, on CUDA, `fp8`. A model that the
    kernels don't support is returned unchanged. Weights of a model that is loaded already are read from it, not from
    the files of `source`.

    Raises:
        UnsupportedModel: this model, file or machine does not support the configured quantisation.
    """
    if isinstance(model, Decoder) and _computed_by_triton(settings):
        return model, _fill_for_triton(model, source, settings)
    wanted = settings.quantization
    try:
        decoder, kernels = _native(model, settings)
    except NativeUnavailable as error:
        if wanted in {"int8", "int4"}:
            raise UnsupportedModel(f"quantization {wanted}: {error}") from error
        log.info("the model is computed by PyTorch", reason=str(error))
        return model, "none"
    on_meta = _is_on_meta(decoder)
    checkpoint: Checkpoint = open_checkpoint(source) if on_meta else LoadedModel(decoder)
    scheme = _scheme(checkpoint, wanted)
    log.info("the model is computed by the compiled kernels", instructions=kernels.instructions)
    torch.set_num_threads(1)  # PyTorch's share is small, and its threads would spin on the kernels' cores
    read = partial(_read, checkpoint, scheme, decoder.dtype)

    def build(store: WeightStore | None = None) -> NativeDecoder:
        return NativeDecoder(decoder, read, kernels, activation_bits=settings.activation_bits, store=store)

    if settings.shared_weights is None or not on_meta:
        return build(), scheme
    identity = {
        "files": [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in checkpoint.files],
        "code": _code(),
        "layers": decoder.shape.layers,
        "weights": sorted((name, list(each.shape)) for name, each in decoder.named_parameters()),
        "scheme": scheme,
        "dtype": str(decoder.dtype),
        "activation_bits": settings.activation_bits,
        "instructions": kernels.instructions,
    }
    return build_shared(Path(settings.shared_weights), identity, build), scheme


@cache
def _code() -> str:
    """Return a hash of the code that reads and packs weights, so that other versions of it have other files."""
    engine = Path(__file__).parent.parent
    files = [*engine.glob("weights/*.py"), *engine.glob("native/*.py"), *engine.glob("layers/*.py"), Path(__file__)]
    digest = hashlib.sha256(version("headrace").encode())
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_on_meta(model: Decoder) -> bool:
    """Return whether weights are still to be read; a draft model of the first layers may have read its own."""
    return any(weight.is_meta for weight in model.parameters())


def _scheme(checkpoint: Checkpoint, wanted: str) -> str:
    """Return the quantisation of a model's weights; `wanted` is the setting."""
    scheme = checkpoint.quantisation() if wanted == "auto" else wanted
    if scheme == "int4" and checkpoint.quantisation() != "int4":
        raise UnsupportedModel("quantization int4 keeps int4 weights of the model's files; these have none")
    return scheme


def _computed_by_triton(settings: EngineSettings) -> bool:
    """Return whether attention is computed by Triton, so that linear layers can be too."""
    device = torch.device(settings.device)
    if select_backend(settings.attention, device).name != "triton":
        return False
    from inference_worker.engine.triton_support import check_usable  # noqa: PLC0415 - loads Triton

    try:
        check_usable(device)
    except NativeUnavailable:
        return False  # the attention falls back to PyTorch, and says why
    return True


def _fill_for_triton(model: Decoder, source: ModelSource, settings: EngineSettings) -> str:
    """Load the weights of a model that Triton's kernels compute, and return the name of their quantisation."""
    from inference_worker.engine.loading.triton_conversion import fill, first_indivisible  # noqa: PLC0415

    wanted, on_meta = settings.quantization, _is_on_meta(model)
    checkpoint: Checkpoint = open_checkpoint(source) if on_meta else LoadedModel(model)
    scheme = _scheme(checkpoint, wanted)
    if scheme == "none" and not on_meta:
        return scheme
    if scheme != "none" and (layer := first_indivisible(model)):
        reason = f"the inputs of {layer} are no multiple of {GROUP}"
        if wanted != "auto":
            raise UnsupportedModel(f"quantization {wanted}: {reason}")
        log.info("the weights are dequantised", reason=reason)
        scheme = "none"
    kept: Kept = "nothing" if scheme == "none" else "int8" if wanted == "int8" else "own"
    return fill(model, checkpoint, torch.device(settings.device), kept)


def _native(model: CausalLM, settings: EngineSettings) -> tuple[Decoder, Kernels]:
    """Return the decoder and its kernels; raises `NativeUnavailable` with the first reason against them."""
    if settings.device != "cpu":
        raise NativeUnavailable("the compiled kernels are the CPU's")
    if settings.attention not in {"auto", "native"}:
        raise NativeUnavailable(f"the settings require attention {settings.attention!r}")
    if not isinstance(model, Decoder):
        raise NativeUnavailable(f"{model.shape.model_type!r} is no family of our own")
    check_supported(model.config)
    instructions = usable_instructions(settings.instructions)
    return model, Kernels(settings.threads or len(os.sched_getaffinity(0)), instructions)


def _read(checkpoint: Checkpoint, scheme: str, dtype: torch.dtype, name: str) -> Values:
    """Return a weight for the kernels; matrices that are not quantised in an int4 checkpoint become float16."""
    own = None if scheme == "none" else checkpoint.quantised(name)
    if isinstance(own, Fp8Values):
        own = Int8Values.of(own.dequantise())
    if own is not None and (scheme == "int4" or isinstance(own, Int8Values)):
        return own
    weight = checkpoint.read(name)
    if weight.ndim != 2 or scheme == "none":
        return weight.to(dtype)
    return weight.half() if scheme == "int4" else Int8Values.of(weight)
