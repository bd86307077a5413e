"""Batches contain every input once, respect the token budget, have little padding, and serve requests in turns."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from inference_worker.engine.input_batches.batching import FREE_PADDING, MAX_PADDING, Batcher, PendingInput


def ids(length: int) -> list[int]:
    return [1] * length


def all_batches(batcher: Batcher) -> list[list[PendingInput]]:
    batches = []
    while batch := batcher.next_batch():
        batches.append(batch)
    return batches


@given(
    st.lists(st.lists(st.integers(1, 600), min_size=1, max_size=40), min_size=1, max_size=6),
    st.integers(16, 2048),
)
def test_every_input_is_batched_once_within_the_budget(requests: list[list[int]], budget: int) -> None:
    batcher = Batcher(budget)
    for number, lengths in enumerate(requests):
        batcher.add(str(number), [ids(length) for length in lengths])
    batches = all_batches(batcher)
    seen = [(each.request, each.index, len(each.ids)) for batch in batches for each in batch]
    wanted = [(str(n), index, length) for n, lengths in enumerate(requests) for index, length in enumerate(lengths)]
    assert sorted(seen) == sorted(wanted)
    for batch in batches:
        width = len(batch[0].ids)
        size = width * len(batch)
        assert max(len(each.ids) for each in batch) == width
        assert size <= budget or len(batch) == 1
        assert size - sum(len(each.ids) for each in batch) <= max(FREE_PADDING, MAX_PADDING * size)
    assert len(batcher) == 0


def test_little_padding_with_many_lengths() -> None:
    lengths = [int(random.Random(7).paretovariate(1.2) * 8) % 256 + 2 for _ in range(2048)]
    batcher = Batcher(2048)
    batcher.add("a", [ids(length) for length in lengths])
    computed = sum(len(batch[0].ids) * len(batch) for batch in all_batches(batcher))
    assert computed <= sum(lengths) / (1 - MAX_PADDING)


def test_a_small_request_does_not_wait_for_a_large_one() -> None:
    batcher = Batcher(512)
    batcher.add("large", [ids(100) for _ in range(500)])
    batcher.next_batch()
    batcher.add("small", [ids(3)])
    assert "small" in {each.request for _ in range(2) for each in batcher.next_batch()}


def test_inputs_of_several_requests_share_a_batch() -> None:
    batcher = Batcher(512)
    for request in "abc":
        batcher.add(request, [ids(10), ids(12)])
    assert {each.request for each in batcher.next_batch()} == set("abc")
    assert batcher.next_batch() == []


def test_a_dropped_request_is_not_batched() -> None:
    batcher = Batcher(32)
    batcher.add("a", [ids(16)] * 9)
    batcher.add("b", [ids(16)])
    batcher.next_batch()
    batcher.drop("a")
    batcher.drop("nobody")
    assert {each.request for batch in all_batches(batcher) for each in batch} <= {"b"}
    assert len(batcher) == 0
