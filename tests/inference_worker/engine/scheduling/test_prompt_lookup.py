"""Tests of prompt lookup: predictions and their probabilities."""

from __future__ import annotations

from array import array
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_worker.engine.scheduling import prompt_lookup
from inference_worker.engine.scheduling.prompt_lookup import PromptLookup


def predictions(ids: list[int], count: int) -> list[int]:
    lookup, tokens = PromptLookup(), array("q", ids)
    lookup.read(tokens)
    return [token for token, _ in islice(lookup.predictions(tokens), count)]


def test_predicts_what_followed_the_same_two_tokens_last_time() -> None:
    assert predictions([1, 2, 4, 0, 1, 2, 5, 9, 1, 2], 3) == [5, 9, 1]


def test_a_match_survives_a_single_different_token() -> None:
    lookup, tokens = PromptLookup(), array("q", [1, 2, 3, 4, 5, 6, 7, 1, 2, 3])
    lookup.read(tokens)
    tokens.append(9)
    lookup.read(tokens)
    assert [token for token, _ in islice(lookup.predictions(tokens), 3)] == [5, 6, 7]


def test_predictions_past_the_end_continue_with_themselves() -> None:
    assert predictions([9, 1, 2, 3, 1, 2, 3, 1, 2], 7) == [3, 1, 2, 3, 1, 2, 3]
    assert predictions([5, 5, 5], 4) == [5] * 4


@pytest.mark.parametrize("ids", [[], [1], [1, 1], [1, 2, 3, 4], [3, 1, 2, 1]])
def test_no_prediction_without_a_match(ids: list[int]) -> None:
    assert predictions(ids, 3) == []


@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(1, 7), max_size=20))
def test_predicts_whenever_the_last_two_tokens_occurred_before(ids: list[int], pieces: list[int]) -> None:
    lookup, known = PromptLookup(), array("q")
    for piece in [*pieces, len(ids)]:
        known += array("q", ids[len(known) : len(known) + piece])
        lookup.read(known)
        before = [at for at in range(2, len(known)) if known[at - 2 : at] == known[-2:]]
        if before:
            assert list(islice(lookup.predictions(known), 1))
            assert predictions(known.tolist(), 1) == [known[before[-1]]]


def test_probabilities_follow_the_outcomes() -> None:
    right, wrong = PromptLookup(), PromptLookup()
    text = array("q", [1, 2, 3, 4] * 20)
    for end in range(1, len(text)):
        right.read(text[:end])
    noise = array("q")
    for token in range(100):
        noise += array("q", [1, 2, 10 + token])  # after 1, 2 never comes what came before
        for end in (2, 1, 0):
            wrong.read(noise[: len(noise) - end])
    wrong.read(noise + array("q", [1, 2]))
    first = PromptLookup()
    first.read(array("q", [1, 2, 3, 1, 2]))
    chances = [
        next(lookup.predictions(ids))[1]
        for lookup, ids in (
            (right, text[: len(text) - 1]),
            (wrong, noise + array("q", [1, 2])),
            (first, array("q", [1, 2, 3, 1, 2])),
        )
    ]
    assert chances[0] > 0.95
    assert chances[1] < 0.01 < chances[2] < 0.5


def test_probability_falls_with_distance() -> None:
    lookup, tokens = PromptLookup(), array("q", [1, 2, 3, 4, 5, 6, 7, 1, 2])
    lookup.read(tokens)
    chances = [probability for _, probability in islice(lookup.predictions(tokens), 12)]
    assert chances == sorted(chances, reverse=True)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_lookup, "WINDOW", 50)
    lookup, known = PromptLookup(), array("q")
    for token in range(1000):
        known.append(token % 40)
        lookup.read(known)
        assert len(lookup._latest) <= 100
    assert [token for token, _ in islice(lookup.predictions(known), 2)] == [1000 % 40, 1001 % 40]
