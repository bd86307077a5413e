"""Fills a model's parameters from a checkpoint on disk by tensor name, after a check of names and shapes.

Names and shapes are compared first, from headers alone, so a damaged or wrong checkpoint costs no memory; then
tensors are read one at a time. The `safetensors` library checks every header against its file's size. `gguf_file.py`
has the `Checkpoint` of GGUF files, `quantised_folder.py` that of quantised folders.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from inference_worker.engine.layers.linear import MergedLinear
from inference_worker.engine.native.packing import Fp8Values, Int4Values, Int8Values
from inference_worker.errors import BadWeights
from inference_worker.model_files.model_source import file_inside

Shape = tuple[int, ...]
Quantisation = Literal["none", "int8", "int4"]

IGNORED = ("rotary_emb.inv_freq", "attention.masked_bias", "attention.bias")
"""Name suffixes of tensors that old checkpoints contain but that are not needed."""
INDEX = "model.safetensors.index.json"
"""Name of the file that names the shard of each tensor, in a folder with several."""


class Checkpoint(Protocol):
    """The interface of a model's tensors on disk, under their Hugging Face names."""

    @property
    def files(self) -> Sequence[Path]:
        """The files that the tensors depend on."""
        ...

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shape of every tensor of the checkpoint by name; implementations read headers and load no data."""
        ...

    def read(self, name: str) -> Tensor:
        """Return the tensor `name` of the checkpoint, on the CPU; a quantised matrix is dequantised to float32."""
        ...

    def quantisation(self) -> Quantisation:
        """Return how the matrices of the checkpoint are stored: `int4` if any is, else `int8` if any is quantised."""
        ...

    def quantised(self, name: str) -> Int4Values | Int8Values | Fp8Values | None:
        """Return the matrix `name` as it is quantised, repacked for the kernels; None if it is not."""
        ...


class Unquantised:
    """The part of a `Checkpoint` none of whose matrices is quantised."""

    def quantisation(self) -> Quantisation:
        """Return that the matrices are not quantised: `none`."""
        return "none"

    def quantised(self, _: str) -> None:
        """Return that a matrix is not quantised: None."""
        return


class LoadedModel(Unquantised):
    """A `Checkpoint` of the parameters of a model in memory."""

    files = ()

    def __init__(self, model: nn.Module) -> None:
        self._parameters = parameters_by_name(model)

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shape of every parameter by its name in checkpoints."""
        return {name: tuple(parameter.shape) for name, parameter in self._parameters.items()}

    def read(self, name: str) -> Tensor:
        """Return the parameter `name`, which is not copied."""
        return self._parameters[name]


class SafetensorsFolder(Unquantised):
    """A `Checkpoint` of the `.safetensors` shards in a folder.

    Raises:
        BadWeights: a shard is missing or damaged, or lies outside the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.files = _shards(folder)

    @cached_property
    def _files(self) -> dict[str, Any]:
        """The open shard of each tensor; shards are mapped into memory and closed with this object."""
        found: dict[str, Any] = {}
        for shard in self.files:
            try:
                file: Any = safe_open(shard, framework="pt")
            except (SafetensorError, OSError) as error:
                raise BadWeights(f"{shard.name} is damaged: {error}") from error
            found.update(dict.fromkeys(file.keys(), file))
        return found

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shape of every tensor in the folder's shards by name, from headers without loading any data."""
        return {name: tuple(file.get_slice(name).get_shape()) for name, file in self._files.items()}

    def read(self, name: str) -> Tensor:
        """Return the folder's tensor `name`, on the CPU."""
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor


class BaseModel(Unquantised):
    """The tensors of a checkpoint without those of heads, under the names that they have in a causal language model."""

    _PREFIX = "model."

    def __init__(self, checkpoint: Checkpoint) -> None:
        """`checkpoint` has a base model alone, whose names have no prefix, or one with a head."""
        self._checkpoint = checkpoint
        self.files = checkpoint.files
        self._alone = not any(name.startswith(self._PREFIX) for name in checkpoint.shapes())

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shape of each base model tensor by name, without the tensors of heads; no data is loaded."""
        return {found: shape for name, shape in self._checkpoint.shapes().items() if (found := self._name(name))}

    def read(self, name: str) -> Tensor:
        """Return the base model tensor `name`, on the CPU."""
        return self._checkpoint.read(name.removeprefix(self._PREFIX) if self._alone else name)

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

    Call `check` first, because tensors without a parameter, and parameters without a tensor, are skipped.
    """
    stored = checkpoint.shapes()
    for name, slot in parameters_by_name(model).items():
        if name in stored:
            slot.copy_(checkpoint.read(name))


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
