"""The limits of `relevance.py` on questions in two languages, with the default embedding model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from documents.content import Passage
from documents.search.index import FileContent, IndexChanges, IndexedFile, Question, SearchQuery
from documents.search.local_index import LocalIndex
from documents.search.question_language import language_of
from tests.documents.search.questions import ANSWERED, NEAR, OTHER, PASSAGES
from tests.inference_worker.embedding.reference import vectors

pytestmark = pytest.mark.model

REFUSED = ["Jestem chory, co mam zrobić?"]
"""Answered questions that share no word with their passages."""
PASSING = ["Przetłumacz 'dzień dobry' na niemiecki."]
"""Questions about other things that share a word with a passage."""
NEAR_THAT_PASS = 9


class Searcher:
    """An index of passages, and the model that has embedded them."""

    def __init__(self, folder: Path, model: Path, passages: list[tuple[str, str, str]]) -> None:
        self._model = model
        self._index = LocalIndex(folder)
        texts = [Passage(text, None, (top, head), 0, len(text), 9) for top, head, text in passages]
        embedded = [f"{top} {head}\n{text}" for top, head, text in passages]
        content = FileContent(IndexedFile("vs/f", "f.md", {}, "p", 1), texts, np.asarray(vectors(model, embedded)))
        self._index.apply(IndexChanges([content], position=1))

    def answerable(self, questions: list[str]) -> list[str]:
        """Return the questions to which a passage is relevant."""
        embedded = vectors(self._model, questions).tolist()
        asked = [Question(text, vector) for text, vector in zip(questions, embedded, strict=True)]
        return [
            each.text for each in asked if self._index.search(SearchQuery([each], limit=8, requires_relevance=True))
        ]

    def close(self) -> None:
        self._index.close()


@pytest.fixture(params=["en", "pl", "en pl"])
def library(
    request: pytest.FixtureRequest, tmp_path: Path, embedding_folder: Path
) -> Iterator[tuple[Searcher, list[str]]]:
    """Passages of one language, or of both, and the languages to ask in."""
    languages = request.param.split()
    made = Searcher(tmp_path / "index", embedding_folder, [each for name in languages for each in PASSAGES[name]])
    yield made, languages
    made.close()


def test_what_passages_answer_fits_and_other_things_do_not(library: tuple[Searcher, list[str]]) -> None:
    searcher, languages = library
    for language in languages:
        answered, near = ANSWERED[language], NEAR[language]
        assert searcher.answerable(answered) == [each for each in answered if each not in REFUSED]
        assert searcher.answerable(OTHER[language]) == [each for each in OTHER[language] if each in PASSING]
        assert {language_of(each) for each in answered + near + OTHER[language]} == {language}


def test_near_misses_are_left_to_the_model(tmp_path: Path, embedding_folder: Path) -> None:
    passing = 0
    for language, passages in PASSAGES.items():
        searcher = Searcher(tmp_path / language, embedding_folder, passages)
        passing += len(searcher.answerable(NEAR[language]))
        searcher.close()
    assert passing == NEAR_THAT_PASS
