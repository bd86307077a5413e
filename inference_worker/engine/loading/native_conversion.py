"""Converts a model loaded in PyTorch to the engine's compiled CPU kernels, with weights quantised as configured.

A model that the kernels can't compute stays with PyTorch, and the log says why.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import structlog
import torch

from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.native_decoder import NativeDecoder, check_supported
from inference_worker.engine.loading.model_loader import open_folder
from inference_worker.engine.native.library import Kernels
from inference_worker.engine.native.packing import Int4Values, Int8Values, Values
from inference_worker.engine.weights.gguf_file import GGUFFile
from inference_worker.engine.weights.weights import SafetensorsFolder, parameters_by_name
from inference_worker.errors import NativeUnavailable, UnsupportedModel
from inference_worker.model_files.model_source import ModelSource
from inference_worker.settings import EngineSettings

log = structlog.get_logger(__name__)


def convert_to_native(model: CausalLM, source: ModelSource, settings: EngineSettings) -> tuple[CausalLM, str]:
    """Return the loaded `model` converted to the compiled CPU kernels, and the name of its weights' quantisation.

    A model that the kernels don't support is returned unchanged. The quantisation is `none`, `int8` or `int4`.

    Raises:
        UnsupportedModel: this model, file or machine does not support the configured quantisation.
    """
    wanted = settings.quantization
    try:
        decoder, kernels = _native(model, settings)
    except NativeUnavailable as error:
        if wanted in {"int8", "int4"}:
            raise UnsupportedModel(f"quantization {wanted}: {error}") from error
        log.info("the model is computed by PyTorch", reason=str(error))
        return model, "none"
    scheme, values = _quantised(decoder, source, wanted)
    log.info("the model is computed by the compiled kernels", instructions=kernels.instructions)
    torch.set_num_threads(1)  # PyTorch's share is small, and its threads would spin on the kernels' cores
    return NativeDecoder(decoder, values, kernels, activation_bits=settings.activation_bits), scheme


def _native(model: CausalLM, settings: EngineSettings) -> tuple[Decoder, Kernels]:
    """Return the decoder and its kernels; raises `NativeUnavailable` with the first reason against them."""
    if settings.device != "cpu":
        raise NativeUnavailable("the compiled kernels are the CPU's")
    if settings.attention not in {"auto", "native"}:
        raise NativeUnavailable(f"the settings require attention {settings.attention!r}")
    if not isinstance(model, Decoder):
        raise NativeUnavailable(f"{model.shape.model_type!r} is no family of our own")
    check_supported(model.config)
    return model, Kernels(settings.threads or len(os.sched_getaffinity(0)))


def _quantised(model: Decoder, source: ModelSource, wanted: str) -> tuple[str, Mapping[str, Values]]:
    """Return the quantisation scheme in force and the weights; quantised weights in the model's files are kept."""
    if wanted == "none":
        return "none", {}
    checkpoint = GGUFFile(source.path) if source.kind == "gguf" else open_folder(source.path)
    own = {} if isinstance(checkpoint, SafetensorsFolder) else dict(checkpoint.quantised_values())
    kinds = {type(values) for values in own.values()}
    if wanted == "auto":
        wanted = "int4" if Int4Values in kinds else "int8" if Int8Values in kinds else "none"
    if wanted == "int4" and Int4Values not in kinds:
        raise UnsupportedModel("quantization int4 keeps int4 weights of the model's files; these have none")
    if wanted == "none":
        return wanted, {}
    matrices = {name: weight for name, weight in parameters_by_name(model).items() if weight.ndim == 2}
    kept = {name: own[name] for name in matrices if name in own and (wanted == "int4" or type(own[name]) is Int8Values)}
    others = {name: weight for name, weight in matrices.items() if name not in kept}
    # In an int4 model, matrices that are not quantised in the file become float16.
    return wanted, kept | {name: w.half() if wanted == "int4" else Int8Values.of(w) for name, w in others.items()}
