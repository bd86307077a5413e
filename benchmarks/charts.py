"""Draws the charts of benchmark results as SVG files; the same results give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.results import Result, Row

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "headrace",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
}


def draw(results: Iterable[Result], folder: Path) -> list[Path]:
    """Draw the chart of each benchmark result that has one to an SVG file in `folder`; return the files' paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_draw(result, folder / file_name(result.name)) for result in results if result.name in CHARTS]


def file_name(result: str) -> str:
    """Return the name of the SVG file with the chart of the benchmark result named `result`."""
    return f"bench-{result}.svg"


def _draw(result: Result, path: Path) -> Path:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 4), layout="constrained")
        axes = figure.subplots()
        axes.set_axisbelow(True)
        CHARTS[result.name](axes, result)
        figure.savefig(path, format="svg", metadata={"Date": None})
    return path


def _peers(axes: Axes, result: Result) -> None:
    """Draw one group of bars per batch size, with one bar per engine."""
    rows = [row for row in result.rows if row.get("work") == "generate"]
    sizes = list(dict.fromkeys(row["sequences"] for row in rows))
    engines = list(dict.fromkeys(str(row["peer"]) for row in rows))
    width = 0.8 / max(1, len(engines))
    for number, engine in enumerate(engines):
        heights = [_figure(row, "tokens_per_second") for row in rows if row["peer"] == engine]
        places = [index + (number - (len(engines) - 1) / 2) * width for index in range(len(heights))]
        axes.bar(places, heights, width, label=engine)
    axes.set_xticks(range(len(sizes)), [f"batch {size}" for size in sizes])
    axes.set_ylabel("output tokens per second")
    axes.legend(frameon=False)


def _closed(axes: Axes, result: Result) -> None:
    """Draw throughput over the number of clients, one line per server."""
    for server in dict.fromkeys(str(row["server"]) for row in result.rows):
        rows = [row for row in result.rows if row["server"] == server and row.get("clients")]
        clients = [_figure(row, "clients") for row in rows]
        axes.plot(clients, [_figure(row, "tokens_per_second") for row in rows], marker="o", label=server)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlabel("clients")
    axes.set_ylabel("output tokens per second")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)


def _figure(row: Row, column: str) -> float:
    """Return a row's number, 0 if it was not measured."""
    value = row.get(column)
    return float(value) if isinstance(value, int | float) else 0.0


CHARTS: dict[str, Callable[[Axes, Result], None]] = {"peers-engine": _peers, "server-closed": _closed}
