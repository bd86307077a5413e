"""Locates the model that a worker serves: a .gguf file, a folder, or a Hugging Face id (downloaded if needed).

A folder holds safetensors, or a pipeline of the diffusers library (`model_index.json`), which is not downloaded.

Never downloads or accepts pickled weights or a repository's own Python. Must not import torch.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from inference_worker.errors import BadWeights, ModelNotFound, UnsupportedModel
from inference_worker.model_files.gguf_parts import stem_of_all
from router.messages import Task

ModelKind = Literal["gguf", "safetensors", "pipeline"]

PIPELINE_INDEX = "model_index.json"
"""File that a folder with a pipeline of the diffusers library has."""

DOWNLOADED = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.txt", "*.jinja", "*.model", "*.tiktoken"]
NOT_DOWNLOADED = ["*/*", "consolidated*"]
"""File patterns not downloaded: sub-folders hold other formats, `consolidated*` the same weights in another layout."""
POOLING_CONFIG = ["*_Pooling/config.json"]
"""Pooling configuration of a Sentence Transformers model, the one sub-folder that is needed."""

_IMAGE_CONFIGS = ("processor_config.json", "preprocessor_config.json")
_SERVED_AS_TEXT = frozenset(
    {"emu3", "gemma3", "gemma3n", "gemma4", "gemma4_unified", "llama4", "mllama", "qwen3_5", "qwen3_5_moe"}
)
"""Families with an image encoder whose texts the generation engine serves, on its paged cache."""

_READ = frozenset({".json", ".jinja", ".safetensors"})
"""Suffixes of the files that a worker reads from a model folder."""

_HUGGING_FACE_ID = re.compile(r"[\w][\w.\-]*(/[\w][\w.\-]*)?")
_QUANTISATION = re.compile(r"[.\-_](ud[.\-_])?(i?q\d\w*|b?f16|fp16|f32|fp32|mxfp4\w*)$")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9._\-]+")


SCORING_ARCHITECTURES = ("ForSequenceClassification", "ForRewardModel", "ForProcessRewardModel", "ForPrmModel")
"""Ends of the names of architectures that score."""


@dataclass(frozen=True)
class ModelSource:
    """A model on disk.

    Attributes:
        kind: `gguf`: `path` is the file; `safetensors`: `path` is a folder with `config.json` and shards; `pipeline`:
            `path` is the folder of a diffusers pipeline.
        served_name: model name in the API, unless `HEADRACE_SERVED_MODEL_NAME` is set.
        task: generation, embedding, scores or images.
        reads_images: whether it is a vision-language model, which generates text about images.
    """

    kind: ModelKind
    path: Path
    served_name: str
    task: Task = Task.GENERATE
    reads_images: bool = False


def resolve(model: str, *, step_tag: str = "") -> ModelSource:
    """Return where `model` is on disk, its kind and its task.

    `model` is the path of a `.gguf` file (of a split one the first part) or a folder, else a Hugging Face id, which is
    downloaded unless cached. With a `step_tag` a causal language model is a process reward model, which scores the
    steps of answers.

    Raises:
        ModelNotFound: there is no such model, or it can't be downloaded.
        UnsupportedModel: the model's file format is not served.
    """
    source = _located(model)
    if not step_tag or source.task is Task.SCORE:
        return source
    if source.kind != "safetensors" or source.task is not Task.GENERATE:
        raise UnsupportedModel(f"{model}: a step tag needs a causal language model in a folder with safetensors")
    return replace(source, task=Task.SCORE)


def _located(model: str) -> ModelSource:
    path = Path(model).expanduser()
    if path.suffix.lower() == ".gguf":
        return _from_gguf(path)
    if path.is_dir():
        return _from_folder(path, _as_name(path.resolve().name))
    if path.exists():
        raise UnsupportedModel(f"{model} is neither a .gguf file nor a folder with safetensors")
    if _HUGGING_FACE_ID.fullmatch(model) is None:
        raise ModelNotFound(f"there is no model at {model}")
    return _from_folder(_download(model), model)


def file_inside(folder: Path, name: str) -> Path:
    """Return the path of file `name` in a model folder, after checking that it does not lead out of the folder.

    In a Hugging Face cache, where `snapshots/<revision>/name` links to `blobs/`, a link may lead anywhere within the
    repository's folder.

    Raises:
        BadWeights: `name` contains a folder, or links to a file outside.
    """
    path = folder.resolve() / name
    if Path(name).name != name or not _is_inside(folder, path):
        raise BadWeights(f"{name!r} in {folder} leads out of the model's folder")
    return path


def _is_inside(folder: Path, path: Path) -> bool:
    root = folder.resolve()
    border = root.parent.parent if root.parent.name == "snapshots" else root
    return path.resolve().is_relative_to(border)


def read_json(path: Path) -> Any:
    """Return the value in the JSON file of a model at `path`; `None` if there is no such file.

    Raises:
        BadWeights: the file is not JSON, or can't be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise BadWeights(f"can't read {path}: {error}") from error


