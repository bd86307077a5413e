"""Response models of collections of documents, which are vector stores, and of their files and passages."""

from __future__ import annotations

from typing import Literal

from chat_ui.http.schemas.base import Schema


class Collection(Schema):
    """A collection of documents that questions are answered from. Times are Unix seconds."""

    id: str
    name: str
    scope: Literal["person", "project", "organisation"]
    """Whose the collection is."""
    person: str | None
    """Name of the person whose collection it is, if that is another person."""
    may_change: bool
    """Whether the person may rename, fill, share and delete the collection."""
    is_shared: bool
    """Whether others than its owner read it."""
    created: int
    in_progress: int
    """Number of files that are being read."""
    completed: int
    """Number of files that can be searched."""
    failed: int
    """Number of files that could not be read."""
    size: int
    """Bytes of the passages and their vectors."""


class CollectionList(Schema):
    """A page of the collections that the person may read, the newest first."""

    collections: list[Collection]
    has_more: bool


class PersonReader(Schema):
    """A person whom a collection is shared with."""

    id: str
    name: str
    email: str


class CollectionReaders(Schema):
    """Who reads a collection beside the person whose it is."""

    project: bool
    """Whether all people and API keys of the project do."""
    organisation: bool
    """Whether all people and API keys of the organisation do."""
    people: list[PersonReader]


class CollectionFile(Schema):
    """A file of a collection."""

    id: str
    name: str
    created: int
    state: Literal["in_progress", "completed", "failed", "cancelled"]
    problem: str | None
    """Code of the reason why the file could not be read."""
    reason: str | None
    """The reason in English."""
    warning: str | None
    """What was not read of the file, such as scanned pages, in English."""


class CollectionFiles(Schema):
    """A page of the files of a collection, the newest first."""

    collection: Collection
    files: list[CollectionFile]
    has_more: bool


class FoundPassage(Schema):
    """A passage that a search has found."""

    file: str
    """Id of the file."""
    name: str
    """Name of the file."""
    number: int
    """Number of the passage in its file, from 0."""
    text: str
    page: int | None
    """Page or slide that the passage begins on, from 1; null in a format without pages."""
    heading_path: list[str]
    """Headings above the passage, the outermost first."""
    score: float
    """How well the passage fits, from 0 to 1."""


class FoundPassages(Schema):
    """The passages that fit a question best, the best first."""

    passages: list[FoundPassage]


class DocumentPassage(Schema):
    """A passage of a document. `start` and `end` are offsets in the document's text, in Unicode characters."""

    number: int
    text: str
    """The document's text from `start` to `end`."""
    start: int
    end: int
    page: int | None
    heading_path: list[str]


class DocumentPassages(Schema):
    """Consecutive passages of a document, neighbours of which may overlap."""

    collection: str
    """Name of the collection."""
    name: str
    """Name of the file."""
    passages: list[DocumentPassage]
    has_more: bool
    """Whether passages follow."""


class OwnerlessCollection(Schema):
    """A collection of a person who is no member of the organisation any more."""

    id: str
    name: str
    person: str
    """E-mail address of the person whose it was; else the user's id."""
    created: int
    files: int
    """Number of its files."""
    size: int
    """Bytes that are counted for it."""


class OwnerlessCollections(Schema):
    """A page of the collections of people who have left, the newest first."""

    collections: list[OwnerlessCollection]
    has_more: bool
