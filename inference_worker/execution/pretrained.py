"""Loads a checkpoint into `transformers`' own model code: safetensors only, from this folder, no code of its own.

Which class is loaded, and whether the model is any good here, is for those who ask.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from inference_worker.errors import BadWeights, UnsupportedModel


def from_pretrained(
    kind: Any, folder: Path, config: PreTrainedConfig, dtype: torch.dtype, *, unused: str = "", **options: Any
) -> PreTrainedModel:
    """The model in `folder`, on the CPU.

    Args:
        kind: one of the `AutoModel` classes.
        unused: tensors whose names begin so may be missing; "": none.
        options: more for `from_pretrained` of `transformers`.

    Raises:
        UnsupportedModel: `transformers` has no such model.
        BadWeights: the checkpoint is damaged or incomplete.
    """
    try:
        model, report = kind.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
            **options,
        )
    except (ValueError, ImportError) as error:
        raise UnsupportedModel(f"{config.model_type}: {str(error).splitlines()[0]}") from error
    except (OSError, RuntimeError) as error:
        raise BadWeights(f"can't load {folder}: {str(error).splitlines()[0]}") from error
    missing = sorted(name for name in report["missing_keys"] if not (unused and name.startswith(unused)))
    if missing:
        raise BadWeights(f"the checkpoint lacks {len(missing)} tensors, the first is {missing[0]}")
    loaded: PreTrainedModel = model
    return loaded
