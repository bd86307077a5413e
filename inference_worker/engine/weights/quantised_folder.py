"""Reads a folder of safetensors whose matrices are quantised as a checkpoint of matrices, under their usual names.

Formats: compressed-tensors and `fp8` (`compressed_tensors.py`), GPTQ and AWQ (`packed_formats.py`). Which one a folder
has is in `quantization_config` of its `config.json`; which modules are quantised follows from the names of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from torch import Tensor

from inference_worker.engine.native.packing import GROUP, Int4Values, Int8Values
from inference_worker.engine.weights.compressed_tensors import CompressedTensorsFormat
from inference_worker.engine.weights.grouped_weight import GroupedWeight
from inference_worker.engine.weights.packed_formats import AWQFormat, GPTQFormat
from inference_worker.engine.weights.quantisation_config import field, refuse
from inference_worker.engine.weights.weights import SafetensorsFolder, Shape
from inference_worker.errors import BadWeights


class WeightFormat(Protocol):
    """The interface of a layout of quantised matrices.

    Attributes:
        parts: last names of the tensors that make a quantised matrix.
        unused: last names of tensors that are not read.
    """

    parts: frozenset[str]
    unused: frozenset[str]

    def is_quantised(self, names: set[str]) -> bool:
        """Return whether a module with tensors of these last names has a quantised matrix."""
        ...

    def shape(self, found: Mapping[str, Shape], read: Callable[[str], Tensor]) -> Shape:
        """Return the shape of a matrix, (out, in), from those of its parts; `read` reads a small part.

        Raises:
            BadWeights: a part is missing, or the parts don't fit.
        """
        ...

    def read(self, parts: Mapping[str, Tensor]) -> GroupedWeight:
        """Return the matrix of parts whose shapes fit; raises `BadWeights` if a value does not."""
        ...


_FORMATS: Mapping[str, Callable[[Mapping[str, Any]], WeightFormat]] = MappingProxyType(
    {
        "compressed-tensors": CompressedTensorsFormat,
        "fp8": CompressedTensorsFormat,
        "gptq": GPTQFormat,
        "awq": AWQFormat,
    }
)


class QuantisedFolder:
    """A `Checkpoint` (`weights.py`) of the quantised matrices and other tensors in a folder of safetensors.

    Raises:
        UnsupportedModel: the matrices are quantised in a way that the engine can't load; the message names the field.
        BadWeights: a shard is missing or damaged, or the tensors of a module don't fit.
    """

    def __init__(self, folder: Path, config: Any) -> None:
        """`config`: the value of `quantization_config`."""
        if not isinstance(config, dict):
            refuse("quant_method", "a configuration that is no object")
        self._format = _FORMATS[field(config, "quant_method", tuple(_FORMATS))](config)
        self._folder = SafetensorsFolder(folder)
        self._stored = self._folder.shapes()
        names: dict[str, dict[str, str]] = {}
        for name in self._stored:
            module, _, part = name.rpartition(".")
            names.setdefault(module, {})[part] = name
        self._parts = {
            f"{module}.weight": {part: name for part, name in found.items() if part in self._format.parts}
            for module, found in names.items()
            if self._format.is_quantised(set(found))
        }
        consumed = {name for parts in self._parts.values() for name in parts.values()}
        self._others = {
            name for name in self._stored if name not in consumed and name.rpartition(".")[2] not in self._format.unused
        }

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shape of every matrix and other tensor by name, from headers."""
        found = {name: self._stored[name] for name in self._others}
        with self._folder.reader() as read:
            for name, parts in self._parts.items():
                shapes = {part: self._stored[stored] for part, stored in parts.items()}
                with _named(name):
                    found[name] = self._format.shape(shapes, lambda part, parts=parts: read(parts[part]))  # type: ignore[misc]
        return found

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield each tensor with its name, one at a time, on the CPU; quantised matrices as float32."""
        with self._folder.reader() as read:
            for name in sorted(self._others):
                yield name, read(name)
        for name, weight in self._matrices():
            yield name, weight.dequantise()

    def quantised_values(self) -> Iterator[tuple[str, Int4Values | Int8Values]]:
        """Yield every quantised matrix with its name, repacked as int4 or int8 for the CPU kernels, one at a time.

        Left out are matrices whose number of inputs is no multiple of the kernels' groups.
        """
        for name, weight in self._matrices():
            if weight.codes.shape[1] % GROUP == 0:
                with _named(name):
                    values = weight.values()
                yield name, values

    def leave_out_zero_biases(self, expected: Collection[str]) -> None:
        """Leave out biases that are not in `expected` and are 0: AutoGPTQ wrote one for every matrix."""
        with self._folder.reader() as read:
            for name in sorted(self._others - set(expected)):
                if name.endswith(".bias") and not read(name).any():
                    self._others.remove(name)

    def _matrices(self) -> Iterator[tuple[str, GroupedWeight]]:
        with self._folder.reader() as read:
            for name, parts in self._parts.items():
                with _named(name):
                    weight = self._format.read({part: read(stored) for part, stored in parts.items()})
                yield name, weight


@contextmanager
def _named(matrix: str) -> Iterator[None]:
    """Add the name of the module to an error of its weights."""
    try:
        yield
    except BadWeights as error:
        raise BadWeights(f"{matrix.removesuffix('.weight')}: {error}") from error
