"""Citations in texts: numbers in brackets of passages that were found."""

from __future__ import annotations

import pytest

from gateway.answers.responses.citations import citations

SOURCES = [{"file_id": "file-a", "filename": "a.pdf"}, {"file_id": "file-b", "filename": "b.md"}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes [1].", [(4, "file-a")]),
        ("Both [1, 2] and [2].", [(5, "file-a"), (5, "file-b"), (16, "file-b")]),
        ("None [0] [3] [x] [1234] 1 (2).", []),
        ("", []),
    ],
)
def test_only_numbers_of_passages_are_citations(text: str, expected: list[tuple[int, str]]) -> None:
    assert [(each["index"], each["file_id"]) for each in citations(text, SOURCES)] == expected


def test_an_annotation_names_the_file() -> None:
    assert citations("[2]", SOURCES) == [{"type": "file_citation", "index": 0, "file_id": "file-b", "filename": "b.md"}]
