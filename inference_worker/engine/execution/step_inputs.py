"""Builds the input tensors of an engine step from its planned batch: in numpy, sent to the device in one transfer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference_worker.engine.attention_backend import AttentionMetadata
from inference_worker.engine.batch import ScheduledSequence

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StepInputs:
    """The inputs of one forward pass over T tokens.

    Attributes:
        token_ids, positions: [T] int64.
        sampled_rows: [R] rows of T whose next token is sampled: each entry's last `ScheduledSequence.sample_count`.
    """

    token_ids: Tensor
    positions: Tensor
    sampled_rows: Tensor
    attention: AttentionMetadata


def build_inputs(entries: list[ScheduledSequence], block_size: int, device: torch.device) -> StepInputs:
    """Pack the entries of a step, sequence after sequence, into the tensors of one forward pass on `device`.

    The tensors are token ids, positions, the rows to sample, and the attention's metadata. There must be an entry.
    """
    starts = np.array([entry.start for entry in entries])
    counts = np.array([entry.count for entry in entries])
    query_start = np.concatenate(([0], np.cumsum(counts)))
    owners = np.repeat(np.arange(len(entries)), counts)
    positions = np.arange(query_start[-1]) + (starts - query_start[:-1])[owners]
    tables = _block_tables(entries)
    slots = tables[owners, positions // block_size] * block_size + positions % block_size
    sample_counts = np.array([entry.sample_count for entry in entries])
    columns = (
        _token_ids(entries),
        positions,
        slots,
        query_start,
        starts + counts,
        _last_rows(query_start[1:], sample_counts),
        query_start[1:] - np.array([entry.states_needed for entry in entries]),
        np.array([entry.sequence.prompt_length for entry in entries]),
        tables.reshape(-1),
    )
    token_ids, token_positions, slot_mapping, offsets, lengths, sampled_rows, read_from, prompt_lengths, flat_tables = (
        _send(columns, device)
    )
    metadata = AttentionMetadata(
        query_start=offsets,
        sequence_lengths=lengths,
        block_tables=flat_tables.view(tables.shape),
        slot_mapping=slot_mapping,
        max_query_length=int(counts.max()),
        max_sequence_length=int((starts + counts).max()),
        read_from=read_from,
        prompt_lengths=prompt_lengths,
    )
    return StepInputs(token_ids, token_positions, sampled_rows, metadata)


def _token_ids(entries: list[ScheduledSequence]) -> Integers:
    return np.frombuffer(b"".join([entry.token_ids for entry in entries]), dtype=np.int64)


def _last_rows(ends: Integers, counts: Integers) -> Integers:
    """Return the `counts[i]` rows before row `ends[i]` for every i, [sum of counts]."""
    before = np.arange(counts.sum()) - np.repeat(np.cumsum(counts), counts)
    rows: Integers = np.repeat(ends, counts) + before
    return rows


def _block_tables(entries: list[ScheduledSequence]) -> Integers:
    """Return the block tables as [S, B], padded with block 0."""
    tables = [entry.sequence.block_table for entry in entries]
    lengths = np.array([len(table) for table in tables])
    padded = np.zeros((len(tables), lengths.max()), dtype=np.int64)
    filled = np.arange(padded.shape[1]) < lengths[:, None]
    padded[filled] = np.frombuffer(b"".join(tables), dtype=np.int64)
    return padded


def _send(columns: tuple[Integers, ...], device: torch.device) -> tuple[Tensor, ...]:
    """Copy all columns to the device in one tensor, and return views of it."""
    packed = torch.from_numpy(np.concatenate(columns)).to(device)
    return torch.split(packed, [len(column) for column in columns])
