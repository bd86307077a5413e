"""Finds and reads the files of a GGUF model: one, or several as `llama-gguf-split` writes them.

    parts = read_parts(Path("model-00001-of-00003.gguf"))   # three files, in order

The first file has the model's metadata, and each has some of its tensors. Must not import torch or numpy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from inference_worker.errors import BadWeights, ModelNotFound, UnsupportedModel
from inference_worker.model_files.gguf_metadata import GGUFHeader, read_header

_NAME = re.compile(r"(.+)-(\d{5})-of-(\d{5})")
_MAX_PARTS = 99_999


@dataclass(frozen=True)
class GGUFPart:
    """One file of a GGUF model: its path and its header."""

    path: Path
    header: GGUFHeader


def stem_of_all(path: Path) -> str:
    """Return the name of a GGUF file without its suffix and, if it is a part of a split model, without its number."""
    match = _NAME.fullmatch(path.stem)
    return match[1] if match else path.stem


def read_parts(path: Path) -> tuple[GGUFPart, ...]:
    """Read the headers of all files of the GGUF model whose only or first file is `path`.

    Raises:
        ModelNotFound: a file is missing.
        BadWeights: a file is damaged, or the files don't belong together.
        UnsupportedModel: `path` is a later file of a split model, or a file's version is not supported.
    """
    first = read_header(path)
    count = first.metadata.get("split.count", 1)
    if not isinstance(count, int) or not 0 <= count <= _MAX_PARTS:
        raise BadWeights(f"{path}: split.count is {count!r}")
    if count <= 1:
        return (GGUFPart(path, first),)
    match = _NAME.fullmatch(path.stem)
    if match is None or int(match[3]) != count:
        raise BadWeights(f"{path} is one of {count} files, but its name does not end in -00001-of-{count:05}.gguf")
    paths = [path.with_name(f"{match[1]}-{number:05}-of-{match[3]}{path.suffix}") for number in range(1, count + 1)]
    if path != paths[0]:
        raise UnsupportedModel(f"{path.name} is a later part of a split GGUF: name the first, {paths[0].name}")
    parts = tuple(_part(each, number, count) for number, each in enumerate(paths))
    names = [tensor.name for part in parts for tensor in part.header.tensors]
    if len(set(names)) < len(names) or len(names) != first.metadata.get("split.tensors.count", len(names)):
        raise BadWeights(f"{path} and its {count - 1} other parts don't have each of the model's tensors once")
    return parts


def _part(path: Path, number: int, count: int) -> GGUFPart:
    if not path.is_file():
        raise ModelNotFound(f"part {number + 1} of {count} of a split GGUF is missing: {path}")
    header = read_header(path)
    if (header.metadata.get("split.no"), header.metadata.get("split.count")) != (number, count):
        raise BadWeights(f"{path} is not part {number + 1} of {count}, as its name says")
    return GGUFPart(path, header)
