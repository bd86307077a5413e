from __future__ import annotations

from inference_worker.search.first_scores import FirstScores


def test_paths_that_begin_alike_have_the_scores_of_the_first() -> None:
    scores = FirstScores("; ")
    assert scores.apply(["a; ", "b; "], [0.25, 0.5]) == [0.25, 0.5]
    assert scores.apply(["a; ", "c"], [0.2500001, 0.75]) == [0.25, 0.75]
    assert scores.apply(["a"], [0.2499999]) == [0.25]
    assert scores.apply(["a; ", "b", "d"], [0.2500001, 0.5000001, 1.0]) == [0.25, 0.5, 1.0]


def test_other_texts_keep_their_scores() -> None:
    scores = FirstScores("")
    scores.apply(["a; ", "b"], [0.25, 0.5])
    assert scores.apply(["b"], [0.125]) == [0.125]
    assert scores.apply(["a; b"], [0.375]) == [0.375]
    assert scores.apply(["a"], [0.625]) == [0.625]


def test_a_verifier_of_whole_answers_has_one_score_of_all_steps() -> None:
    scores = FirstScores("; ")
    assert scores.apply(["a; ", "b"], [0.5]) == [0.5]
    assert scores.apply(["a; ", "b; "], [0.5000001]) == [0.5]
    assert scores.apply(["a; "], [0.25]) == [0.25]
