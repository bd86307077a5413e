"""Entries of a response's log: the deltas of its jobs, and what file searches between them have found.

Output and state of a response follow from the entries alone, so that another process goes on where the log ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from documents.content import Passage
from documents.search.index import Hit, IndexedFile
from gateway.vector_stores.search import SearchHit
from router.messages import Delta, Usage, UsagePart
from stored_objects.objects.records import RECORD_BYTES


class LoggedPassage(msgspec.Struct, frozen=True):
    """A passage that a file search has found, as a log keeps it: with what prompts and answers show of its file."""

    store: str
    file: str
    """Id of the file."""
    name: str
    attributes: dict[str, str | float | bool]
    number: int
    """Number of the passage in its file, from 0."""
    passage: Passage
    score: float

    @classmethod
    def of(cls, found: SearchHit) -> LoggedPassage:
        """Return the entry of a hit."""
        hit = found.hit
        attributes = dict(hit.file.attributes)
        return cls(found.store, found.file, hit.file.name, attributes, hit.number, hit.passage, hit.score)

    @property
    def hit(self) -> SearchHit:
        """The passage as a hit of a search."""
        file = IndexedFile(self.file, self.name, self.attributes, passages="", revision=0)
        return SearchHit(self.store, self.file, Hit(file, self.number, self.passage, self.score))


class SearchBegun(msgspec.Struct, frozen=True, tag_field="k", tag="search_begun"):
    """The beginning of a file search for `queries`."""

    queries: list[str]


class SearchEnded(msgspec.Struct, frozen=True, tag_field="k", tag="search_ended"):
    """The end of the file search that began last; `shown`: the response's item shows what was found."""

    found: list[LoggedPassage]
    parts: list[UsagePart]
    """What the jobs of the search have used, by model."""
    shown: bool

    @property
    def results(self) -> list[dict[str, Any]] | None:
        """The passages as the response's item shows them; `None`: it does not."""
        return [each.hit.as_result() for each in self.found] if self.shown else None


class JobBegun(msgspec.Struct, frozen=True, tag_field="k", tag="job_begun"):
    """The submission of a job of the model after a search; its deltas follow."""

    sources: list[dict[str, Any]]
    """The passages in the job's prompt, which its text cites by their numbers from 1."""
    room: int
    """Most tokens of passages in the prompt."""


class JobEnded(msgspec.Struct, frozen=True, tag_field="k", tag="job_ended"):
    """The end of a job of the model; without `queries` its answer is that of the response."""

    usage: Usage
    parts: list[UsagePart]
    """What the job's steps and the moderation have used."""
    queries: list[str]
    """Queries of the file searches that the model has called for."""


Entry = Delta | SearchBegun | SearchEnded | JobBegun | JobEnded
"""An entry of a response's log."""

_ENTRIES = msgspec.json.Decoder(list[Entry])


def encoded(entries: Sequence[Entry]) -> bytes:
    """Encode the entries of a group, the deltas without the ids of their job and attempt."""
    return msgspec.json.encode([_without_ids(each) if isinstance(each, Delta) else each for each in entries])


def decoded(group: bytes) -> list[Entry]:
    """Decode the entries of a group."""
    return _ENTRIES.decode(group)


def group_bytes(group: bytes) -> int:
    """Return the bytes that count towards quotas for one group of a log."""
    return len(group) + RECORD_BYTES


def _without_ids(delta: Delta) -> Delta:
    return msgspec.structs.replace(delta, job_id="", attempt_id="")
