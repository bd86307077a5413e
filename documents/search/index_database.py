"""SQLite database of a local index: files, passages, and the inverted index of their terms with BM25 (FTS5).

The inverted index has no texts (`content=''`): a passage is removed from it by the same terms as it was added with.
Hashes of its terms are stored beside a passage, because making the terms of all passages that a search finds takes
longer than the search; so are the numbers of passages of each term, which FTS5 counts one by one. A passage has the row
of its vector as its key.
"""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from documents.content import Passage
from documents.search import words
from documents.search.index import IndexedFile

FORMAT = 4
"""Version of the tables."""
POSTING_BUDGET = 5_000
"""Rows that the words of a query may have together, beyond its rarest word: more common words are left out."""

_SCHEMA = """
CREATE TABLE state (name TEXT PRIMARY KEY, value);
CREATE TABLE file (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE, name TEXT, attributes TEXT, passages TEXT, revision,
    expires REAL
);
CREATE TABLE passage (
    row INTEGER PRIMARY KEY, file INTEGER, number INTEGER, text TEXT, page INTEGER, headings TEXT, start INTEGER,
    end INTEGER, tokens INTEGER, term_hashes BLOB
);
CREATE INDEX passage_of_file ON passage (file);
CREATE VIRTUAL TABLE posting USING fts5 (terms, content='', tokenize="unicode61 remove_diacritics 0");
CREATE TABLE term (term TEXT PRIMARY KEY, passages INTEGER NOT NULL) WITHOUT ROWID;
"""


class IndexUnusable(Exception):
    """The files of an index are damaged or of another version: the index must be built anew."""


@dataclass(frozen=True)
class QueryWord:
    """A word of a query: its terms, in how many passages they are, and how much a passage with it fits."""

    terms: frozenset[str]
    passages: int
    weight: float


@dataclass(frozen=True)
class PassageRow:
    """A row of the table of passages: a passage, the ordinal of its file, and its number in the file."""

    ordinal: int
    number: int
    passage: Passage
    term_hashes: Sequence[int]
    """The `term_hash` of each of its terms."""


