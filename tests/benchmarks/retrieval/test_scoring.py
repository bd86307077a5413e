from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.retrieval.data_set import Answer, Query
from benchmarks.retrieval.scoring import Accepted, RetrievedPassage, answer_place, documents, ndcg, recall, score

CAT = Query("cat", "What does a cat do?", {"cats": 1}, [Answer("cats", "it purrs")])
DOG = Query("dog", "What does a dog do?", {"dogs": 1}, [Answer("dogs", "it barks")])
FISH = Query("fish", "What does a fish sing?", {}, kind="unanswerable")
SEARCHED = {
    "cat": [RetrievedPassage("cats", "It sleeps.", 0.9), RetrievedPassage("cats", "It  purrs!", 0.8)],
    "dog": [RetrievedPassage("dogs", "It barks.", 0.6), RetrievedPassage("cats", "It purrs.", 0.2)],
    "fish": [RetrievedPassage("dogs", "It barks.", 0.3)],
}


def test_documents_have_the_place_of_their_best_passage() -> None:
    found = [RetrievedPassage(each, "", 0.5) for each in ("b", "a", "b", "c")]
    assert documents(found) == ["b", "a", "c"]


def test_recall_and_ndcg_of_graded_documents() -> None:
    grades = {"a": 2, "b": 1}
    assert recall(["a", "x"], grades) == 0.5
    assert ndcg(["a", "b"], grades) == 1
    assert ndcg(["x", "a"], grades) == pytest.approx((2 / math.log2(3)) / (2 + 1 / math.log2(3)))
    assert ndcg(["x"] * 10 + ["a"], grades) == 0


def test_an_answer_is_a_passage_with_the_quotation_of_its_document() -> None:
    assert answer_place(CAT, SEARCHED["cat"]) == 2
    assert answer_place(CAT, [RetrievedPassage("dogs", "It purrs.", 1.0)]) is None


def test_a_row_has_recall_answers_citations_and_refusals() -> None:
    row = score([CAT, DOG, FISH], SEARCHED, Accepted({"cat", "dog"}, {"cat"}))
    assert row == {
        "questions": 2,
        "recall_at_1": 1.0,
        "recall_at_5": 1.0,
        "recall_at_10": 1.0,
        "ndcg_at_10": 1.0,
        "answer_in_1": 0.5,
        "answer_in_3": 1.0,
        "answer_in_5": 1.0,
        "citation_precision": 0.5,  # the cat's first passage has no answer
        "refused_unanswerable": 1.0,
        "refused_answerable": 0.0,
        "refused_without_documents": 0.5,
    }
    row = score([CAT, DOG, FISH], SEARCHED, Accepted({"dog", "fish"}, set()))
    assert (row["citation_precision"], row["refused_unanswerable"], row["refused_answerable"]) == (0.5, 0.0, 0.5)
    assert "refused_unanswerable" not in score([CAT, DOG], SEARCHED, Accepted(set(), set()))


def test_near_misses_stay_answerable_without_their_documents() -> None:
    near = replace(CAT, kind="near miss")
    assert "refused_without_documents" not in score([near], SEARCHED, Accepted(set(), set()))
    assert score([near, DOG], SEARCHED, Accepted(set(), {"cat"}))["refused_without_documents"] == 1.0
