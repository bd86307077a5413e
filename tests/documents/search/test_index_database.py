"""Tests of an index's database: the numbers of passages of the words of a query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from documents.content import Passage
from documents.search.index import IndexedFile
from documents.search.index_database import IndexDatabase


@pytest.fixture
def database(tmp_path: Path) -> Iterator[IndexDatabase]:
    database = IndexDatabase(tmp_path / "index.sqlite3")
    yield database
    database.close()


def _add(database: IndexDatabase, key: str, first_row: int, *texts: str) -> int:
    ordinal = database.put_file(IndexedFile(key, key, {}, key, 1))
    passages = [Passage(text, None, (), 0, len(text), 1) for text in texts]
    database.add_passages(ordinal, range(first_row, first_row + len(texts)), passages)
    return ordinal


def _numbers(database: IndexDatabase, query: str) -> list[int]:
    return [word.passages for word in database.query_words(query, 3)]


def test_words_have_the_number_of_passages_that_they_are_in_the_rarest_first(database: IndexDatabase) -> None:
    _add(database, "a", 0, "a turbine and a turbine", "a headrace")
    _add(database, "b", 2, "the turbines")
    assert _numbers(database, "turbine headrace penstock") == [0, 1, 2]


def test_passages_that_are_removed_are_not_counted_and_their_words_are_forgotten(
    database: IndexDatabase, tmp_path: Path
) -> None:
    _add(database, "a", 0, "turbine")
    removed = _add(database, "b", 1, "turbine penstockish", "turbine")
    database.remove_passages(removed)
    assert _numbers(database, "turbine penstockish") == [0, 1]
    database.erase_remains()
    assert b"penstockish" not in (tmp_path / "index.sqlite3").read_bytes()
