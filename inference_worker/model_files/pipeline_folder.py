"""Checks the folder of a diffusers pipeline before an image worker loads it: the class and components that it lists.

Only classes of the diffusers and transformers libraries are loaded, never a folder's own Python, and only safetensors.
Must not import torch.
"""

from __future__ import annotations

from pathlib import Path

from inference_worker.errors import BadWeights, ModelNotFound, UnsupportedModel
from inference_worker.model_files.model_source import PIPELINE_INDEX as INDEX
from inference_worker.model_files.model_source import read_json_object

LIBRARIES = frozenset({"diffusers", "transformers", "stable_diffusion"})
"""Libraries that components may come from; `stable_diffusion` is the part of diffusers with the safety checker."""


def check_pipeline(folder: Path) -> None:
    """Check that `folder` holds a diffusers pipeline with all of its components, made of library classes only.

    Raises:
        ModelNotFound: a component's folder is missing.
        UnsupportedModel: the pipeline needs code of its own, or has pickled weights only.
        BadWeights: `model_index.json` is damaged.
    """
    index = read_json_object(folder / INDEX) or {}
    if not isinstance(index.get("_class_name"), str):
        raise UnsupportedModel(f"{folder / INDEX} names no pipeline class of the diffusers library")
    for name, value in index.items():
        if name.startswith("_") or not isinstance(value, list):
            continue
        if len(value) != 2:
            raise BadWeights(f"{folder / INDEX}: component {name!r} is no pair of library and class")
        library, class_name = value
        if library is None and class_name is None:
            continue  # an optional component that the pipeline does not have
        if library not in LIBRARIES:
            raise UnsupportedModel(f"{folder / INDEX}: component {name!r} comes from {library!r}, which is not served")
        _check_component(folder, name)


def _check_component(folder: Path, name: str) -> None:
    component = folder / name
    if Path(name).name != name or not component.is_dir():
        raise ModelNotFound(f"{folder} has no folder {name!r}, which its {INDEX} lists: fetch the whole pipeline")
    pickled = any(component.glob("*.bin")) or any(component.glob("*.pt*"))
    if pickled and not any(component.glob("*.safetensors")):
        raise UnsupportedModel(f"{component} has pickled weights only: convert them to safetensors")
