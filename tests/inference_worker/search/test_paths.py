from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_worker.search.events import ROOT, Segment, SegmentEnd
from inference_worker.search.paths import PathTree, merge_blank_steps, split_steps


@given(st.text("a\n ", max_size=30))
def test_steps_of_an_answer_joined_are_its_text(text: str) -> None:
    steps = split_steps(text, "\n\n")
    assert "".join(steps) == text
    merged = merge_blank_steps(steps)
    assert "".join(merged) == text
    assert len(merged) == 1 or all(step.strip() for step in merged)


@pytest.mark.parametrize(
    ("steps", "merged"),
    [(["\n", "a\n", "\n", "b"], ["\na\n\n", "b"]), (["\n", "\n"], ["\n\n"]), ([""], [""]), (["a", "b"], ["a", "b"])],
)
def test_merge_blank_steps(steps: list[str], merged: list[str]) -> None:
    assert merge_blank_steps(steps) == merged


def test_a_path_has_the_tokens_and_texts_of_its_ancestors() -> None:
    tree = PathTree(max_tokens=5)
    tree.add(1, ROOT, Segment([1, 2], "a", SegmentEnd.BOUNDARY))
    tree.add(2, ROOT, Segment([3], "b", SegmentEnd.BOUNDARY))
    path = tree.add(3, 1, Segment([4], "c", SegmentEnd.FULL))
    assert (tree.token_ids(3), tree.texts(3)) == ([1, 2, 4], ["a", "c"])
    assert (path.length, path.tokens, path.origin, path.ended) == (3, 1, 1, None)


def test_a_path_with_all_tokens_of_an_answer_has_ended() -> None:
    tree = PathTree(max_tokens=2)
    assert tree.add(1, ROOT, Segment([1, 2], "a", SegmentEnd.BOUNDARY)).ended is SegmentEnd.LENGTH
    assert tree.add(2, ROOT, Segment([1, 2], "a", SegmentEnd.STOP)).ended is SegmentEnd.STOP


def test_tokens_and_texts_of_dropped_paths_are_freed() -> None:
    tree = PathTree(max_tokens=5)
    kept, dropped = [tree.add(number, ROOT, Segment([1], "a", SegmentEnd.FULL)) for number in (1, 2)]
    tree.alive = [kept]
    tree.forget_dropped([kept, dropped])
    assert [(path.token_ids, path.text) for path in (kept, dropped)] == [([1], "a"), ([], "")]
