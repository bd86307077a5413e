"""`python -m benchmarks.document`: writes `docs/performance.md` and its charts from the result files alone.

A figure that is not in a file is not in the document; one that is unfavourable is there like any other. A test
compares the document with what this module makes of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import charts
from benchmarks.report import shown
from benchmarks.results import RESULTS, ROOT, Machine, Result, Row, Value, read

DOCUMENT = ROOT / "docs" / "performance.md"
GIBIBYTE = 2**30

INTRODUCTION = """\
# Performance

Written by `python -m benchmarks.document` from the files in `benchmarks/results/`: do not edit it, measure again. Each
table names its file, which has machine, versions, settings and command. Absolute figures differ from machine to
machine and from hour to hour; compare those that were taken in turns in one session.

`make bench` measures ours in about ten minutes; `make bench-peers` installs the peers into environments of their own
and measures them and ours in turns.

- **TTFT**: request sent to first non-empty content.
- **TPOT**: (end to end - TTFT) / (output tokens - 1).
- **ITL**: gap between chunks, which may carry several tokens.
- **Throughput**: output tokens of a fixed number of requests over the time to finish all of them.
- **Goodput**: requests per second that met every objective.

Prompts are random token ids, seeded and never repeated. Answers are greedy and go on past the end of sequence, so that
everybody generates the same number of tokens; a small model repeats itself in such answers.
"""

SECTIONS = {
    "peers-engine": (
        "Engines side by side",
        "Prompt tokens per second of a prefill, otherwise output tokens per second over the whole run, prefill"
        " included. All sequences start together; each round starts each engine once, in turns, and what takes less"
        " than two seconds (llama.cpp: a prefill) is run several times in it; medians.",
    ),
    "engine-batch": ("Our engine by batch", "128 tokens in, 128 out, all sequences at once, called directly."),
    "engine-lengths": (
        "Our engine by length of the answer",
        "16 sequences at once; output lengths uniform in a range.",
    ),
    "engine-prefill": ("Prefill", "One prompt, until its first token is there."),
    "engine-first-token-under-load": (
        "First token under load",
        "Long streams run; a new prompt arrives at a random moment. Engine called directly.",
    ),
    "engine-prefix-cache": (
        "Prefix cache",
        "Tenants with a system prompt of 1,024 tokens each, conversations of four turns, 16 at a time.",
    ),
    "engine-memory": (
        "Memory",
        "KV waste: share of allocated cache slots that held no token, over all steps of the load. Peak RSS in bytes,"
        " of the process so far.",
    ),
    "server-closed": (
        "Servers, closed loop",
        "Each client sends its next request when its last has ended. Ours is the whole platform: gateway, RabbitMQ,"
        " billing, worker. Broker, client and engine share the machine's cores. `engine alone` is ours without it.",
    ),
    "server-open": ("Servers, open loop", "Poisson arrivals at shares of the closed loop's best requests per second."),
    "server-first-token-under-load": (
        "First token under load, through a server",
        "Long streams run; a new prompt arrives now and then.",
    ),
    "platform-tax": ("The platform's own cost", "A worker that only counts, LiteLLM's proxy before a stub beside it."),
    "platform-fan-out": ("Fan-out", "Streams of one gateway process at once."),
    "overload": (
        "Ten times too much",
        "Streams are asked for at ten times the rate that the worker can serve (Poisson arrivals, counted from when a"
        " request was due); an engine that only counts, everything else as in production, all on the same cores."
        " Capacity is what a closed loop gets through just before. Goodput: requests answered whole, from their first"
        " to their last token. Memory is the gateway process's.",
    ),
    "cost-of-the-check": (
        "The cost of the check",
        "Authentication, rate limits and a hold on the embedded store, beside the same request where a static key is"
        " compared and all else is in memory. Gateways, worker, broker and settlement share one process; the store is"
        " another, on the same cores. Without a pause, requests also wait for the settlement of those before them.",
    ),
    "quality": ("Quality", "What quantisation costs."),
    "structured-output": (
        "Structured output",
        "What a grammar costs a batch that decodes: engines with and without one step in turns.",
    ),
    "chat-page": (
        "The chat page",
        "Gaps between frames in Chromium without a GPU, on the same cores as the server that streams: an answer of"
        " Markdown with lists, tables, formulas and code, which the chat draws thirty times a second, after a question"
        " typed at ten keys a second; and a list that is scrolled 120 pixels a frame. Between them,"
        " in turns, bare pages that do the least of the same (`benchmarks/bare_pages/`): what the browser can do on"
        " such a machine. Medians of the runs, each in a page with an empty cache, and the longest frame of all of"
        " them; blocked: what the browser's long animation frames kept a key stroke waiting, in sum; main thread: its"
        " processor time, a frame; others: what processes that have nothing to do with it took of the machine (beside"
        " more than a tenth a run is repeated, three times at most).",
    ),
    "gpu": ("GPU", "Shapes of published models with random weights."),
}


def render(results: Iterable[Result]) -> str:
    """The whole document: known sections in their order, then any other result under its own name."""
    by_name = {result.name: result for result in results}
    names = [name for name in SECTIONS if name in by_name] + sorted(by_name.keys() - SECTIONS.keys())
    return "\n".join([INTRODUCTION, *(section(by_name[name]) for name in names)])


def section(result: Result) -> str:
    """Heading, what it is, chart if there is one, table, and where it comes from."""
    title, text = SECTIONS.get(result.name, (result.name.replace("-", " ").capitalize(), ""))
    lines = [f"## {title}", "", *([text, ""] if text else [])]
    if result.name in charts.CHARTS:
        lines += [f"![{title}](images/{charts.file_name(result.name)})", ""]
    lines += [pivot(result.rows) if result.name == "peers-engine" else table(result.rows), ""]
    return "\n".join([*lines, *provenance(result), ""])


def provenance(result: Result) -> list[str]:
    """The file, the machine, what ran and how."""
    settings = ", ".join(f"{name.replace('_', ' ')} {shown(value)}" for name, value in result.settings.items())
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return [
        f"`benchmarks/results/{result.name}.json`, {result.date[:10]}, {machine(result.machine)}.",
        f"Settings: {settings}. Versions: {versions}.",
        "",
        "```sh",
        result.command,
        "```",
    ]


def machine(of: Machine) -> str:
    """In one line."""
    gpus = f", {'; '.join(of.gpus)}" if of.gpus else ""
    return f"{of.cpu} with {of.cores} cores ({', '.join(of.isa)}), {of.memory / GIBIBYTE:.0f} GiB{gpus}"


def table(rows: Sequence[Row]) -> str:
    """Rows as they are; a column that is empty everywhere is left out."""
    columns = list(dict.fromkeys(column for row in rows for column in row if row[column] is not None))
    return markdown([headed(column) for column in columns], [[row.get(column) for column in columns] for row in rows])


def pivot(rows: Sequence[Row]) -> str:
    """One row an engine, one column a size, ours over the best peer last."""
    columns = list(dict.fromkeys(_size(row) for row in rows if row.get("sequences")))
    lines: list[list[Value]] = []
    for peer in dict.fromkeys(row["peer"] for row in rows):
        own = [row for row in rows if row["peer"] == peer]
        figures = {_size(row): row["tokens_per_second"] for row in own if row.get("sequences")}
        failure = next((row["failure"] for row in own if row.get("failure")), None)
        lines.append([peer, own[0].get("setting"), *(figures.get(column) for column in columns), failure])
    best = [next((row["of_best_peer"] for row in rows if _size(row) == column), None) for column in columns]
    lines.append(["**first row over the best peer**", None, *best, None])
    if all(line[-1] is None for line in lines):
        return markdown(["engine", "setting", *columns], [line[:-1] for line in lines])
    return markdown(["engine", "setting", *columns, "why not"], lines)


def _size(row: Row) -> str:
    return f"prefill {row['inputs']}" if row.get("work") == "prefill" else f"batch {row.get('sequences')}"


def headed(column: str) -> str:
    """A column's name for people."""
    return column.replace("_per_second", "/s").replace("_ms", " ms").replace("_", " ")


def markdown(header: Sequence[str], lines: Iterable[Sequence[Value]]) -> str:
    """A table."""
    rows = [" | ".join(header), "|".join(["---"] * len(header)), *(" | ".join(map(shown, line)) for line in lines)]
    return "\n".join(f"| {row} |" for row in rows)


def stored(folder: Path = RESULTS) -> list[Result]:
    """All results of a folder."""
    return [read(path) for path in sorted(folder.glob("*.json"))]


def main() -> None:
    """Write the document and the charts."""
    results = stored()
    DOCUMENT.write_text(render(results))
    charts.draw(results, DOCUMENT.parent / "images")


if __name__ == "__main__":
    main()
