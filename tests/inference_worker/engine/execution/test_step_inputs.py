"""Tests of the input tensors of a step."""

from __future__ import annotations

from array import array

import torch

from inference_worker.engine.batch import ScheduledSequence
from inference_worker.engine.execution.step_inputs import build_inputs
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams


def sequence(ids: list[int], table: list[int], prompt_logprobs: int | None = None, generated: int = 0) -> Sequence:
    prompt_length = len(ids) - generated
    one = Sequence("r", 0, array("q", ids), prompt_length, SamplingParams(seed=0, prompt_logprobs=prompt_logprobs), 1)
    one.block_table = array("q", table)
    return one


def test_sequences_are_packed_one_after_the_other() -> None:
    entries = [
        ScheduledSequence(sequence([10, 11, 12, 13, 14, 15], [7, 2]), 3, 2),  # a chunk: does not sample
        ScheduledSequence(sequence([20], [5]), 0, 1),
        ScheduledSequence(sequence(list(range(30, 39)), [1, 3, 4], generated=2), 2, 7),
    ]
    inputs = build_inputs(entries, 4, torch.device("cpu"))
    assert inputs.token_ids.tolist() == [13, 14, 20, 32, 33, 34, 35, 36, 37, 38]
    assert inputs.positions.tolist() == [3, 4, 0, 2, 3, 4, 5, 6, 7, 8]
    assert inputs.sampled_rows.tolist() == [2, 9]
    metadata = inputs.attention
    assert metadata.query_start.tolist() == [0, 2, 3, 10]
    assert metadata.sequence_lengths.tolist() == [5, 1, 9]
    assert metadata.block_tables.tolist() == [[7, 2, 0], [5, 0, 0], [1, 3, 4]]
    assert metadata.slot_mapping.tolist() == [31, 8, 20, 6, 7, 12, 13, 14, 15, 16]
    assert (metadata.max_query_length, metadata.max_sequence_length) == (7, 9)
    assert metadata.read_from is not None
    assert metadata.read_from.tolist() == [2, 2, 9]
    assert metadata.prompt_lengths is not None
    assert metadata.prompt_lengths.tolist() == [6, 1, 7]


def test_states_are_read_for_sampling_and_scoring_only() -> None:
    entries = [
        ScheduledSequence(sequence([10, 11, 12], [1]), 2, 3, drafts=(8, 9)),
        ScheduledSequence(sequence(list(range(8)), [2, 3], prompt_logprobs=0), 0, 5),  # every one tells the next
        ScheduledSequence(sequence(list(range(8)), [4, 5], prompt_logprobs=0), 5, 3),
    ]
    entries[2].sequence.scored = 6  # known from an earlier step
    metadata = build_inputs(entries, 4, torch.device("cpu")).attention
    assert metadata.read_from is not None
    assert metadata.query_start.tolist() == [0, 3, 8, 11]
    assert metadata.read_from.tolist() == [0, 3, 8]
