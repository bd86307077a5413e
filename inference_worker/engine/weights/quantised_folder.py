"""Reads a folder of safetensors whose matrices are quantised as a checkpoint of matrices, under their usual names.

Formats: compressed-tensors and `fp8` (`compressed_tensors.py`), GPTQ and AWQ (`packed_formats.py`). Which one a folder
has is in `quantization_config` of its `config.json`; which modules are quantised follows from the names of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from torch import Tensor

from inference_worker.engine.native.packing import GROUP, Fp8Values, Int4Values, Int8Values
from inference_worker.engine.weights.compressed_tensors import CompressedTensorsFormat
from inference_worker.engine.weights.grouped_weight import GroupedWeight
from inference_worker.engine.weights.packed_formats import AWQFormat, GPTQFormat
from inference_worker.engine.weights.quantisation_config import field, refuse
from inference_worker.engine.weights.weights import Quantisation, SafetensorsFolder, Shape
from inference_worker.errors import BadWeights


class WeightFormat(Protocol):
    """The interface of a layout of quantised matrices.

    Attributes:
        parts: last names of the tensors that make a quantised matrix.
        unused: last names of tensors that are not read.
        narrow: whether codes may have 4 bits or fewer.
    """

    parts: frozenset[str]
    unused: frozenset[str]
    narrow: bool

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
        self.files = [*self._folder.files, folder / "config.json"]
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
        for name in self._parts:
            with _named(name):
                found[name] = self._matrix_shape(name)
        return found

    def read(self, name: str) -> Tensor:
        """Return the tensor `name`, on the CPU; a quantised matrix as float32."""
        return self._matrix(name).dequantise() if name in self._parts else self._folder.read(name)

    def quantisation(self) -> Quantisation:
        """Return `int4` if any matrix is int4 for the CPU kernels, else `int8` if any is quantised."""
        fit = [name for name in self._parts if self._matrix_shape(name)[1] % GROUP == 0]
        if self._format.narrow and any(self._matrix(name).is_int4 for name in fit):
            return "int4"
        return "int8" if fit else "none"

    def quantised(self, name: str) -> Int4Values | Int8Values | Fp8Values | None:
        """Return the matrix `name` repacked as int4, int8 or FP8 for the kernels.

        None if it is not quantised, or the number of its inputs is no multiple of the kernels' groups.
        """
        if name not in self._parts or self._matrix_shape(name)[1] % GROUP:
            return None
        with _named(name):
            return self._matrix(name).values()

    def leave_out_zero_biases(self, expected: Collection[str]) -> None:
        """Leave out biases that are not in `expected` and are 0: AutoGPTQ wrote one for every matrix."""
        for name in sorted(self._others - set(expected)):
            if name.endswith(".bias") and not self._folder.read(name).any():
                self._others.remove(name)

    def _matrix_shape(self, name: str) -> Shape:
        return self._format.shape(
            {part: self._stored[stored] for part, stored in self._parts[name].items()}, partial(self._read_part, name)
        )

    def _read_part(self, name: str, part: str) -> Tensor:
        return self._folder.read(self._parts[name][part])

    def _matrix(self, name: str) -> GroupedWeight:
        with _named(name):
            return self._format.read({part: self._read_part(name, part) for part in self._parts[name]})


@contextmanager
def _named(matrix: str) -> Iterator[None]:
    """Add the name of the module to an error of its weights."""
    try:
        yield
    except BadWeights as error:
        raise BadWeights(f"{matrix.removesuffix('.weight')}: {error}") from error
