"""Command `headrace quantize`: options, progress, and the report of quality as a table."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from infra.cli.store_command import console, print_table
from infra.home import environment
from infra.home.settings import LauncherSettings
from runtime import logging
from runtime.lifecycle import StartupError

if TYPE_CHECKING:
    from inference_worker.engine.quantising.quantising import QualityReport

PANEL = "Models"

_STAGES = {
    "original": "measuring the model",
    "quantise": "quantising",
    "quantised": "measuring the quantised model",
}


class To(StrEnum):
    """The number formats of quantised weights."""

    INT4 = "int4"
    INT8 = "int8"
    FP8 = "fp8"


def register(app: typer.Typer) -> None:
    """Add the command `quantize` to `app`, the `headrace` command line."""
    app.command(rich_help_panel=PANEL)(quantize)


def quantize(
    model: Annotated[str, typer.Argument(help="A Hugging Face id, or a folder with safetensors.")],
    *,
    to: Annotated[To, typer.Option(help="Number format of the weights of linear layers.")],
    out: Annotated[
        Path | None, typer.Option(help="New folder; by default MODEL-FORMAT in the home's models.", show_default=False)
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(help="Text to measure quality on; by default the project's.", show_default=False),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            help="Text for whose inputs int4 is rounded, best like that of later prompts. By default the project's.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a quantised copy of a model in the format of compressed-tensors, and report the loss of quality."""
    from inference_worker.engine.quantising.quantising import REPORT, quantise, source_of  # noqa: PLC0415
    from inference_worker.errors import ModelError  # noqa: PLC0415

    logging.configure("quantize", level="error")
    if calibration is not None and to is not To.INT4:
        raise StartupError("--calibration is for --to int4: int8 and fp8 are rounded without a text")
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    try:
        source = source_of(model)
        folder = out or environment.load(LauncherSettings).folder.models / f"{source.served_name}-{to}"
        if folder.exists():
            raise StartupError(f"{folder} exists already: name another folder with --out, or remove it")
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("", total=None)
            report = quantise(
                source,
                to.value,
                folder,
                text=_text(text),
                calibration=_text(calibration),
                progress=lambda done, total: progress.update(task, completed=done, total=total),
                stage=lambda stage: progress.reset(task, description=_STAGES[stage], total=None),
            )
    except ModelError as error:
        raise StartupError(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"can't quantise {model}: {error}") from error
    _print(report)
    console.print(f"report: {folder / REPORT}", soft_wrap=True)
    console.print(f"headrace serve --model {folder}", soft_wrap=True)


def _text(path: Path | None) -> str | None:
    return None if path is None else path.read_text(encoding="utf-8")


def _print(report: QualityReport) -> None:
    table = Table("", report.model, report.to)
    table.add_row("weights on disk", _size(report.bytes), _size(report.quantised_bytes))
    change = report.quantised_perplexity / report.perplexity - 1
    table.add_row("perplexity", f"{report.perplexity:.3f}", f"{report.quantised_perplexity:.3f} ({change:+.2%})")
    table.add_row("same best token", "", f"{report.same_best_token:.1%} of {report.tokens}")
    print_table(table)
    layers = Table("layer", "mean squared error", "of the weights' mean square")
    for name, (error, share) in report.errors_by_layer().items():
        layers.add_row(name, f"{error:.3g}", f"{share:.4%}")
    print_table(layers)


def _size(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"
