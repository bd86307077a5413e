"""Compares servers by kind of processor for `docs/performance.md`: ours over the best peer, from result files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from benchmarks.results import Result, Row, Value

TITLE = "Servers by kind of processor"
TEXT = (
    "Ours over the best peer of the same load, from the closed loops below: tokens/s (more is better) and the median"
    " TTFT (less is better). The default is `headrace`; `headrace-8-bit` has 8-bit activations."
)
OURS = ("headrace", "headrace-8-bit")
KINDS = {"AVX2": "avx2", "AVX-512": "avx512f", "AMX": "amx_tile"}
"""Kinds of x86-64 processors and the flag that each has in addition to those of the kinds before it."""
NOT_RUN = "not run"
_NOT_PEERS = (*OURS, "engine alone")
_MEASURES: dict[str, tuple[str, Callable[[Iterable[float]], float]]] = {
    "tokens/s": ("tokens_per_second", max),
    "TTFT": ("ttft_p50_ms", min),
}
"""Columns of result rows, and which of the peers' figures is the best."""


def kind_of(result: Result) -> str | None:
    """Return the kind of processor, of `KINDS`, that a result was measured on; `None` if it has none of their flags."""
    return next((kind for kind, flag in reversed(KINDS.items()) if flag in result.machine.isa), None)


def ratios(results: Iterable[Result]) -> list[Row]:
    """Return a row for each of our settings, measure and number of clients, with a column for each kind of processor.

    `results`: the results of servers in a closed loop. A kind without a result is `NOT_RUN`.

    Raises:
        ValueError: two results are of one kind.
    """
    by_kind: dict[str, Sequence[Row]] = {}
    for result in results:
        kind = kind_of(result)
        if kind in by_kind:
            raise ValueError(f"{result.name} is a second result of {kind}")
        if kind is not None:
            by_kind[kind] = result.rows
    loads = sorted({cast(float, row["clients"]) for rows in by_kind.values() for row in rows})
    return [
        {
            "server": server,
            "measure": measure,
            "clients": clients,
            **{kind: _ratio(by_kind[kind], server, clients, measure) if kind in by_kind else NOT_RUN for kind in KINDS},
        }
        for server in OURS
        for measure in _MEASURES
        for clients in loads
    ]


def _ratio(rows: Sequence[Row], server: str, clients: float, measure: str) -> Value:
    """Return our figure over the best peer's; `None` if one of them was not measured."""
    column, best = _MEASURES[measure]
    figures = {str(row["server"]): cast(float, row[column]) for row in rows if row["clients"] == clients}
    peers = [figure for name, figure in figures.items() if name not in _NOT_PEERS]
    return figures[server] / best(peers) if server in figures and peers else None
