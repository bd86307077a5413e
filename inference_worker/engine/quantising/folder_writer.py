"""Writes a model folder whose linear layers are quantised, from one whose are not, one tensor at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig
from transformers.utils import logging as transformers_logging

from inference_worker.engine.models.transformers_backend import described_model
from inference_worker.engine.native.packing import GROUP
from inference_worker.engine.quantising.calibration import calibrate
from inference_worker.engine.quantising.gptq_rounding import InputMoments
from inference_worker.engine.quantising.schemes import SCHEMES, Scheme, SchemeName
from inference_worker.engine.weights.compressed_tensors import CompressedTensorsFormat
from inference_worker.engine.weights.pretrained import from_pretrained
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
    folder: Path, config: PreTrainedConfig, to: SchemeName, out: Path, *, progress: Progress, calibration: list[int]
) -> list[MatrixError]:
    """Write the model in `folder` to the empty folder `out` with its linear layers quantised; return their errors.

    Embedding and output head stay as they are, and so do layers whose inputs are no multiple of 32.

    Args:
        folder, config: the model and its configuration.
        to: the scheme of its linear layers.
        out: the folder that is filled.
        progress: called after each matrix.
        calibration: token ids of the calibration text, which int4 alone reads.

    Raises:
        UnsupportedModel: the tensors of the model are not those of its linear layers (experts), or its decoder layers
            are no chain and `to` is calibrated.
        BadWeights: a file is damaged or missing.
    """
    source = SafetensorsFolder(folder)
    shapes = source.shapes()
    described = described_model(config)
    try:
        check(described, source, tied_embeddings=config.tie_word_embeddings)
    except BadWeights as error:
        raise UnsupportedModel(f"a {config.model_type} of this kind can't be quantised: {error}") from error
    linear = [f"{name}.weight" for name, module in described.named_modules() if isinstance(module, nn.Linear)]
    matrices = {name for name in linear if name != "lm_head.weight" and shapes[name][1] % GROUP == 0}
    ignored = sorted(name.removesuffix(".weight") for name in {*linear, "lm_head.weight"} - matrices)
    quantization = SCHEMES[to].config(ignored)
    total = sum(shapes[name][0] * shapes[name][1] for name in matrices)
    rounding = _Rounding(SCHEMES[to], source, _ShardWriter(out), total=total, progress=progress)
    progress(0, total)
    if SCHEMES[to].calibrated:
        transformers_logging.disable_progress_bar()
        model = from_pretrained(AutoModelForCausalLM, folder, config, _dtype(config), attn_implementation="eager")
        calibrate(model, matrices, calibration, rounding.add)
    for name in sorted(matrices - rounding.errors.keys()):
        rounding.add(name)
    for name in sorted(shapes.keys() - matrices):
        rounding.writer.add({name: source.read(name)})
    rounding.writer.close()
    for path in sorted(folder.iterdir()):
        if path.suffix in _COPIED and path.is_file() and path.name not in ("config.json", INDEX):
            shutil.copyfile(file_inside(folder, path.name), out / path.name)
    described_json = {**(read_json_object(folder / "config.json") or {}), "quantization_config": quantization}
    (out / "config.json").write_text(json.dumps(described_json, indent=2) + "\n")
    return [rounding.errors[name] for name in sorted(matrices)]


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Make a folder that gets its name `out` at the end of the context, and is removed if an exception leaves it."""
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _dtype(config: PreTrainedConfig) -> torch.dtype:
    """Return the number format in which the model is loaded for calibration: that of its files."""
    return config.dtype if isinstance(config.dtype, torch.dtype) else torch.float32


class _Rounding:
    """Rounds matrices, writes them, and keeps their errors."""

    def __init__(
        self, scheme: Scheme, source: SafetensorsFolder, writer: _ShardWriter, *, total: int, progress: Progress
    ) -> None:
        self._scheme, self._source, self.writer = scheme, source, writer
        self._layout = CompressedTensorsFormat(scheme.config([]))
        self._total, self._progress = total, progress
        self.errors: dict[str, MatrixError] = {}

    def add(self, name: str, moments: InputMoments | None = None) -> Tensor:
        """Round and write the matrix `name`, whose inputs have these moments; return the weights that it stands for."""
        weight = self._source.read(name)
        parts = self._scheme.round(weight, moments)
        self.writer.add({f"{name.removesuffix('weight')}{part}": tensor for part, tensor in parts.items()})
        rounded = self._layout.read(parts).dequantise()
        self.errors[name] = _error(name, weight.float(), rounded)
        self._progress(sum(error.weights for error in self.errors.values()), self._total)
        return rounded


def _error(name: str, weight: Tensor, rounded: Tensor) -> MatrixError:
    square = weight.square().mean().item()
    return MatrixError(name, weight.numel(), (rounded - weight).square().mean().item(), square)


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
