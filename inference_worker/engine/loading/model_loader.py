"""Loads a model's files into the engine as a `CausalLM`: our own definition of its family or that of `transformers`.

Must never run code of a model repository, and never unpickle.
"""

from __future__ import annotations

from pathlib import Path

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, GenerationConfig, PreTrainedConfig

from inference_worker.engine.causal_lm import MAX_LAYERS, CausalLM
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.rotary import rotary_from_config
from inference_worker.engine.models.families import FAMILIES, eos_token_ids
from inference_worker.engine.weights.gguf_file import GGUFFile
from inference_worker.engine.weights.quantised_folder import QuantisedFolder
from inference_worker.engine.weights.weights import (
    BaseModel,
    Checkpoint,
    SafetensorsFolder,
    check,
    load,
    parameters_by_name,
)
from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.model_source import ModelSource, read_json_object

_DEPTHS = frozenset({"num_hidden_layers", "num_layers", "n_layer", "n_layers"})


def load_model(source: ModelSource, dtype: torch.dtype, device: torch.device) -> CausalLM:
    """Load the model in the safetensors folder or GGUF file `source` onto `device`, with weights as `dtype`.

    Raises:
        UnsupportedModel: the engine does not support the model.
        BadWeights: a file is damaged, incomplete or hostile.
    """
    model = describe_decoder(source, dtype)
    checkpoint = open_checkpoint(source)
    if model is not None:
        model.allocate(device)
        load(model, checkpoint)
        return model
    # Imported here because it takes a second.
    from inference_worker.engine.models import transformers_backend  # noqa: PLC0415

    if isinstance(checkpoint, SafetensorsFolder):
        return transformers_backend.load(source.path, read_config(source.path), dtype, device)
    if isinstance(checkpoint, QuantisedFolder):
        config = read_config(source.path, quantised=True)
        return transformers_backend.load_tensors(checkpoint, config, dtype, device)
    config = checkpoint.config()
    if checkpoint.rope_factors() is not None:
        raise UnsupportedModel(f"{config.model_type} with factors of its rotary frequencies")
    return transformers_backend.load_tensors(checkpoint, config, dtype, device)


def describe_decoder(source: ModelSource, dtype: torch.dtype) -> Decoder | None:
    """Return the engine's own definition of the model `source` on the meta device, without memory for its weights.

    The names and shapes of the weights in its files are checked. None if the family is not one of our own.

    Raises:
        UnsupportedModel: the engine does not support the model.
        BadWeights: a file is damaged, incomplete or hostile.
    """
    checkpoint = open_checkpoint(source)
    config = checkpoint.config() if isinstance(checkpoint, GGUFFile) else read_config(source.path, quantised=True)
    if config.model_type not in FAMILIES:
        return None
    model = _build(config, dtype)
    if isinstance(checkpoint, GGUFFile) and (factors := checkpoint.rope_factors()) is not None:
        model.rotary = model.rotary.divided_by(factors)
    _check(model, checkpoint)
    return model


def open_checkpoint(source: ModelSource) -> GGUFFile | SafetensorsFolder | QuantisedFolder:
    """Return the checkpoint in a GGUF file or a folder of safetensors, which may be quantised.

    Raises:
        UnsupportedModel: it is quantised in a way that the engine can't load; the message names the field.
        BadWeights: a file is damaged or missing.
    """
    return GGUFFile(source.path) if source.kind == "gguf" else open_folder(source.path)


def open_folder(folder: Path) -> SafetensorsFolder | QuantisedFolder:
    """Return the checkpoint in a folder of safetensors, which are quantised if its `config.json` says so.

    Raises:
        UnsupportedModel: they are quantised in a way that the engine can't load; the message names the field.
        BadWeights: a file is damaged or missing.
    """
    quantisation = (read_json_object(folder / "config.json") or {}).get("quantization_config")
    return SafetensorsFolder(folder) if quantisation is None else QuantisedFolder(folder, quantisation)


def load_base_model(folder: Path, dtype: torch.dtype, device: torch.device) -> Decoder:
    """Load the decoder in a folder of safetensors without its output head, for a reward model that has another head.

    Raises:
        UnsupportedModel: the family is not one of our own.
        BadWeights: a file is damaged, incomplete or hostile.
    """
    config = read_config(folder, quantised=True)
    if config.model_type not in FAMILIES:
        raise UnsupportedModel(f"{config.model_type} is not served without its output head")
    config.tie_word_embeddings = True  # then the decoder has no head of its own
    model = _build(config, dtype)
    checkpoint = BaseModel(open_folder(folder))
    _check(model, checkpoint)
    model.allocate(device)
    load(model, checkpoint)
    return model


def read_config(folder: Path, *, quantised: bool = False) -> PreTrainedConfig:
    """Read the model configuration in `folder`: `config.json`, with the end-of-text ids of `generation_config.json`.

    `quantised`: whether the weights may be quantised; the configuration returned does not say so.

    Raises:
        UnsupportedModel: the family is unknown or needs its repository's code, or the weights must not be quantised.
        BadWeights: the file can't be read.
    """
    _check_depth(folder / "config.json")
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (ValueError, KeyError) as error:
        raise UnsupportedModel(f"{folder / 'config.json'}: {_one_line(error)}") from error
    except (OSError, TypeError, AttributeError, ArithmeticError, StrictDataclassError) as error:
        raise BadWeights(f"can't read {folder / 'config.json'}: {_one_line(error)}") from error
    if getattr(config, "quantization_config", None) is not None:
        if not quantised:
            raise UnsupportedModel(f"quantization_config: a {config.model_type} of this kind is served unquantised")
        del config.quantization_config
    config.eos_token_id = list(eos_token_ids(config, _generation_config(folder)))
    return config


def _check_depth(path: Path) -> None:
    """Raise if a configuration has so many layers that building the model would hang."""
    described = read_json_object(path) or {}
    parts = [described, *(part for part in described.values() if isinstance(part, dict))]
    for name, value in (item for part in parts for item in part.items()):
        if name in _DEPTHS and isinstance(value, int) and value > MAX_LAYERS:
            raise UnsupportedModel(f"{path}: {name} is {value}, at most {MAX_LAYERS} are served")


def _generation_config(folder: Path) -> GenerationConfig | None:
    if not (folder / "generation_config.json").is_file():
        return None
    return GenerationConfig.from_pretrained(folder, local_files_only=True)


def _build(config: PreTrainedConfig, dtype: torch.dtype) -> Decoder:
    """Build the family's model definition on the meta device, without memory for its parameters."""
    described = FAMILIES[config.model_type](config)
    rotary = rotary_from_config(config, described.shape.head_size)
    with torch.device("meta"):
        return Decoder(described, rotary, dtype=dtype)


def _check(model: Decoder, checkpoint: Checkpoint) -> None:
    if isinstance(checkpoint, QuantisedFolder):
        checkpoint.leave_out_zero_biases(parameters_by_name(model))
    check(model, checkpoint, tied_embeddings=model.tied_embeddings)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
