"""Reads data sets of retrieval in BEIR's layout: documents, queries, and which documents answer which queries.

A folder has `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and `qrels/SPLIT.tsv` (query,
document, grade). Queries may have `metadata`: `language`, `kind` (`answerable`, `near miss`, `unanswerable`),
`wording`, `answers` (a list of `document` and `quote`), and `split`, which an unanswerable query needs, as it has no
grades.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNANSWERABLE, NEAR_MISS = "unanswerable", "near miss"
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class CorpusDocument:
    """A document of a data set; its text is Markdown or plain text."""

    id: str
    title: str
    text: str

    @property
    def markdown(self) -> str:
        """The document as a file, with its title as the first heading."""
        return f"# {self.title}\n\n{self.text}\n" if self.title else f"{self.text}\n"


@dataclass(frozen=True)
class Answer:
    """A quotation of a document that answers a query."""

    document: str
    quote: str


@dataclass(frozen=True)
class Query:
    """A question, and what answers it."""

    id: str
    text: str
    grades: Mapping[str, int]
    """Grades of the documents that answer the query, above 0, by id."""
    answers: Sequence[Answer] = ()
    """Quotations that answer it; none where the data set has only grades."""
    kind: str = "answerable"
    language: str = ""
    wording: str = ""
    """`same` or `other`: whether the query has the words of its answer."""

    @property
    def is_answerable(self) -> bool:
        """Whether a document of the data set answers the query."""
        return self.kind != UNANSWERABLE

    @property
    def can_lose_documents(self) -> bool:
        """Whether the query is unanswerable without the documents of its grades: others have no similar answer."""
        return self.is_answerable and self.kind != NEAR_MISS

    def is_answered_by(self, document: str, text: str) -> bool:
        """Return whether a passage with this text, of this document, answers the query."""
        if not self.answers:
            return document in self.grades
        words = normalised(text)
        return any(each.document == document and normalised(each.quote) in words for each in self.answers)


@dataclass(frozen=True)
class DataSet:
    """Documents, and the queries of each split."""

    name: str
    documents: Sequence[CorpusDocument]
    queries: Mapping[str, Sequence[Query]] = field(default_factory=dict)


def read(folder: Path) -> DataSet:
    """Read the data set in `folder`."""
    documents = [
        CorpusDocument(line["_id"], line.get("title") or "", line["text"]) for line in _lines(folder / "corpus.jsonl")
    ]
    grades = {path.stem: _grades(path) for path in sorted((folder / "qrels").glob("*.tsv"))}
    queries: dict[str, list[Query]] = {split: [] for split in grades}
    for line in _lines(folder / "queries.jsonl"):
        metadata = line.get("metadata") or {}
        for split, of_split in grades.items():
            of_query = of_split.get(line["_id"], {})
            unanswerable = metadata.get("kind") == UNANSWERABLE and metadata.get("split") == split
            if of_query or unanswerable:
                queries[split].append(_query(line, metadata, of_query))
    return DataSet(folder.resolve().name, documents, queries)


def normalised(text: str) -> str:
    """Return the words of a text in lower case, with a space before, between and after them."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def _query(line: Mapping[str, Any], metadata: Mapping[str, Any], grades: Mapping[str, int]) -> Query:
    return Query(
        line["_id"],
        line["text"],
        grades,
        [Answer(each["document"], each["quote"]) for each in metadata.get("answers", ())],
        metadata.get("kind", "answerable"),
        metadata.get("language", ""),
        metadata.get("wording", ""),
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _grades(path: Path) -> dict[str, dict[str, int]]:
    """Return the grades above 0 of a split, by query and document."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file, delimiter="\t")
        next(lines)  # names of the columns
        for query, document, grade in lines:
            if int(grade) > 0:
                found[query][document] = int(grade)
    return dict(found)
