"""Tests of the comparison of servers by kind of processor."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from benchmarks.processor_kinds import kind_of, ratios
from benchmarks.results import Result, Row, make_result


@dataclass(frozen=True)
class Figures:
    rate: float
    ttft: float


def closed(isa: list[str], servers: dict[str, Figures]) -> Result:
    rows: list[Row] = [
        {"server": name, "clients": 4.0, "tokens_per_second": figures.rate, "ttft_p50_ms": figures.ttft}
        for name, figures in servers.items()
    ]
    result = make_result("server-closed", {}, rows)
    return msgspec.structs.replace(result, machine=msgspec.structs.replace(result.machine, isa=isa))


@pytest.mark.parametrize(
    ("isa", "kind"),
    [
        (["avx2", "fma"], "AVX2"),
        (["avx2", "avx512f"], "AVX-512"),
        (["amx_tile", "avx2", "avx512f"], "AMX"),
        (["asimd"], None),
    ],
)
def test_the_kind_is_that_of_the_widest_instructions(isa: list[str], kind: str | None) -> None:
    assert kind_of(closed(isa, {})) == kind


def test_ours_is_compared_with_the_best_peer_in_each_measure() -> None:
    servers = {
        "headrace": Figures(300, 50),
        "fast peer": Figures(100, 400),
        "early peer": Figures(60, 200),
        "engine alone": Figures(999, 1),
    }
    rows = ratios([closed(["avx2"], servers)])
    default = {row["measure"]: row for row in rows if row["server"] == "headrace"}
    assert {measure: row["AVX2"] for measure, row in default.items()} == {"tokens/s": 3.0, "TTFT": 0.25}
    assert {row["clients"] for row in rows} == {4.0}


def test_kinds_without_a_result_are_not_run_and_servers_without_one_have_no_figure() -> None:
    rows = ratios([closed(["avx2"], {"headrace": Figures(3, 1), "peer": Figures(1, 1)})])
    assert {row["AMX"] for row in rows} == {row["AVX-512"] for row in rows} == {"not run"}
    assert {row["AVX2"] for row in rows if row["server"] == "headrace-8-bit"} == {None}


def test_without_peers_there_is_no_figure() -> None:
    rows = ratios([closed(["avx2"], {"headrace": Figures(3, 1), "engine alone": Figures(4, 1)})])
    assert {row["AVX2"] for row in rows} == {None}


def test_two_results_of_one_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="a second result of AVX2"):
        ratios([closed(["avx2"], {}), closed(["avx2", "fma"], {})])