def read_json_object(path: Path) -> dict[str, Any] | None:
    """Return the object in the JSON file of a model at `path` as a dict; `None` if there is no such file.

    Raises:
        BadWeights: the file is not JSON, holds another value, or can't be read.
    """
    value = read_json(path)
    if value is not None and not isinstance(value, dict):
        raise BadWeights(f"{path} holds no JSON object")
    return value


def _check_links(folder: Path) -> None:
    """Reject a folder with links to other files of this machine, which users could read as a template.

    Raises:
        BadWeights: a file that a worker reads, or its folder, links out of the model folder or is not a regular file.
    """
    for path in sorted({*folder.iterdir(), *folder.glob("*/*")}):
        if path.suffix not in _READ and not path.is_dir():
            continue
        if not _is_inside(folder, path):
            raise BadWeights(f"{str(path.relative_to(folder))!r} in {folder} leads out of the model's folder")
        if not path.is_file() and not path.is_dir():
            raise BadWeights(f"{str(path.relative_to(folder))!r} in {folder} is no file")


def _from_gguf(path: Path) -> ModelSource:
    if not path.is_file():
        raise ModelNotFound(f"there is no file {path}")
    name = _QUANTISATION.sub("", stem_of_all(path).lower())
    return ModelSource("gguf", path.absolute(), _as_name(name))


def _from_folder(folder: Path, name: str) -> ModelSource:
    if (folder / PIPELINE_INDEX).is_file():
        _check_links(folder)
        return ModelSource("pipeline", folder.absolute(), name, Task.IMAGE)
    if not (folder / "config.json").is_file():
        raise ModelNotFound(f"{folder} has no config.json")
    _check_links(folder)
    if any(folder.glob("*.safetensors")):
        return ModelSource("safetensors", folder.absolute(), name, _task(folder), _reads_images(folder))
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt*")):
        raise UnsupportedModel(f"{folder} has pickled weights only: convert them to safetensors")
    raise ModelNotFound(f"{folder} has no .safetensors weights")


def _task(folder: Path) -> Task:
    """Return the task of a safetensors folder.

    `EMBED` for Sentence Transformers folders and models without a language modelling head, `SCORE` for cross-encoders
    and reward models.
    """
    try:
        crossed = (read_json_object(folder / "config_sentence_transformers.json") or {}).get("model_type")
        if (folder / "modules.json").is_file() and crossed != "CrossEncoder":
            return Task.EMBED
        config = read_json(folder / "config.json")
        architecture = str((config.get("architectures") or [""])[0])
    except (BadWeights, AttributeError, KeyError):
        return Task.GENERATE  # loading the model reports what is wrong with it
    if architecture.endswith(SCORING_ARCHITECTURES):
        return Task.SCORE
    headless = architecture.endswith("Model") and "LMHead" not in architecture
    return Task.EMBED if headless or architecture.endswith("ForMaskedLM") else Task.GENERATE


def _reads_images(folder: Path) -> bool:
    """Return whether a folder has a vision-language model: an image encoder and the configuration of its inputs."""
    try:
        config = read_json_object(folder / "config.json") or {}
    except BadWeights:
        return False  # loading the model reports what is wrong with it
    if not isinstance(config.get("vision_config"), dict) or config.get("model_type") in _SERVED_AS_TEXT:
        return False
    return any((folder / name).is_file() for name in _IMAGE_CONFIGS)


def _as_name(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-") or "model"


def _download(repository: str) -> Path:
    """Return the cached snapshot of a Hugging Face repository, downloading it if needed."""
    from huggingface_hub import errors, snapshot_download  # noqa: PLC0415 - slow, and needed for hub ids only

    try:
        folder = Path(snapshot_download(repository, allow_patterns=DOWNLOADED, ignore_patterns=NOT_DOWNLOADED))
        if (folder / "modules.json").is_file():
            snapshot_download(repository, allow_patterns=POOLING_CONFIG)
    except errors.GatedRepoError as error:
        raise ModelNotFound(f"{repository} is gated on Hugging Face: accept its licence and set HF_TOKEN") from error
    except errors.RepositoryNotFoundError as error:
        raise ModelNotFound(f"there is no file, folder or Hugging Face repository {repository}") from error
    except errors.LocalEntryNotFoundError as error:
        raise ModelNotFound(f"{repository} is not on this disk and Hugging Face can't be reached") from error
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError) as error:
        raise ModelNotFound(f"can't fetch {repository} from Hugging Face: {str(error).splitlines()[0]}") from error
    if (folder / PIPELINE_INDEX).is_file() and not any(folder.glob("*/*.safetensors")):
        raise UnsupportedModel(f"{repository} is a diffusers pipeline: fetch it to a folder and name the folder")
    if not any(folder.glob("*.safetensors")) and not (folder / PIPELINE_INDEX).is_file():
        raise UnsupportedModel(f"{repository} has no .safetensors on Hugging Face, and other weights are not fetched")
    return folder
