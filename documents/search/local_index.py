"""Search index in a local folder: a SQLite database of files, passages and words, and a file of vectors.

Each vector is compared to the question (an exact scan), so recall is complete. One process uses the folder at a time.
A change is complete with the commit of the database, so it can be killed at any time: before it, vectors are written
to rows that no passage has, and those of removed passages are overwritten after it, by `erase_remains`.
"""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from documents.search.filters import Filter
from documents.search.fusion import Cosines, vector_score, word_score
from documents.search.index import FileContent, Hit, IndexChanges, IndexedFile, SearchQuery
from documents.search.index_database import (
    IndexDatabase,
    IndexUnusable,
    PassageRow,
    QueryWord,
    term_hash,
)
from documents.search.question_language import language_of
from documents.search.relevance import JUDGED_PASSAGES, is_relevant
from documents.search.vectors import VectorFile, best_rows, normalised

DATABASE, VECTORS = "index.sqlite3", "vectors.f32"
CANDIDATES = 50
"""Passages that a search by words and one by vectors find to be fused, each, at least."""
_UNUSED = -1
"""Ordinal of the file of a row that no passage has."""
_DIMENSION, _POSITION, _REMAINS = "dimension", "position", "remains"


@dataclass(frozen=True)
class _Snapshot:
    """What a search reads besides the database; replaced as a whole by each change."""

    position: int = 0
    files: Mapping[int, IndexedFile] = field(default_factory=dict)
    """Files by ordinal."""
    by_key: Mapping[str, IndexedFile] = field(default_factory=dict)
    ordinals: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Ordinal of the file of each row, or `_UNUSED`."""
    total: int = 0
    """Number of passages."""
    first_expiry: float = math.inf
    """Unix time at which the first of the files expires."""


class LocalIndex:
    """Implementation of `SearchIndex` in a folder, which is created, and emptied if its content is unusable."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._connections: list[IndexDatabase] = []
        """Connections that no thread uses."""
        self._connections_lock = threading.Lock()
        self._is_closed = False
        self._change_lock = threading.Lock()
        self._vectors: VectorFile | None = None
        try:
            self._open()
        except IndexUnusable:
            shutil.rmtree(folder)
            self._open()

    def _open(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._database() as database:
            dimension = database.state(_DIMENSION)
            self._vectors = None if dimension is None else VectorFile(self._folder / VECTORS, int(dimension))
            self._snapshot = _read(database)
        rows = 0 if self._vectors is None else len(self._vectors.rows)
        if rows < len(self._snapshot.ordinals):
            while self._connections:
                self._connections.pop().close()
            raise IndexUnusable("vectors are missing")

    @property
    def position(self) -> int:
        """Change number of the store that the index is at; 0: a new index."""
        return self._snapshot.position

    @property
    def files(self) -> Mapping[str, IndexedFile]:
        """Files of the index, by key."""
        return self._snapshot.by_key

    def apply(self, changes: IndexChanges) -> None:
        """Apply changes of files by one transaction of the database, so that every later search sees them."""
        with self._change_lock, self._database() as database:
            with database.transaction():
                changed = self._change(database, changes)
                if self._vectors is not None:
                    self._vectors.flush()
            self._snapshot = changed

    def search(self, query: SearchQuery) -> list[Hit]:
        """Return the passages that fit best, at most `query.limit`: by words and vectors."""
        snapshot, now = self._snapshot, self._clock()
        every_file = query.filter is None and now < snapshot.first_expiry
        ordinals = None if every_file else _passing(snapshot.files, query.filter, now)
        with self._database() as database:
            return _Searches(snapshot, self._vectors, database, query, ordinals).hits()

    def erase_remains(self) -> None:
        """Erase the vectors and terms of removed passages, if any were removed since the last time."""
        with self._change_lock, self._database() as database:
            if not database.state(_REMAINS):
                return
            if self._vectors is not None:
                self._vectors.erase_unused(np.flatnonzero(self._snapshot.ordinals != _UNUSED))
            database.erase_remains()
            database.set_state(_REMAINS, 0)

    def close(self) -> None:
        """Close the connections to the database; those that a thread uses when it is done."""
        with self._connections_lock:
            self._is_closed = True
            while self._connections:
                self._connections.pop().close()

    @contextmanager
    def _database(self) -> Iterator[IndexDatabase]:
        with self._connections_lock:
            database = self._connections.pop() if self._connections else None
        if database is None:
            database = IndexDatabase(self._folder / DATABASE)
        try:
            yield database
        except BaseException:
            database.close()
            raise
        with self._connections_lock:
            if not self._is_closed:
                self._connections.append(database)
                return
        database.close()

    def _change(self, database: IndexDatabase, changes: IndexChanges) -> _Snapshot:
        """Write changes to vectors and database, and return the snapshot of the index with them."""
        before = self._snapshot
        files = dict(before.files)
        known = {file.key: ordinal for ordinal, file in files.items()}
        removed = {known[key] for key in changes.removed if key in known}
        replaced = {known[each.file.key] for each in changes.contents if each.file.key in known and not each.start}
        freed = [row for ordinal in removed | replaced for row in database.remove_passages(ordinal)]
        for ordinal in removed:
            database.remove_file(ordinal)
            del files[ordinal]
        if freed:
            database.set_state(_REMAINS, 1)
        for file in changes.renamed:
            files[database.put_file(file)] = file
        ordinals = before.ordinals.copy()
        for content in changes.contents:
            ordinal = database.put_file(content.file)
            files[ordinal] = content.file
            ordinals = self._add(database, ordinals, ordinal, content)
        ordinals[freed] = _UNUSED  # not before: until the commit, their passages need their vectors
        position = before.position if changes.position is None else changes.position
        database.set_state(_POSITION, position)
        return _snapshot(position, files, ordinals)

    def _add(
        self, database: IndexDatabase, ordinals: npt.NDArray[np.int64], ordinal: int, content: FileContent
    ) -> npt.NDArray[np.int64]:
        """Write the passages of a file to unused rows or new ones, and return the ordinals of all rows with them."""
        count = len(content.passages)
        if not count:
            return ordinals
        if self._vectors is None:
            self._vectors = VectorFile(self._folder / VECTORS, content.vectors.shape[1])
        database.set_state(_DIMENSION, content.vectors.shape[1])
        unused = np.flatnonzero(ordinals == _UNUSED)[:count]
        rows = np.concatenate([unused, np.arange(len(ordinals), len(ordinals) + count - len(unused))])
        self._vectors.write(rows, content.vectors)
        database.add_passages(ordinal, rows.tolist(), content.passages, content.start)
        grown = np.concatenate([ordinals, np.full(count - len(unused), _UNUSED)])
        grown[rows] = ordinal
        return grown


def _read(database: IndexDatabase) -> _Snapshot:
    rows = np.asarray(database.rows(), np.int64).reshape(-1, 2)
    ordinals = np.full(int(rows[:, 0].max()) + 1 if len(rows) else 0, _UNUSED)
    ordinals[rows[:, 0]] = rows[:, 1]
    return _snapshot(int(database.state(_POSITION) or 0), database.files(), ordinals)


def _snapshot(position: int, files: Mapping[int, IndexedFile], ordinals: npt.NDArray[np.int64]) -> _Snapshot:
    by_key = {each.key: each for each in files.values()}
    first_expiry = min((each.expires for each in files.values()), default=math.inf)
    return _Snapshot(position, files, by_key, ordinals, int(np.count_nonzero(ordinals != _UNUSED)), first_expiry)


@dataclass(frozen=True)
class _QuestionSearch:
    """What the searches by words and by vectors have found for one question."""

    words: Sequence[QueryWord]
    by_words: Mapping[int, float]
    """BM25 of passages that have words of the question, by row, the highest first."""
    by_vector: Cosines | None
    """The `vector_score` of all rows; `None`: they are not searched by vectors."""
    rows: frozenset[int]
    """Passages that either search has found."""

    def score(self, row: int, terms: frozenset[str], query: SearchQuery) -> float:
        """Return the fused score of the passage at a row, which has `terms`, for the question."""
        score = 0.0
        if self.by_vector is not None:
            score += query.vector_weight * float(self.by_vector[row])
        if query.word_weight:
            bm25, best = self.by_words.get(row, 0.0), next(iter(self.by_words.values()), 0.0)
            score += query.word_weight * word_score(_share(self.words, terms), bm25, best)
        return score


class _Searches:
    """The searches of one query, and the hits that they are fused to."""

    def __init__(
        self,
        snapshot: _Snapshot,
        vectors: VectorFile | None,
        database: IndexDatabase,
        query: SearchQuery,
        ordinals: Sequence[int] | None,
    ) -> None:
        self._snapshot = snapshot
        self._database = database
        self._query = query
        self._ordinals = ordinals
        self._candidates = max(CANDIDATES, 2 * query.limit)
        rows = np.empty((0, 0), np.float32) if vectors is None else vectors.rows[: len(snapshot.ordinals)]
        self._cosines = [
            None
            if each.vector is None or not query.vector_weight or not len(rows)
            else rows @ normalised(np.asarray(each.vector))
            for each in query.questions
        ]
        self._words: list[list[QueryWord]] = [
            database.query_words(each.text, snapshot.total) for each in query.questions
        ]
        self._terms = {term_hash(term): term for words in self._words for word in words for term in word.terms}

    def hits(self) -> list[Hit]:
        """Return the passages that fit best, at most as many as the query asks for."""
        if not self._snapshot.total or self._ordinals == []:
            return []
        searched = self._searched_rows()
        searches = [self._search(*each, searched) for each in zip(self._cosines, self._words, strict=True)]
        ranked: list[tuple[float, int, Hit, frozenset[str]]] = []
        for row, found in self._passages({row for each in searches for row in each.rows}):
            terms = frozenset(self._terms[each] for each in self._terms.keys() & found.term_hashes)
            rank_score = max(each.score(row, terms, self._query) for each in searches if row in each.rows)
            hit = Hit(self._snapshot.files[found.ordinal], found.number, found.passage, self._score(row, terms))
            if hit.score >= self._query.threshold:
                ranked.append((-rank_score, row, hit, terms))
        ranked.sort(key=lambda each: each[:2])
        judged = [(row, terms) for _, row, _, terms in ranked[:JUDGED_PASSAGES]]
        if self._query.requires_relevance and not self._are_relevant(judged):
            return []
        return [hit for _, _, hit, _ in ranked[: self._query.limit]]

    def _passages(self, rows: Collection[int]) -> Iterator[tuple[int, PassageRow]]:
        """Read the passages at rows."""
        for row, found in self._database.passages(sorted(rows)).items():
            if self._is_current(row, found):
                yield row, found

    def _search(
        self, cosines: Cosines | None, words: Sequence[QueryWord], searched: npt.NDArray[np.bool_]
    ) -> _QuestionSearch:
        """Search for one question by vectors and by words."""
        by_words = self._database.rank(words, self._candidates, searched) if self._query.word_weight else {}
        if cosines is None:
            return _QuestionSearch(words, by_words, None, frozenset(by_words))
        scores = vector_score(cosines, searched)
        rows = np.flatnonzero(searched)
        nearest = rows[best_rows(scores[rows], self._candidates)].tolist()
        return _QuestionSearch(words, by_words, scores, frozenset((*by_words, *nearest)))

    def _searched_rows(self) -> npt.NDArray[np.bool_]:
        ordinals = self._snapshot.ordinals
        return np.asarray(ordinals != _UNUSED if self._ordinals is None else np.isin(ordinals, self._ordinals))

    def _is_current(self, row: int, found: PassageRow) -> bool:
        """Return whether a row still has the passage that it had at the beginning of the search."""
        return row < len(self._snapshot.ordinals) and self._snapshot.ordinals[row] == found.ordinal

    def _score(self, row: int, terms: frozenset[str]) -> float:
        scores = [float(each[row]) for each in self._cosines if each is not None]
        if self._query.word_weight:
            scores += [_share(words, terms) for words in self._words]
        return min(max([0.0, *scores]), 1.0)

    def _are_relevant(self, passages: Sequence[tuple[int, frozenset[str]]]) -> bool:
        """Return whether passages, given by their rows and terms, are relevant to one of the questions."""
        return bool(passages) and any(
            is_relevant(
                language_of(question.text),
                None if cosines is None else max(float(cosines[row]) for row, _ in passages),
                max(_share(words, terms) for _, terms in passages) if self._query.word_weight else None,
            )
            for question, cosines, words in zip(self._query.questions, self._cosines, self._words, strict=True)
        )


def _share(words: Sequence[QueryWord], terms: frozenset[str]) -> float:
    """Return the share of a query's words, weighted by rarity, that a passage with these of the query's terms has."""
    weight = sum(each.weight for each in words)
    return sum(each.weight for each in words if each.terms & terms) / weight if weight else 0.0


def _passing(files: Mapping[int, IndexedFile], condition: Filter | None, now: float) -> list[int]:
    """Return the ordinals of the files that have not expired and whose attributes pass a filter."""
    valid = [(ordinal, file.attributes) for ordinal, file in files.items() if now < file.expires]
    return [ordinal for ordinal, attributes in valid if condition is None or condition.passes(attributes)]
