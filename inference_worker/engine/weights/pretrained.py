"""Loads a checkpoint into `transformers`' model code: local safetensors or tensors, no code of the model repository."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, PreTrainedConfig, PreTrainedModel

from inference_worker.errors import BadWeights, UnsupportedModel


def from_pretrained(
    kind: Any, folder: Path, config: PreTrainedConfig, dtype: torch.dtype, *, unused: str = "", **options: Any
) -> PreTrainedModel:
    """Load the safetensors in `folder` into the `transformers` model of `config`, on the CPU, with weights as `dtype`.

    Args:
        kind: one of the `AutoModel` classes.
        unused: prefix of the names of tensors that the checkpoint may lack; "": it must have all.
        options: further arguments of `transformers`' `from_pretrained`.

    Raises:
        UnsupportedModel: `transformers` has no such model.
        BadWeights: the checkpoint is damaged or incomplete.
    """
    local = {"trust_remote_code": False, "use_safetensors": True, "local_files_only": True}
    return _loaded(kind, folder, config, unused, dtype=dtype, **local, **options)


def causal_lm_of(
    tensors: Mapping[str, Tensor], config: PreTrainedConfig, dtype: torch.dtype, **options: Any
) -> PreTrainedModel:
    """Build the causal language model of `config` by `transformers`, on the CPU, with the given tensors as `dtype`.

    Args:
        tensors: the model's parameters by their names.
        options: further arguments of `transformers`' `from_pretrained`.

    Raises:
        UnsupportedModel: `transformers` has no such model.
        BadWeights: a tensor is missing.
    """
    kind = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    return _loaded(kind, None, config, "", dtype=dtype, state_dict=dict(tensors), **options)


def _loaded(kind: Any, folder: Path | None, config: PreTrainedConfig, unused: str, **options: Any) -> PreTrainedModel:
    try:
        model, report = kind.from_pretrained(folder, config=config, output_loading_info=True, **options)
    except (ValueError, ImportError) as error:
        raise UnsupportedModel(f"{config.model_type}: {str(error).splitlines()[0]}") from error
    except (OSError, RuntimeError) as error:
        raise BadWeights(f"can't load {folder or config.model_type}: {str(error).splitlines()[0]}") from error
    missing = sorted(name for name in report["missing_keys"] if not (unused and name.startswith(unused)))
    if missing:
        raise BadWeights(f"the checkpoint lacks {len(missing)} tensors, the first is {missing[0]}")
    loaded: PreTrainedModel = model
    return loaded
