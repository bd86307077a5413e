"""Entries of a log are decoded as they were, so that another gateway goes on with the same passages."""

from __future__ import annotations

import pytest

from documents.content import Passage
from documents.search.index import Hit, IndexedFile
from gateway.answers.responses.run_log import (
    Entry,
    JobBegun,
    JobEnded,
    LoggedPassage,
    SearchBegun,
    SearchEnded,
    decoded,
    encoded,
    group_bytes,
)
from gateway.vector_stores.search import SearchHit
from router.messages import Usage, UsagePart
from stored_objects.objects.records import RECORD_BYTES
from tests.gateway.answers.responses.client import delta

PASSAGE = Passage(text="Dogs bark.", page=None, heading_path=("Rules", "Dogs"), start=3, end=13, tokens=4)
HIT = SearchHit("vs_1", "file-a", Hit(IndexedFile("vs_1/file-a", "a.md", {"year": 2024.0}, "p", 1), 2, PASSAGE, 0.5))


@pytest.mark.parametrize(
    "entry",
    [
        SearchBegun(["dogs", "dogs and cats"]),
        SearchEnded([LoggedPassage.of(HIT)], [UsagePart(model="e", usage=Usage(prompt_tokens=3))], shown=True),
        JobBegun([HIT.source], 512),
        JobEnded(Usage(prompt_tokens=9, completion_tokens=2), [], ["pies"]),
    ],
)
def test_an_entry_is_decoded_as_it_was(entry: Entry) -> None:
    assert decoded(encoded([entry])) == [entry]


def test_deltas_and_searches_are_in_one_group_in_order() -> None:
    group = encoded([delta(text="a"), SearchBegun(["dogs"]), delta(start=1, text="b")])
    assert [type(each).__name__ for each in decoded(group)] == ["Delta", "SearchBegun", "Delta"]
    assert group_bytes(group) == len(group) + RECORD_BYTES


def test_a_passage_is_cited_and_quoted_as_its_hit() -> None:
    again = LoggedPassage.of(HIT).hit
    assert (again.key, again.source, again.as_result()) == (HIT.key, HIT.source, HIT.as_result())
    assert again.hit.passage == PASSAGE


@pytest.mark.parametrize("shown", [False, True])
def test_results_are_shown_if_the_request_includes_them(*, shown: bool) -> None:
    results = SearchEnded([LoggedPassage.of(HIT)], [], shown=shown).results
    assert results == ([HIT.as_result()] if shown else None)
