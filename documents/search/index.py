"""Interface of search indexes of vector stores, with its queries and results.

An index is derived from a store of passages and can be lost: its user brings it up to date, by the change number of the
store that the index is at, before each search.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from documents.content import Passage
from documents.search.filters import AttributeValue, Filter
from documents.search.vectors import Matrix


@dataclass(frozen=True)
class IndexedFile:
    """A file as an index has it."""

    key: str
    """Id of the file in the index's vector store."""
    name: str
    attributes: Mapping[str, AttributeValue]
    passages: str
    """Id of the set of the file's passages: another set is other passages."""
    revision: int
    """Revision of the file in the store."""
    expires: float = math.inf
    """Unix time from which on searches don't find the file."""


@dataclass(frozen=True)
class FileContent:
    """A file with its passages, or a part of them, and their vectors in the same order, of length 1."""

    file: IndexedFile
    passages: Sequence[Passage]
    vectors: Matrix
    start: int = 0
    """Number of the first of the passages in the file; of any but 0, they are added to those that the index has."""


@dataclass(frozen=True)
class Question:
    """A text to search for, and its vector by the embedder of the passages; `None`: only words are searched for."""

    text: str
    vector: Sequence[float] | None = None


@dataclass(frozen=True)
class SearchQuery:
    """A query to an index; a passage counts by the question that it fits best."""

    questions: Sequence[Question]
    limit: int = 10
    filter: Filter | None = None
    """Filter on the attributes of the files."""
    threshold: float = 0.0
    """Lowest score of a hit."""
    vector_weight: float = 1.0
    """Weight of the search by vectors; 0: it has no part."""
    word_weight: float = 1.0
    """Weight of the search by words; 0: it has no part."""
    requires_relevance: bool = False
    """Return nothing if the best passages are relevant to none of the questions (`relevance.py`)."""


@dataclass(frozen=True)
class Hit:
    """A passage that a search found. Hits are ordered by a fused score that compares the passages of one search only.

    `score`, from 0 to 1, says how well a passage fits: it is the higher of the cosine to a question and of the share of
    its words, weighted by their rarity, that the passage has.
    """

    file: IndexedFile
    number: int
    """Number of the passage in its file, from 0."""
    passage: Passage
    score: float


@dataclass(frozen=True)
class IndexChanges:
    """Changes of files that an index applies at once, completely or not at all."""

    contents: Sequence[FileContent] = ()
    """Files that are new or have other passages than before, and further parts of such files."""
    renamed: Sequence[IndexedFile] = ()
    """Files whose attributes or names have changed."""
    removed: Sequence[str] = ()
    """Keys of files that are gone; those that the index does not have are ignored."""
    position: int | None = None
    """Change number of the store that the index is at with these changes; `None`: further ones follow."""


class SearchIndex(Protocol):
    """Interface of the search index of one vector store. Methods block, and may be called by several threads."""

    @property
    def position(self) -> int:
        """Change number of the store that the index is at; 0: a new index."""
        ...

    @property
    def files(self) -> Mapping[str, IndexedFile]:
        """Files of the index, by key."""
        ...

    def apply(self, changes: IndexChanges) -> None:
        """Apply changes of files, so that every later search sees them."""
        ...

    def search(self, query: SearchQuery) -> list[Hit]:
        """Return the passages that fit best, at most `query.limit`."""
        ...

    def erase_remains(self) -> None:
        """Erase what removed passages have left in the index's files, if anything."""
        ...

    def close(self) -> None:
        """Close the index's files; it can't be used any more."""
        ...
