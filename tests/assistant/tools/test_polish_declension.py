"""Candidates of nominatives of inflected Polish place names."""

from __future__ import annotations

import time

import pytest

from assistant.tools.polish_declension import MAX_CANDIDATES, nominatives
from tests.assistant.tools.inflected_places import INFLECTED, MORE_INFLECTED


@pytest.mark.parametrize(("inflected", "nominative"), INFLECTED)
def test_the_nominative_is_among_the_first_candidates(inflected: str, nominative: str) -> None:
    assert nominative in nominatives(inflected)[:4]


@pytest.mark.parametrize(("inflected", "nominative"), MORE_INFLECTED)
def test_the_nominative_is_among_the_candidates(inflected: str, nominative: str) -> None:
    assert nominative.lower() in [each.lower() for each in nominatives(inflected)[:8]]


def test_lower_case_names_are_declined() -> None:
    assert "wrocław" in nominatives("wrocławiu")
    assert "nowy Jork" in nominatives("nowym Jorku")


@pytest.mark.parametrize(
    "name", ["Oslo", "Tokio", "Los Angeles", "San Francisco", "Chicago", "Monachium", "", " ", "-"]
)
def test_names_without_endings_have_no_candidates(name: str) -> None:
    assert nominatives(name) == []


def test_the_likeliest_candidate_is_first_for_most_names() -> None:
    first = [inflected for inflected, nominative in INFLECTED if nominatives(inflected)[0] == nominative]
    assert len(first) / len(INFLECTED) > 0.7


@pytest.mark.parametrize("name", ["w" * 200, "Nowym " * 50, "Wielkim-" * 5 + "Małym", "ie" * 20])
def test_candidates_are_bounded(name: str) -> None:
    began = time.thread_time()
    assert len(nominatives(name)) <= MAX_CANDIDATES
    assert time.thread_time() - began < 2
