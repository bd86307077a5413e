"""Replays of votes: the same vote as a search's, and what a stop saves of it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchmarks.test_time_compute.replay import CONFIDENCES, SIZES, StoredAnswers, read_answers, replay_rows, replayed
from benchmarks.test_time_compute.task import Family


def stored(results: str, right: str) -> StoredAnswers:
    """Answers whose results are characters, the right one is given; each has as many tokens as its place, from 1."""
    known = [None if result == "-" else result for result in results]
    tokens = list(range(1, len(results) + 1))
    return StoredAnswers(Family.EQUATION, "?", [*known], [result == right for result in results], tokens)


def test_a_stopped_vote_has_the_first_answers_of_the_order() -> None:
    task = stored("aaabbbbbbbbbbbbb", right="b")
    found = replayed(task, range(16), 0.95)
    assert (found.right_of_all, found.right, found.agrees) == (True, False, False)
    assert (found.tokens_of_all, found.tokens, found.waves) == (136, 6, 1)
    found = replayed(task, range(15, -1, -1), 0.95)
    assert (found.right, found.agrees, found.tokens, found.waves) == (True, True, 16 + 15 + 14, 1)


def test_certain_votes_have_the_result_of_all_answers() -> None:
    task = stored("bbabbb-bbcb" * 6, right="b")
    found = replayed(task, range(64), 1)
    assert found.agrees
    assert found.right_of_all is found.right is True
    assert found.tokens < found.tokens_of_all


def test_votes_without_results_choose_the_first_answer() -> None:
    found = replayed(stored("----", right="a"), [2, 0, 1], 0.9)
    assert (found.right, found.agrees, found.tokens) == (False, True, 6)


def test_rows_say_what_each_confidence_saves() -> None:
    rows = replay_rows([stored("a" * 64, right="a"), stored("ab" * 32, right="a")], orders=3)
    assert [(row["n"], row["confidence"]) for row in rows] == [(n, each) for n in SIZES for each in CONFIDENCES]
    assert all(row["agreement"] == 1 and row["difference"] == 0 for row in rows if row["confidence"] == 1)
    assert {row["questions"] for row in rows} == {2}
    for certain, *other in zip(*[iter(rows)] * len(CONFIDENCES), strict=True):
        saved = [row["tokens_saved"] for row in (certain, *other)]
        assert saved == sorted(saved)


def test_stored_answers_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    assert read_answers(path) == []
    task = stored("a-b", right="a")
    path.write_bytes(msgspec.json.encode(task) + b"\n" + msgspec.json.encode(task) + b"\n")
    assert read_answers(path) == [task, task]
