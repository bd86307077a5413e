"""Fills a model's parameters from a checkpoint on disk by tensor name, after a check of names and shapes.

Names and shapes are compared first, from headers alone, so a damaged or wrong checkpoint costs no memory; then
tensors are read one at a time. The `safetensors` library checks every header against its file's size. `gguf_file.py`
has the `Checkpoint` of GGUF files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from inference_worker.engine.layers.linear import MergedLinear
from inference_worker.errors import BadWeights
from inference_worker.model_files.model_source import file_inside

Shape = tuple[int, ...]

IGNORED = ("rotary_emb.inv_freq", "attention.masked_bias", "attention.bias")
"""Name suffixes of tensors that old checkpoints contain but that are not needed."""
INDEX = "model.safetensors.index.json"
"""Name of the file that names the shard of each tensor, in a folder with several."""


class Checkpoint(Protocol):
    """The interface of a model's tensors on disk, under their Hugging Face names."""

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shape of every tensor of the checkpoint by name; implementations read headers and load no data."""
        ...

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor of the checkpoint with its name, one at a time, on the CPU."""
        ...


class SafetensorsFolder:
    """A `Checkpoint` of the `.safetensors` shards in a folder.

    Raises:
        BadWeights: a shard is missing or damaged, or lies outside the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.shards = _shards(folder)

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shape of every tensor in the folder's shards by name, from headers without loading any data."""
        found: dict[str, Shape] = {}
        for shard in self.shards:
            with _open_shard(shard) as file:
                found.update((name, tuple(file.get_slice(name).get_shape())) for name in file.keys())  # noqa: SIM118
        return found

    @contextmanager
    def reader(self) -> Iterator[Callable[[str], Tensor]]:
        """Open all shards, and yield a function that returns a tensor by name, on the CPU."""
        with ExitStack() as stack:
            files = {}
            for shard in self.shards:
                file = stack.enter_context(_open_shard(shard))
                files.update(dict.fromkeys(file.keys(), file))
            yield lambda name: files[name].get_tensor(name)

    def tensors(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Yield the folder's tensors whose names begin with `prefix`, with their names, one at a time, on the CPU."""
        for shard in self.shards:
            with _open_shard(shard) as file:
                for name in file.keys():  # noqa: SIM118
                    if name.startswith(prefix):
                        yield name, file.get_tensor(name)


class BaseModel:
    """The tensors of a checkpoint without those of heads, under the names that they have in a causal language model."""

    _PREFIX = "model."

    def __init__(self, checkpoint: Checkpoint) -> None:
        """`checkpoint` has a base model alone, whose names have no prefix, or one with a head."""
        self._checkpoint = checkpoint
        self._alone = not any(name.startswith(self._PREFIX) for name in checkpoint.shapes())

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shape of each base model tensor by name, without the tensors of heads; no data is loaded."""
        return {found: shape for name, shape in self._checkpoint.shapes().items() if (found := self._name(name))}

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield each base model tensor with its name, one at a time, on the CPU, without the tensors of heads."""
        for name, tensor in self._checkpoint.tensors():
            if found := self._name(name):
                yield found, tensor

    def _name(self, name: str) -> str:
        if self._alone:
            return f"{self._PREFIX}{name}"
        return name if name.startswith(self._PREFIX) else ""


def parameters_by_name(model: nn.Module) -> dict[str, Tensor]:
    """Return a model's parameters by their names in checkpoints.

    The parts of a merged projection are views of its parameters, each under its own name.
    """
    found: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        if isinstance(module, MergedLinear):
            parent = path.rpartition(".")[0]
            found.update((f"{parent}.{name}", view) for name, view in module.views())
        else:
            found.update((f"{path}.{name}", value) for name, value in module.named_parameters(recurse=False))
    return found


def check(model: nn.Module, checkpoint: Checkpoint, *, tied_embeddings: bool) -> None:
    """Check that a checkpoint's tensors have the names and shapes of a model's parameters, before any data is loaded.

    The model may be on the meta device. With `tied_embeddings` the output head may be missing.

    Raises:
        BadWeights: a tensor is missing, unexpected or of another shape; the message names the first one.
    """
    shapes = {name: tuple(slot.shape) for name, slot in parameters_by_name(model).items()}
    expected = {name: shape for name, shape in shapes.items() if not _is_ignored(name, tied_embeddings)}
    found = {name: shape for name, shape in checkpoint.shapes().items() if not _is_ignored(name, tied_embeddings)}
    if missing := sorted(expected.keys() - found.keys()):
        raise BadWeights(f"the checkpoint lacks {len(missing)} tensors, the first is {missing[0]}")
    if unexpected := sorted(found.keys() - expected.keys()):
        raise BadWeights(f"the checkpoint has {len(unexpected)} tensors too many, the first is {unexpected[0]}")
    for name, shape in expected.items():
        if found[name] != shape:
            raise BadWeights(f"{name} is {list(found[name])}, the configuration says {list(shape)}")


def load(model: nn.Module, checkpoint: Checkpoint) -> None:
    """Copy each tensor of a checkpoint to the model's parameter of the same name, converting dtype and device.

    Call `check` first, because tensors without a parameter are skipped.
    """
    parameters = parameters_by_name(model)
    for name, tensor in checkpoint.tensors():
        if (slot := parameters.get(name)) is not None:
            slot.copy_(tensor)


def _is_ignored(name: str, tied_embeddings: bool) -> bool:
    return name.endswith(IGNORED) or (tied_embeddings and name == "lm_head.weight")


def _shards(folder: Path) -> list[Path]:
    if not (folder / INDEX).exists():
        return [file_inside(folder, path.name) for path in sorted(folder.glob("*.safetensors"))]
    try:
        names = set(json.loads(file_inside(folder, INDEX).read_bytes())["weight_map"].values())
        shards = [file_inside(folder, str(name)) for name in sorted(names)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadWeights(f"{folder / INDEX} is not an index of shards: {error}") from error
    for shard in shards:
        if not shard.is_file():
            raise BadWeights(f"shard {shard.name} is missing in {folder}")
    return shards


@contextmanager
def _open_shard(shard: Path) -> Iterator[Any]:
    try:
        with safe_open(shard, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise BadWeights(f"{shard.name} is damaged: {error}") from error
