"""Keeps the state of decoding sequences on the GPU, one row for each, so that a step needs only the host's changes.

A sequence keeps its row while it decodes, and the device advances the row by itself, step after step. The used rows are
always the first ones, so that a step over the first n rows covers all of them. The host has a copy of each row's state;
any change to a sequence (an eager step, preemption, a copied block) shows as a difference and is sent. There is one
transfer per batch, from a fresh buffer that is never written again.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
import torch
from torch import Tensor

from inference_worker.engine.sampling.graph_sampling import RowParameters
from inference_worker.engine.sequence import Sequence

TOKEN, POSITION, END, PROMPT, SEED, CHOICE, TOP_K = range(7)
"""Integers of a row: its last token and that token's position, -1 for an idle row; END: the position from which on
nothing is computed; the length of the prompt; and sampling parameters."""
TEMPERATURE, MIN_P, TOP_P = range(3)
IDLE = -1


@dataclass
class _HostRow:
    """The host's copy of a row's state on the device: its sequence, next position and block table."""

    sequence: Sequence
    position: int
    table: array[int]


@dataclass
class _TableUpdates:
    """Updates of the flat block tables: indices, and the block numbers to write there."""

    indices: array[int] = field(default_factory=lambda: array("q"))
    blocks: array[int] = field(default_factory=lambda: array("q"))

    def add(self, begin: int, known: array[int], table: array[int]) -> None:
        """Record the block numbers of one sequence that must be written to the device's block tables.

        Only the entries in which `table`, the sequence's block table, differs from `known`, the device's copy of it,
        are recorded. The copy begins at index `begin` of the flat tables.
        """
        common = len(known)
        if table[:common] != known:  # rare: a block was copied, or given back and another taken
            common = next(i for i, (old, new) in enumerate(zip_longest(known, table)) if old != new)
        self.indices.extend(range(begin + common, begin + len(table)))
        self.blocks.extend(table[common:])


class DecodeRows:
    """The device's rows of up to `capacity` decoding sequences, each with a block table of `blocks` entries.

    Attributes:
        integers: [7, capacity] int64, indexed by TOKEN to TOP_K.
        floats: [3, capacity] float64, indexed by TEMPERATURE to TOP_P.
        tables: [capacity, blocks] int64; entries beyond a sequence's blocks are undefined.
    """

    def __init__(self, capacity: int, blocks: int, device: torch.device) -> None:
        self.device = device
        self.integers = torch.zeros((7, capacity), dtype=torch.int64, device=device)
        self.integers[POSITION] = IDLE
        self.floats = torch.zeros((3, capacity), dtype=torch.float64, device=device)
        self.tables = torch.zeros((capacity, blocks), dtype=torch.int64, device=device)
        self._host_rows: list[_HostRow | None] = [None] * capacity

    def sampling(self, count: int) -> RowParameters:
        """Return the sampling parameters of the first `count` rows as tensors on the device.

        `positions` is a copy, all others are views of the rows.
        """
        of, number = self.integers[:, :count], self.floats[:, :count]
        return RowParameters(
            seeds=of[SEED],
            choices=of[CHOICE],
            positions=of[POSITION] + 1 - of[PROMPT],
            temperature=number[TEMPERATURE],
            min_p=number[MIN_P],
            top_k=of[TOP_K],
            top_p=number[TOP_P],
        )

    def advance(self, count: int, tokens: Tensor) -> None:
        """Move the first `count` rows on the device to their next position; `tokens` ([count]) are their last tokens.

        A row whose sequence has reached its maximum length becomes idle.
        """
        position = self.integers[POSITION, :count]
        following = position + 1
        goes_on = (position != IDLE) & (following < self.integers[END, :count])
        position.copy_(torch.where(goes_on, following, IDLE))
        self.integers[TOKEN, :count].copy_(tokens)

    # --- The host's side ----------------------------------------------------------------------------

    def update(self, sequences: Items[Sequence]) -> list[int]:
        """Give each of `sequences` one of the first rows, make all other rows idle, and send the changes to the device.

        Returns:
            The row number of each sequence, in their order.
        """
        rows = self._assign(sequences)
        idle = [row for row, host_row in enumerate(self._host_rows[len(rows) :], len(rows)) if host_row is not None]
        changed: list[tuple[int, Sequence]] = []
        updates = _TableUpdates()
        for row, sequence in zip(rows, sequences, strict=True):
            host_row = self._host_rows[row]
            if host_row is None or host_row.sequence is not sequence:
                host_row = self._host_rows[row] = _HostRow(sequence, IDLE, array("q"))
            if host_row.position != sequence.computed:
                host_row.position = sequence.computed
                changed.append((row, sequence))
            if host_row.table != sequence.block_table:
                updates.add(row * self.tables.shape[1], host_row.table, sequence.block_table)
                host_row.table = sequence.block_table[:]
        for row in idle:
            self._host_rows[row] = None
        self._send(changed, idle, updates)
        return rows

    def advance_host(self, rows: Items[int], steps: int) -> None:
        """Add `steps` to the host's copy of the positions of `rows`, which the device has advanced itself."""
        for row in rows:
            host_row = self._host_rows[row]
            if host_row is not None:
                host_row.position += steps

    def _assign(self, sequences: Items[Sequence]) -> list[int]:
        """Assign each sequence one of the first rows; a sequence keeps the one it has."""
        wanted, first = set(sequences), self._host_rows[: len(sequences)]
        kept = {
            host_row.sequence: row
            for row, host_row in enumerate(first)
            if host_row is not None and host_row.sequence in wanted
        }
        taken = set(kept.values())
        free = iter([row for row in range(len(sequences)) if row not in taken])
        return [kept[sequence] if sequence in kept else next(free) for sequence in sequences]

    def _send(self, changed: list[tuple[int, Sequence]], idle: list[int], updates: _TableUpdates) -> None:
        """Write changed rows, idle rows and block table updates to the device in one transfer."""
        if not changed and not idle and not updates.indices:
            return
        values = [_integers(sequence) for _, sequence in changed] + [(0, IDLE, 0, 0, 0, 0, 0)] * len(idle)
        floats = [_floats(sequence) for _, sequence in changed] + [(0.0, 0.0, 1.0)] * len(idle)
        rows = np.array([row for row, _ in changed] + idle, dtype=np.int64)
        columns = (
            rows,
            np.array(values, dtype=np.int64).reshape(-1, 7).T.reshape(-1),
            np.array(floats, dtype=np.float64).reshape(-1, 3).T.reshape(-1).view(np.int64),
            np.frombuffer(updates.indices, dtype=np.int64),
            np.frombuffer(updates.blocks, dtype=np.int64),
        )
        packed = torch.from_numpy(np.concatenate(columns))
        if self.device.type == "cuda":
            packed = packed.pin_memory()  # the allocator keeps its memory until the copy is done
        sent = torch.split(packed.to(self.device, non_blocking=True), [len(column) for column in columns])
        self.integers.index_copy_(1, sent[0], sent[1].view(7, -1))
        self.floats.index_copy_(1, sent[0], sent[2].view(torch.float64).view(3, -1))
        self.tables.view(-1).index_copy_(0, sent[3], sent[4])


def _integers(sequence: Sequence) -> tuple[int, ...]:
    """Return a sequence's integers in the order of TOKEN to TOP_K."""
    wanted = sequence.sampling
    end = sequence.prompt_length + sequence.max_tokens - 1  # the last token is sampled, never computed
    seed = (wanted.seed + 2**63) % 2**64 - 2**63  # the same 64 bits, signed
    token = sequence.token_ids[-1]
    return token, sequence.computed, end, sequence.prompt_length, seed, sequence.choice, wanted.top_k


def _floats(sequence: Sequence) -> tuple[float, ...]:
    wanted = sequence.sampling
    return wanted.temperature, wanted.min_p, wanted.top_p
