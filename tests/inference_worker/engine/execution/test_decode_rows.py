"""Tests of the persistent decode batch: rows keep their place, and only changes are sent."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
import torch

from inference_worker.engine.execution.decode_rows import IDLE, POSITION, TOKEN, DecodeRows
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams

BLOCK_SIZE = 4


def sequence(first: int, known: int, most: int = 20) -> Sequence:
    blocks = array("q", range(first * 10, first * 10 + -(-known // BLOCK_SIZE)))
    sampling = SamplingParams(seed=2**63 + first, temperature=0.1 * first)
    ids = array("q", [first] * known)
    return Sequence("r", first, ids, 2, sampling, most, computed=known - 1, block_table=blocks)


class RecordingRows(DecodeRows):
    """Counts changed rows, idle rows and block table updates that are sent."""

    def __init__(self) -> None:
        super().__init__(4, 8, torch.device("cpu"))
        self.sent = (0, 0, 0)

    def _send(self, changed: list[tuple[int, Sequence]], idle: list[int], updates: Any) -> None:
        self.sent = len(changed), len(idle), len(updates.indices)
        super()._send(changed, idle, updates)


def holds(rows: DecodeRows, row: int, one: Sequence) -> bool:
    table = rows.tables[row, : len(one.block_table)].tolist()
    numbers = [int(rows.integers[field, row]) for field in (TOKEN, POSITION)]
    return table == list(one.block_table) and numbers == [one.token_ids[-1], one.computed]


def go_on(rows: DecodeRows, placed: list[int], sequences: list[Sequence], token: int) -> None:
    """Advance the rows by a step on the device and the host."""
    rows.advance(len(sequences), torch.full((len(sequences),), token))
    rows.advance_host(placed, 1)
    for one in sequences:
        one.token_ids.append(token)
        one.computed += 1
        if one.computed % BLOCK_SIZE == 0:
            one.block_table.append(90 + one.choice)


def test_only_changes_are_sent() -> None:
    rows, (a, b, c, d) = RecordingRows(), (sequence(n, known=4 + n) for n in (1, 2, 3, 4))
    assert rows.update([a, b, c]) == [0, 1, 2]
    assert rows.sent == (3, 0, 2 + 2 + 2)
    assert all(holds(rows, row, one) for row, one in enumerate((a, b, c)))

    go_on(rows, [0, 1, 2], [a, b, c], 50)
    assert rows.update([c, b, a]) == [2, 1, 0]  # the order does not matter
    assert rows.sent == (0, 0, 0)
    go_on(rows, [2, 1, 0], [c, b, a], 51)  # c starts a block
    assert rows.update([a, b, c]) == [0, 1, 2]
    assert rows.sent == (0, 0, 1)
    assert all(holds(rows, row, one) for row, one in enumerate((a, b, c)))

    assert rows.update([b, c]) == [1, 0]  # a has gone: the last row fills the gap
    assert rows.sent == (1, 1, 3)
    assert rows.integers[POSITION].tolist() == [c.computed, b.computed, IDLE, IDLE]

    b.token_ids.append(52)  # computed elsewhere
    b.computed += 1
    c.block_table[1] = 77  # copied on write
    assert rows.update([b, c, d]) == [1, 0, 2]
    assert rows.sent == (2, 0, 2 + 2)
    assert all(holds(rows, row, one) for row, one in ((1, b), (0, c), (2, d)))

    assert rows.update([]) == []
    assert (rows.integers[POSITION] == IDLE).all()


def test_a_row_becomes_idle_at_its_end() -> None:
    rows, one = DecodeRows(4, 8, torch.device("cpu")), sequence(1, known=3, most=3)
    rows.update([one])  # tokens 3 and 4 are to be sampled; position 4 is never computed
    positions = []
    for _ in range(3):
        positions.append(int(rows.integers[POSITION, 0]))
        rows.advance(2, torch.tensor([8, 8]))
    assert positions == [2, 3, IDLE]
    assert int(rows.integers[POSITION, 1]) == IDLE


def test_sampling_parameters() -> None:
    rows, one = DecodeRows(4, 8, torch.device("cpu")), sequence(3, known=5)
    rows.update([one])
    of = rows.sampling(1)
    assert (of.seeds.item(), of.choices.item(), of.positions.item()) == (-(2**63) + 3, 3, one.generated)
    assert of.temperature.item() == pytest.approx(0.3)
    assert (of.top_k.item(), of.top_p.item(), of.min_p.item()) == (0, 1.0, 0.0)
