"""`python -m benchmarks.test_time_compute.document`: writes results into `docs/test-time-compute.md`, with a chart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import charts
from benchmarks.document import machine, markdown
from benchmarks.report import format_value
from benchmarks.results import ROOT, Result, Row, read
from benchmarks.test_time_compute.methods import GREEDY, SAMPLE

RESULTS = ROOT / "docs"
"""Folder of the published results, which the document beside them shows."""
DOCUMENT = RESULTS / "test-time-compute.md"
CHART = RESULTS / "images" / "test-time-compute.svg"
ACCURACY, VOTES, REPLAY = "test-time-compute", "test-time-compute-votes", "test-time-compute-replay"
BEGIN, FINISH = "<!-- accuracy: begin -->", "<!-- accuracy: end -->"
ACCURACY_COLUMNS = (
    "tasks",
    "method",
    "N",
    "answers",
    "right, % (95 %)",
    "against one sample, points (95 %)",
    "effect",
    "tokens generated",
    "tokens read",
    "s",
)
VOTE_COLUMNS = (
    "tasks",
    "N",
    "answers",
    "tokens of all N",
    "tokens with stop",
    "saved",
    "right of all N, %",
    "right with stop, %",
    "difference, points (95 %)",
    "same samples: answers saved",
    "same samples: right, %",
)
REPLAY_COLUMNS = (
    "tasks",
    "N",
    "confidence",
    "questions",
    "right of all N, %",
    "difference, points (95 %)",
    "same result, %",
    "tokens saved",
    "waves",
)
ABSCISSAE = {
    "n": "N: answers, or paths in a step",
    "generated": "tokens generated for an answer",
    "seconds": "seconds of an answer",
}


def publish(results: Path = RESULTS) -> None:
    """Write the tables of the results in a folder into the document, and draw their chart."""
    accuracy, votes, replay = (read(results / f"{name}.json") for name in (ACCURACY, VOTES, REPLAY))
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    after = rest.partition(FINISH)[2]
    DOCUMENT.write_text(f"{before}{BEGIN}\n{render(accuracy, votes, replay)}\n{FINISH}{after}")
    draw(accuracy, CHART)


def render(accuracy: Result, votes: Result, replay: Result) -> str:
    """Return the Markdown of the results."""
    lines = [
        f"![Accuracy against N, tokens and time](images/{CHART.name})",
        "",
        markdown(ACCURACY_COLUMNS, [_accuracy_line(row) for row in accuracy.rows]),
        "",
        *_provenance(accuracy),
        "",
        markdown(VOTE_COLUMNS, [_vote_line(row) for row in votes.rows]),
        "",
        *_provenance(votes),
        "",
        markdown(REPLAY_COLUMNS, [_replay_line(row) for row in replay.rows]),
        "",
        *_provenance(replay),
    ]
    return "\n".join(lines)


def _provenance(result: Result) -> list[str]:
    """Return the Markdown lines that state a result's file, date, machine, settings and command."""
    settings = ", ".join(f"{name.replace('_', ' ')} {format_value(value)}" for name, value in result.settings.items())
    return [
        f"`docs/{result.name}.json`, {result.date[:10]}, {machine(result.machine)}.",
        f"Settings: {settings}. Commit {result.versions['commit']}.",
        "",
        "```sh",
        result.command,
        "```",
    ]


def _accuracy_line(row: Row) -> list[Any]:
    gain = "-"
    if row["gain"] is not None:
        gain = f"{_points(row['gain'])} ({_points(row['gain_low'])} to {_points(row['gain_high'])})"
    return [
        row["tasks"],
        row["method"],
        row["n"],
        row["answers"],
        f"{_percent(row['accuracy'])} ({_percent(row['low'])} to {_percent(row['high'])})",
        gain,
        row["verdict"],
        f"{row['generated']:.0f}",
        f"{row['read_by_verifier']:.0f}",
        f"{row['seconds']:.1f}",
    ]


def _vote_line(row: Row) -> list[Any]:
    return [
        row["tasks"],
        row["n"],
        row["answers"],
        f"{row['tokens_of_all']:.0f}",
        f"{row['tokens_with_stop']:.0f}",
        f"{_percent(row['tokens_saved'])} %",
        _percent(row["accuracy_of_all"]),
        _percent(row["accuracy_with_stop"]),
        f"{_points(row['difference_low'])} to {_points(row['difference_high'])}",
        f"{_percent(row['replay_answers_saved'])} %",
        _percent(row["replay_accuracy"]),
    ]


def _replay_line(row: Row) -> list[Any]:
    return [
        row["tasks"],
        row["n"],
        f"{row['confidence']:g}",
        row["questions"],
        _percent(row["accuracy_of_all"]),
        f"{_tenths(row['difference'])} ({_tenths(row['difference_low'])} to {_tenths(row['difference_high'])})",
        _percent(row["agreement"]),
        f"{_percent(row['tokens_saved'])} %",
        f"{row['waves']:.1f}",
    ]


def _percent(value: Any) -> str:
    return f"{100 * value:.0f}"


def _points(value: Any) -> str:
    return f"{100 * value:+.0f}"


def _tenths(value: Any) -> str:
    return f"{100 * value:+.1f}"


def draw(accuracy: Result, path: Path) -> None:
    """Draw the accuracy of each method against N, tokens and time: a line of charts for each family, as SVG."""
    families = list(dict.fromkeys(str(row["tasks"]) for row in accuracy.rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(charts.STYLE):
        figure = Figure(figsize=(12, 3.4 * len(families)), layout="constrained")
        grid = figure.subplots(len(families), len(ABSCISSAE), squeeze=False, sharey="row")
        for line, family in zip(grid, families, strict=True):
            rows = [row for row in accuracy.rows if row["tasks"] == family]
            for axes, column in zip(line, ABSCISSAE, strict=True):
                _draw_lines(axes, rows, column)
            line[0].set_ylabel(f"{family}: right, %")
        grid[0][0].legend(frameon=False, fontsize="small")
        figure.savefig(path, format="svg", metadata={"Date": None})


def _draw_lines(axes: Axes, rows: Sequence[Row], column: str) -> None:
    """Draw a line for each method, from one sample on, with error bars; greedy decoding is a point."""
    one = [row for row in rows if row["method"] == SAMPLE]
    for method in dict.fromkeys(str(row["method"]) for row in rows if row["method"] != SAMPLE):
        own = [row for row in rows if row["method"] == method]
        line: list[Any] = own if method == GREEDY else [*one, *own]
        heights = [100 * row["accuracy"] for row in line]
        below = [100 * (row["accuracy"] - row["low"]) for row in line]
        above = [100 * (row["high"] - row["accuracy"]) for row in line]
        axes.errorbar([row[column] for row in line], heights, [below, above], marker="o", capsize=2, label=method)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(ABSCISSAE[column])
    axes.set_ylim(bottom=0)


if __name__ == "__main__":
    publish()