class IndexDatabase:
    """One connection to the database of an index; used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open the database, or create it.

        Raises:
            IndexUnusable: it is damaged or of another version.
        """
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            self._open()
        except (sqlite3.DatabaseError, IndexUnusable) as error:
            self._connection.close()
            raise IndexUnusable(str(error)) from error

    def _open(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")  # a crash of the machine loses the last changes, and damages nothing
        execute("PRAGMA secure_delete = ON")
        version = f"{FORMAT}/{words.VERSION}"
        with self.transaction():
            if not execute("SELECT 1 FROM sqlite_master").fetchone():
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    execute(statement)
                self.set_state("version", version)
        if self.state("version") != version:
            raise IndexUnusable("the index is of another version")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Return a context manager whose block changes the database completely or not at all."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def state(self, name: str) -> str | int | None:
        """Return a named value of the index's state; `None` if it was never set."""
        found = self._connection.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return None if found is None else found[0]

    def set_state(self, name: str, value: str | int) -> None:
        """Set a named value of the index's state."""
        self._connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))

    def files(self) -> dict[int, IndexedFile]:
        """Return all files by ordinal."""
        rows = self._connection.execute("SELECT ordinal, key, name, attributes, passages, revision, expires FROM file")
        return {
            ordinal: IndexedFile(key, name, json.loads(attributes), passages, revision, expires)
            for ordinal, key, name, attributes, passages, revision, expires in rows
        }

    def rows(self) -> list[tuple[int, int]]:
        """Return the row of each passage, with the ordinal of its file."""
        return self._connection.execute("SELECT row, file FROM passage").fetchall()

    def put_file(self, file: IndexedFile) -> int:
        """Insert a file, or replace what is stored of it, and return its ordinal."""
        values = (file.key, file.name, json.dumps(dict(file.attributes)), file.passages, file.revision, file.expires)
        (ordinal,) = self._connection.execute(
            "INSERT INTO file (key, name, attributes, passages, revision, expires) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (key) DO UPDATE SET name = excluded.name, attributes = excluded.attributes,"
            " passages = excluded.passages, revision = excluded.revision,"
            " expires = excluded.expires RETURNING ordinal",
            values,
        ).fetchone()
        return int(ordinal)

    def add_passages(self, ordinal: int, rows: Iterable[int], passages: Sequence[Passage], start: int = 0) -> None:
        """Insert passages of a file, which are numbered from `start` on, at rows."""
        added = [(row, each, _terms(each)) for row, each in zip(rows, passages, strict=True)]
        self._connection.executemany(
            "INSERT INTO passage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (row, ordinal, number, *_columns(each), array("I", sorted(set(map(term_hash, terms)))).tobytes())
                for number, (row, each, terms) in enumerate(added, start)
            ),
        )
        self._connection.executemany(
            "INSERT INTO posting (rowid, terms) VALUES (?, ?)", ((row, " ".join(terms)) for row, _, terms in added)
        )
        self._count_terms((terms for _, _, terms in added), 1)

    def remove_passages(self, ordinal: int) -> list[int]:
        """Delete the passages of a file, and return their rows."""
        found = self._connection.execute("SELECT * FROM passage WHERE file = ?", (ordinal,)).fetchall()
        removed = [(each[0], _terms(_passage(each))) for each in found]
        self._connection.executemany(
            "INSERT INTO posting (posting, rowid, terms) VALUES ('delete', ?, ?)",
            ((row, " ".join(terms)) for row, terms in removed),
        )
        self._count_terms((terms for _, terms in removed), -1)
        self._connection.execute("DELETE FROM passage WHERE file = ?", (ordinal,))
        return [each[0] for each in found]

    def remove_file(self, ordinal: int) -> None:
        """Delete a file that has no passages."""
        self._connection.execute("DELETE FROM file WHERE ordinal = ?", (ordinal,))

    def query_words(self, text: str, total: int) -> list[QueryWord]:
        """Return the words of a query text, the rarest first, as they are in the index of `total` passages."""
        found = []
        for terms in words.query_terms(text):
            passages = max(map(self._passages_with, terms))
            found.append(QueryWord(terms, passages, math.log(1 + total / (passages + 0.5))))
        return sorted(found, key=lambda each: each.passages)

    def _passages_with(self, term: str) -> int:
        found = self._connection.execute("SELECT passages FROM term WHERE term = ?", (term,)).fetchone()
        return 0 if found is None else int(found[0])

    def _count_terms(self, passages: Iterable[Sequence[str]], sign: int) -> None:
        """Add the terms of passages to the numbers of passages by term, or with `sign` -1 subtract them."""
        counts = Counter(term for terms in passages for term in set(terms))
        self._connection.executemany(
            "INSERT INTO term VALUES (?, ?) ON CONFLICT (term) DO UPDATE SET passages = passages + excluded.passages",
            sorted((term, sign * count) for term, count in counts.items()),
        )

    def rank(self, query: Sequence[QueryWord], limit: int, searched: npt.NDArray[np.bool_]) -> dict[int, float]:
        """Return the BM25 of up to `limit` passages with words of a query, by row, the highest first.

        `searched`: whether a row is searched, by row; rows beyond its end are not.
        """
        terms: list[str] = []
        budget = POSTING_BUDGET
        for word in query:
            if terms and word.passages > budget:
                break
            if word.passages:
                terms += word.terms
                budget -= word.passages
        if not terms:
            return {}
        match = " OR ".join(f'"{term}"' for term in terms)
        # Rows are left out here: a condition in the statement would have SQLite collect all searched rows first.
        ranked = self._connection.execute(
            "SELECT rowid, -rank FROM posting WHERE posting MATCH ? ORDER BY rank", (match,)
        )
        found = ((row, bm25) for row, bm25 in ranked if row < len(searched) and searched[row])
        return dict(itertools.islice(found, limit))

    def passages(self, rows: Sequence[int]) -> dict[int, PassageRow]:
        """Return the passages at these rows, by row."""
        found = self._connection.execute(
            "SELECT * FROM passage WHERE row IN (SELECT value FROM json_each(?))", (json.dumps(list(rows)),)
        )
        return {
            each[0]: PassageRow(each[1], each[2], _passage(each), memoryview(each[-1]).cast("I").tolist())
            for each in found
        }

    def erase_remains(self) -> None:
        """Rewrite the inverted index without removed terms, forget terms of no passage, and empty the journal."""
        self._connection.execute("DELETE FROM term WHERE passages = 0")
        self._connection.execute("INSERT INTO posting (posting) VALUES ('optimize')")
        self._connection.execute("PRAGMA wal_checkpoint (TRUNCATE)")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def term_hash(term: str) -> int:
    """Return the hash of a term, of 32 bits: two terms of one query and one passage have the same once in a million."""
    return zlib.crc32(term.encode())


def _terms(passage: Passage) -> list[str]:
    """Return what the inverted index has of a passage: the terms of its headings and its text."""
    return words.terms_of(" ".join((*passage.heading_path, passage.text)))


def _columns(passage: Passage) -> tuple[object, ...]:
    headings = json.dumps(passage.heading_path)
    return passage.text, passage.page, headings, passage.start, passage.end, passage.tokens


def _passage(row: Sequence[object]) -> Passage:
    _, _, _, text, page, headings, start, end, tokens, _ = row
    return Passage(text, page, tuple(json.loads(str(headings))), start, end, tokens)  # type: ignore[arg-type]
