"""Blocks of a step's rows: each row of the spans once, beside rows of its kind, in as few blocks as the size allows."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from inference_worker.engine.native.build import INSTRUCTION_SETS, SOURCES, best_instructions, find_compiler
from inference_worker.errors import NativeUnavailable


class Span(NamedTuple):
    """Consecutive rows of a step, up to `last` without it."""

    first: int
    last: int
    prompt: bool


Blocks = list[list[Span]]


class Size(NamedTuple):
    """Rows of blocks: that fit the cache, that share a block even if they do not fit, and of a tile."""

    fitting: int
    least: int
    tile: int


UNUSED = Size(1, 1, 1)
Cut = Callable[[Size, Size, list[Span]], Blocks]


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Cut:
    """Cuts spans into blocks: of the first size for prompts, of the second for other rows."""
    try:
        compiler, flags = find_compiler(), INSTRUCTION_SETS[best_instructions()].flags
    except NativeUnavailable as reason:
        pytest.skip(str(reason))
    program, source = tmp_path_factory.mktemp("spans") / "row_blocks", Path(__file__).with_name("row_blocks.cpp")
    subprocess.run([compiler, "-std=c++20", *flags, f"-I{SOURCES}", "-o", str(program), str(source)], check=True)

    def run(prompts: Size, others: Size, spans: list[Span]) -> Blocks:
        sizes = (f"{fitting}:{least}:{tile}" for fitting, least, tile in (prompts, others))
        arguments = [*sizes, *(f"{first}:{last}:{prompt:d}" for first, last, prompt in spans)]
        lines = subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout.splitlines()
        return [spans_of(*map(int, line.split())) for line in lines]

    return run


def spans_of(prompt: int, *rows: int) -> list[Span]:
    return [Span(first, last, bool(prompt)) for first, last in zip(rows[::2], rows[1::2], strict=True)]


def test_a_span_is_cut_evenly_into_blocks_of_whole_tiles(cut: Cut) -> None:
    expected = [(0, 96), (96, 192), (192, 270)]
    assert cut(Size(100, 1, 32), UNUSED, [Span(0, 270, prompt=True)]) == [
        [Span(*rows, prompt=True)] for rows in expected
    ]


def test_single_rows_of_many_prompts_are_one_block(cut: Cut) -> None:
    """The rows that are read after the last layer: a panel is expanded once for all of them."""
    spans = [Span(127 + 128 * prompt, 128 + 128 * prompt, prompt=True) for prompt in range(64)]
    assert cut(Size(128, 1, 32), UNUSED, spans) == [spans]


@pytest.mark.parametrize(
    ("rows", "starts"),
    [
        (20, [0]),
        (129, [0]),
        (200, [0]),
        (255, [0]),
        (256, [0, 128]),
        (516, [0, 128, 256, 384]),
        (610, [0, 160, 320, 480]),
    ],
)
def test_at_least_the_minimum_of_rows_share_a_block_if_no_more_fit(cut: Cut, rows: int, starts: list[int]) -> None:
    expected = [[Span(*ends, prompt=True)] for ends in pairwise([*starts, rows])]
    assert cut(Size(60, 128, 32), UNUSED, [Span(0, rows, prompt=True)]) == expected


def test_rows_of_prompts_and_others_have_blocks_of_their_own_sizes(cut: Cut) -> None:
    spans = [Span(0, 40, prompt=False), Span(40, 80, prompt=True)]
    blocks = cut(Size(40, 1, 8), Size(20, 1, 4), spans)
    assert blocks == [spans[1:], [Span(0, 20, prompt=False)], [Span(20, 40, prompt=False)]]


def test_rows_of_generated_tokens_are_in_blocks_of_their_own(cut: Cut) -> None:
    spans = [Span(0, 3, prompt=False), Span(3, 40, prompt=True), Span(50, 52, prompt=False), Span(90, 130, prompt=True)]
    prompts = [[Span(3, 35, prompt=True)], [Span(35, 40, prompt=True), Span(90, 130, prompt=True)]]
    assert cut(Size(64, 1, 16), Size(64, 1, 16), spans) == [*prompts, spans[::2]]


@pytest.mark.parametrize("fitting", [1, 7, 40, 1000])
@pytest.mark.parametrize("tile", [1, 6, 32])
def test_each_row_is_in_one_block_of_its_kind(cut: Cut, fitting: int, tile: int) -> None:
    spans = [Span(5 * at * at, 5 * at * at + 8 * at + 1, prompt=at % 3 > 0) for at in range(1, 12)]
    size = Size(fitting, 1, tile)
    blocks = cut(size, size, spans)
    assert all(sum(last - first for first, last, _ in block) < fitting + tile for block in blocks)
    found = [(row, prompt) for block in blocks for first, last, prompt in block for row in range(first, last)]
    assert sorted(found) == [(row, prompt) for first, last, prompt in spans for row in range(first, last)]
