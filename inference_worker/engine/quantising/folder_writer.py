"""Writes a model folder whose linear layers are quantised, from one whose are not, one tensor at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedConfig

from inference_worker.engine.models.transformers_backend import described_model
from inference_worker.engine.native.packing import GROUP
from inference_worker.engine.quantising.schemes import SCHEMES, SchemeName
from inference_worker.engine.weights.compressed_tensors import CompressedTensorsFormat
from inference_worker.engine.weights.weights import INDEX, SafetensorsFolder, check
from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.model_source import file_inside, read_json_object

_COPIED = frozenset({".json", ".jinja", ".txt", ".model", ".md", ".tiktoken", ""})
"""Suffixes of the files that are copied: tokenizer, chat template, licence."""
_SHARD_BYTES = 2 << 30

Progress = Callable[[int, int], None]
"""Called with the number of weights that are done, and that of all."""


@dataclass(frozen=True)
class MatrixError:
    """The error of a quantised matrix: of its weights, the mean square of the error, and that of the weights."""

    name: str
    weights: int
    mean_squared_error: float
    mean_square: float


def write_quantised(
    folder: Path, config: PreTrainedConfig, to: SchemeName, out: Path, progress: Progress
) -> list[MatrixError]:
    """Write the model in `folder` to the new folder `out` with its linear layers quantised; return their errors.

    Embedding and output head stay as they are, and so do layers whose inputs are no multiple of 32.

    Raises:
        UnsupportedModel: the tensors of the model are not those of its linear layers (experts).
        BadWeights: a file is damaged or missing.
    """
    scheme, source = SCHEMES[to], SafetensorsFolder(folder)
    shapes = source.shapes()
    described = described_model(config)
    try:
        check(described, source, tied_embeddings=config.tie_word_embeddings)
    except BadWeights as error:
        raise UnsupportedModel(f"a {config.model_type} of this kind can't be quantised: {error}") from error
    linear = [f"{name}.weight" for name, module in described.named_modules() if isinstance(module, nn.Linear)]
    matrices = {name for name in linear if name != "lm_head.weight" and shapes[name][1] % GROUP == 0}
    ignored = sorted(name.removesuffix(".weight") for name in {*linear, "lm_head.weight"} - matrices)
    quantization = scheme.config(ignored)
    total, done = sum(shapes[name][0] * shapes[name][1] for name in matrices), 0
    errors: list[MatrixError] = []
    with _new_folder(out) as partial:
        writer = _ShardWriter(partial)
        progress(0, total)
        for name in sorted(shapes):
            weight = source.read(name)
            if name not in matrices:
                writer.add({name: weight})
                continue
            parts = scheme.round(weight)
            writer.add({f"{name.removesuffix('weight')}{part}": tensor for part, tensor in parts.items()})
            errors.append(_error(name, weight.float(), CompressedTensorsFormat(quantization).read(parts).dequantise()))
            done += weight.numel()
            progress(done, total)
        writer.close()
        for path in sorted(folder.iterdir()):
            if path.suffix in _COPIED and path.is_file() and path.name not in ("config.json", INDEX):
                shutil.copyfile(file_inside(folder, path.name), partial / path.name)
        described_json = {**(read_json_object(folder / "config.json") or {}), "quantization_config": quantization}
        (partial / "config.json").write_text(json.dumps(described_json, indent=2) + "\n")
    return errors


def _error(name: str, weight: Tensor, rounded: Tensor) -> MatrixError:
    square = weight.square().mean().item()
    return MatrixError(name, weight.numel(), (rounded - weight).square().mean().item(), square)


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """Make a folder that gets its name `out` at the end, and is removed if writing fails."""
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class _ShardWriter:
    """Writes tensors to shards of about 2 GiB, named and indexed as Hugging Face's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pending: dict[str, Tensor] = {}
        self._names: list[list[str]] = []
        self._bytes = 0

    def add(self, tensors: dict[str, Tensor]) -> None:
        """Add tensors, which are in memory until their shard is full."""
        self._pending.update((name, tensor.contiguous()) for name, tensor in tensors.items())
        if sum(tensor.nbytes for tensor in self._pending.values()) >= _SHARD_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the last shard, and the index if there are several."""
        self._flush()
        count = len(self._names)
        if count == 1:
            self._shard(0).rename(self._folder / "model.safetensors")
            return
        index: dict[str, str] = {}
        for number, names in enumerate(self._names):
            name = f"model-{number + 1:05}-of-{count:05}.safetensors"
            self._shard(number).rename(self._folder / name)
            index.update(dict.fromkeys(names, name))
        content = {"metadata": {"total_size": self._bytes}, "weight_map": index}
        (self._folder / INDEX).write_text(json.dumps(content, indent=2) + "\n")

    def _flush(self) -> None:
        if self._pending:
            save_file(self._pending, self._shard(len(self._names)), {"format": "pt"})
            self._bytes += sum(tensor.nbytes for tensor in self._pending.values())
            self._names.append(sorted(self._pending))
            self._pending = {}

    def _shard(self, number: int) -> Path:
        return self._folder / f"shard-{number}.safetensors"
