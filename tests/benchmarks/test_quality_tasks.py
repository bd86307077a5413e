"""Tests of the measurement of quality by tasks: its questions, its answers and its comparison with float32."""

from __future__ import annotations

from benchmarks.quality_tasks import ARITHMETIC_SET, MAX_TOKENS, STRUCTURED_SET, TASKS, answer, questions, rows
from benchmarks.test_time_compute.statistics import difference
from benchmarks.test_time_compute.task import Family
from benchmarks.test_time_compute.task_sets import evaluation_tasks
from tests.fakes.tiny_model import EOS, tiny_engine


def test_each_set_has_its_tasks_and_scores_their_answers() -> None:
    asked = questions()
    assert [each.task_set for each in asked] == [STRUCTURED_SET] * TASKS + [ARITHMETIC_SET] * TASKS
    assert all((each.grammar is None) == (each.task_set == ARITHMETIC_SET) for each in asked)
    assert all(each.score("") == 0 for each in asked)
    assert asked[0].score(asked[0].messages[1]["content"]) < 1
    (problem,) = evaluation_tasks(Family.WORD_PROBLEM, "en", 1)
    assert asked[TASKS].messages[-1]["content"] == problem.question
    assert asked[TASKS].score(problem.solution) == 1


def test_answers_end_at_the_end_of_sequence_or_at_the_most_tokens() -> None:
    asked = questions(4)[4:]
    prompts = [[3, 4, 5], [7, 8, 9, 10], [11, 12], [13, 14, 15]]
    answers = answer(tiny_engine(max_num_seqs=2), asked, prompts)
    assert all(len(ids) == MAX_TOKENS or ids[-1] == EOS for ids in answers)
    assert all(EOS not in ids[:-1] for ids in answers)
    assert answers == [answer(tiny_engine(), [one], [ids])[0] for one, ids in zip(asked, prompts, strict=True)]


def test_rows_compare_task_by_task() -> None:
    asked = questions(4)
    structured, arithmetic = rows("int4", asked, [1, 1, 0.75, 0.5, 1, 0, 0, 0], [1, 0.5, 1, 1, 1, 0, 0, 0])
    assert (structured["tasks"], structured["fields_right"], structured["right"]) == (STRUCTURED_SET, 0.8125, 0.5)
    assert (structured["both_right"], structured["only_float32_right"], structured["only_variant_right"]) == (1, 2, 1)
    assert structured["p_value"] == 1
    assert structured["difference"] == -0.25
    assert (structured["difference_from"], structured["difference_to"]) == difference([1, 1, 0, 0], [1, 0, 1, 1])
    assert (arithmetic["both_right"], arithmetic["fields_right"], arithmetic["p_value"]) == (1, None, 1)
    assert arithmetic["difference_from"] == arithmetic["difference_to"] == 0
