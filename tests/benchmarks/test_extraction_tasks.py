"""Generated tasks of extraction: texts state their objects, and answers are scored by field."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from benchmarks.extraction_tasks import EXAMPLES, KINDS, ExtractionTask, Kind, examples, extraction_tasks

COUNT = 200


def test_tasks_are_the_same_each_time_and_different_from_each_other_and_the_examples() -> None:
    tasks = extraction_tasks(COUNT)
    shown = {example.text for kind in KINDS for example in examples(kind)}
    assert tasks == extraction_tasks(COUNT)
    assert extraction_tasks(10) == tasks[:10]
    assert len({task.text for task in tasks} | shown) == COUNT + len(KINDS) * EXAMPLES


def test_a_text_states_the_fields_of_its_object() -> None:
    for task in extraction_tasks(COUNT):
        *stated, truth = task.solution.values()
        assert list(task.solution) == list(task.kind.fields)
        assert len(task.solution) == 4
        assert all(str(value) in task.text for value in stated)
        assert task.kind.phrases[0 if truth else 1] in task.text


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: next(iter(kind.fields)))
def test_booleans_are_mixed_and_shown_both_ways(kind: Kind) -> None:
    own = [task for task in extraction_tasks(COUNT) if task.kind is kind]
    assert 0.35 < sum(list(task.solution.values())[-1] is True for task in own) / len(own) < 0.65
    assert [list(example.solution.values())[-1] for example in examples(kind)] == [True, False]


def test_an_answer_is_scored_by_its_exact_fields() -> None:
    (task,) = extraction_tasks(1)
    right = task.solution
    assert score(task, right) == 1
    assert score(task, right | {"age": 17}) == 0.75
    assert score(task, right | {"age": str(right["age"])}) == 0.75
    assert score(task, {"name": right["name"]}) == 0.25
    assert task.score(json.dumps(right)[:-1]) == task.score("[]") == 0


def score(task: ExtractionTask, answer: Mapping[str, object]) -> float:
    return task.score(json.dumps(answer))


def test_a_question_follows_examples_with_their_objects() -> None:
    (task,) = extraction_tasks(1)
    first, solved, *_, question = task.messages(examples(task.kind))
    assert first["content"].startswith("Write the name, age, city, member in this text as JSON.")
    assert json.loads(solved["content"]) == examples(task.kind)[0].solution
    assert question == {"role": "user", "content": task.question}
