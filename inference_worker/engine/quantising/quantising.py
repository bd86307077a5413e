"""Quantises a model and reports what its quality costs: perplexity, most likely tokens, and errors of weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import torch

from inference_worker.engine.engine import Engine
from inference_worker.engine.layers.rotary import max_context_length
from inference_worker.engine.loading.model_loader import read_config
from inference_worker.engine.quantising.calibration import CALIBRATION_TEXT
from inference_worker.engine.quantising.folder_writer import MatrixError, Progress, new_folder, write_quantised
from inference_worker.engine.quantising.schemes import SchemeName
from inference_worker.engine.quantising.teacher_forcing import PASSAGE, WINDOWS, Prediction, predict_prompts, windows
from inference_worker.errors import UnsupportedModel
from inference_worker.model_files.model_source import ModelSource, resolve
from inference_worker.settings import EngineSettings
from inference_worker.tokenizer.tokenizer_files import read_text_files
from router.messages import Task

REPORT = "quantization-report.json"
"""Name of the file with the report, in the folder that is written."""

_WINDOW, _BLOCK, _ROWS = 256, 16, 256

Stage = Literal["quantise", "original", "quantised"]


@dataclass(frozen=True)
class QualityReport:
    """What quantisation costs, on a text that both models predict token by token.

    Attributes:
        model: the model that was quantised.
        to: scheme of its linear layers.
        tokens: predicted tokens of the text.
        perplexity, quantised_perplexity: of the model as it was, in `HEADRACE_DTYPE=auto`, and as it is served now.
        same_best_token: share, 0 to 1, of tokens at which both models find the same token most likely.
        bytes, quantised_bytes: sizes of the weights' files.
        matrices: the errors of each quantised matrix.
    """

    model: str
    to: SchemeName
    tokens: int
    perplexity: float
    quantised_perplexity: float
    same_best_token: float
    bytes: int
    quantised_bytes: int
    matrices: list[MatrixError]

    def errors_by_layer(self) -> dict[str, tuple[float, float]]:
        """Return the mean squared error of the weights of each decoder layer, and its share of their mean square."""
        layers: dict[str, list[MatrixError]] = {}
        for matrix in self.matrices:
            number = next((part for part in matrix.name.split(".") if part.isdecimal()), "other")
            layers.setdefault(number, []).append(matrix)
        found: dict[str, tuple[float, float]] = {}
        for number in sorted(layers, key=lambda name: (not name.isdecimal(), name.zfill(8))):
            error = sum(matrix.mean_squared_error * matrix.weights for matrix in layers[number])
            square = sum(matrix.mean_square * matrix.weights for matrix in layers[number])
            found[number] = error / sum(matrix.weights for matrix in layers[number]), error / max(square, 1e-30)
        return found


def source_of(model: str) -> ModelSource:
    """Return the model that is to be quantised: a folder or a Hugging Face id, which is downloaded unless cached.

    Raises:
        ModelNotFound: there is no such model.
        UnsupportedModel: it is no text-generating model in safetensors.
    """
    source = resolve(model)
    if source.kind != "safetensors" or source.task is not Task.GENERATE or source.reads_images:
        raise UnsupportedModel(f"{model}: only text-generating models in folders with safetensors can be quantised")
    return source


def quantise(
    source: ModelSource,
    to: SchemeName,
    out: Path,
    *,
    text: str | None,
    calibration: str | None,
    progress: Progress,
    stage: Callable[[Stage], None],
) -> QualityReport:
    """Write the model `source`, quantised, to the new folder `out`, with a report of its quality; return the report.

    Args:
        text: text on which quality is measured; None: one of the project's, 1,550 words.
        calibration: text for whose inputs int4 matrices are rounded; None: the project's. int8 and fp8 need none.
        progress: called while weights are quantised.
        stage: called when a stage begins.

    Raises:
        ModelError: the model can't be read, quantised or computed.
    """
    folder = source.path
    config = read_config(folder)
    tokenizer = read_text_files(folder).tokenizer
    ids = tokenizer.encode(PASSAGE.read_text() if text is None else text)
    length = min(len(ids) // WINDOWS, _WINDOW, max_context_length(config.get_text_config()))
    if length < 2:
        raise UnsupportedModel(f"the text has {len(ids)} tokens: too few to measure quality")
    texts = windows(ids, length)
    calibration_ids = tokenizer.encode(
        CALIBRATION_TEXT.read_text(encoding="utf-8") if calibration is None else calibration
    )
    if not calibration_ids:
        raise UnsupportedModel("the text for calibration is empty")
    stage("original")
    before = _prediction(folder, texts, "none")
    with new_folder(out) as partial:
        stage("quantise")
        errors = write_quantised(folder, config, to, partial, progress=progress, calibration=calibration_ids)
        stage("quantised")
        after = _prediction(partial, texts, "auto")
        report = QualityReport(
            model=source.served_name,
            to=to,
            tokens=before.losses.size,
            perplexity=before.perplexity,
            quantised_perplexity=after.perplexity,
            same_best_token=after.agreement(before),
            bytes=_weight_bytes(folder),
            quantised_bytes=_weight_bytes(partial),
            matrices=errors,
        )
        (partial / REPORT).write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    return report


def _prediction(folder: Path, texts: list[list[int]], quantization: str) -> Prediction:
    threads = torch.get_num_threads()
    settings = EngineSettings(
        model=str(folder),
        quantization=quantization,
        max_model_len=len(texts[0]),
        max_num_seqs=WINDOWS,
        block_size=_BLOCK,
        num_kv_blocks=WINDOWS * -(-len(texts[0]) // _BLOCK),
        enable_prefix_caching=False,
    )
    try:
        return predict_prompts(Engine.from_settings(settings), texts, _ROWS)
    finally:
        torch.set_num_threads(threads)


def _weight_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))
