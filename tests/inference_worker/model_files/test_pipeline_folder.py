"""Folders of pipelines: what is served, and what is refused before it is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from inference_worker.errors import BadWeights, ModelError, ModelNotFound, UnsupportedModel
from inference_worker.model_files.model_source import resolve
from inference_worker.model_files.pipeline_folder import check_pipeline
from router.messages import Task

INDEX = {
    "_class_name": "StableDiffusionPipeline",
    "requires_safety_checker": False,
    "safety_checker": [None, None],
    "unet": ["diffusers", "UNet2DConditionModel"],
}


def folder(path: Path, **changes: Any) -> Path:
    (path / "unet").mkdir(parents=True, exist_ok=True)
    (path / "unet" / "model.safetensors").write_bytes(b"")
    (path / "model_index.json").write_text(json.dumps(INDEX | changes))
    return path


def test_a_pipeline_draws_images(tmp_path: Path) -> None:
    source = resolve(str(folder(tmp_path / "My Pipeline")))
    assert (source.kind, source.task, source.served_name) == ("pipeline", Task.IMAGE, "my-pipeline")
    check_pipeline(source.path)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"_class_name": ["pipeline", "Own"]}, UnsupportedModel),
        ({"_class_name": None}, UnsupportedModel),
        ({"unet": ["os", "system"]}, UnsupportedModel),
        ({"unet": ["unet", "Own"]}, UnsupportedModel),
        ({"unet": ["diffusers"]}, BadWeights),
        ({"vae": ["diffusers", "AutoencoderKL"]}, ModelNotFound),
        ({"../unet": ["diffusers", "AutoencoderKL"]}, ModelNotFound),
    ],
)
def test_what_is_not_a_library_pipeline_is_refused(tmp_path: Path, changes: Any, error: type[ModelError]) -> None:
    with pytest.raises(error):
        check_pipeline(folder(tmp_path, **changes))


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path)
    shutil.move(path / "unet" / "model.safetensors", path / "unet" / "model.bin")
    with pytest.raises(UnsupportedModel, match="pickled"):
        check_pipeline(path)


def test_a_component_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = folder(tmp_path / "pipeline")
    (tmp_path / "secret.json").write_text("{}")
    (path / "unet" / "config.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(BadWeights, match="leads out"):
        resolve(str(path))
