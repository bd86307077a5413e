"""Draws the charts of benchmark results as SVG files; the same results give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.report import MARGIN
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
    bars = {engine: [_figure(row, "tokens_per_second") for row in rows if row["peer"] == engine] for engine in engines}
    _draw_groups(axes, [f"batch {size}" for size in sizes], bars)
    axes.set_ylabel("output tokens per second")


def _retrieval(axes: Axes, result: Result) -> None:
    """Draw a group of bars per chunking strategy, and per kind of question with the first one; a bar per ranking."""
    rankings = list(dict.fromkeys(str(row["ranking"]) for row in result.rows))
    groups = list(dict.fromkeys(_group(row) for row in result.rows))
    bars = {
        ranking: [_figure(row, "ndcg_at_10") for row in result.rows if row["ranking"] == ranking]
        for ranking in rankings
    }
    _draw_groups(axes, groups, bars)
    axes.set_ylim(0, 1)
    axes.set_ylabel("nDCG@10")


def _group(row: Row) -> str:
    return f"all,\n{row['chunking']}" if row["of"] == "all" else str(row["of"]).replace(" ", "\n")


def _draw_groups(axes: Axes, groups: Sequence[str], bars: Mapping[str, Sequence[float]]) -> None:
    """Draw groups of bars side by side, in each one bar for each name in `bars`, which has heights by group."""
    width = 0.8 / max(1, len(bars))
    for number, (name, heights) in enumerate(bars.items()):
        places = [index + (number - (len(bars) - 1) / 2) * width for index in range(len(heights))]
        axes.bar(places, heights, width, label=name)
    axes.set_xticks(range(len(groups)), groups)
    axes.legend(frameon=False)


def _closed(axes: Axes, result: Result) -> None:
    """Draw throughput over the number of clients, one line per server."""
    _draw_clients(axes, result, "server")


def _batch(axes: Axes, result: Result) -> None:
    """Draw throughput over the number of clients, one line per setting, with confidence intervals."""
    _draw_clients(axes, result, "setting")


def _open(axes: Axes, result: Result) -> None:
    """Draw the share of requests within the objectives over the offered rate, one line per setting; mark the knees."""
    _draw_lines(axes, result, "setting", "offered_per_second", "within_objectives")
    for row in result.rows:
        if row["knee"]:
            place = _figure(row, "offered_per_second"), _figure(row, "within_objectives")
            axes.annotate("knee", place, (4, -14), textcoords="offset points")
    axes.set_xlabel("offered requests per second")
    axes.set_ylabel("share within the objectives")
    axes.set_ylim(0, 1.05)


def _draw_lines(axes: Axes, result: Result, name: str, across: str, up: str) -> None:
    """Draw the column `up` over `across`, with its margin if there is one, one line for each text in column `name`."""
    for label in dict.fromkeys(str(row[name]) for row in result.rows):
        rows = [row for row in result.rows if row[name] == label and row.get(across)]
        places, heights = ([_figure(row, column) for row in rows] for column in (across, up))
        margins = [_figure(row, up + MARGIN) for row in rows]
        axes.errorbar(places, heights, margins if any(margins) else None, marker="o", capsize=3, label=label)
    axes.legend(frameon=False)


def _draw_clients(axes: Axes, result: Result, name: str) -> None:
    _draw_lines(axes, result, name, "clients", "tokens_per_second")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlabel("clients")
    axes.set_ylabel("output tokens per second")
    axes.set_ylim(bottom=0)


def _figure(row: Row, column: str) -> float:
    """Return a row's number, 0 if it was not measured."""
    value = row.get(column)
    return float(value) if isinstance(value, int | float) else 0.0


CHARTS: dict[str, Callable[[Axes, Result], None]] = {
    "peers-engine": _peers,
    "server-closed": _closed,
    "retrieval": _retrieval,
    "paper-batch": _batch,
    "paper-batch-plain": _batch,
    "paper-open": _open,
    "paper-open-plain": _open,
}
