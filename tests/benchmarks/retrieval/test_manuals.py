from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.retrieval.data_set import read
from benchmarks.retrieval.manuals import main

FILLER = "You can read about it in the documents that are on this system, and you should do so before you ask. " * 3
POLISH = "Jest to opisane w dokumentach, które są w tym systemie, i należy je przeczytać, zanim się o to zapyta. " * 3


def section(number: str, heading: str, body: str) -> str:
    return (
        '<div class="section"><div class="titlepage"><h2 class="title">'
        f'<a id="s{number}"></a>{number}. {heading}</h2></div>{body}</div>'
    )


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    inner = section("1.2", "Where are the logs?", f"<p>In /var/log.</p><p>{FILLER}</p>")
    reference = '<a class="xref" href="x">Section 1.2, “Where are the logs?”</a>'
    pages = {
        "debian/FAQ/a.en.html": section(
            "1.1", "How do I\n begin?", f"<p>Begin <b>h</b>ere. {reference}</p>{FILLER}{inner}"
        )
        + section("1.3", "Short headings", FILLER)
        + section("1.4", "Why is this short?", "Because."),
        "debian-handbook/html/en-US/sect.a.html": section("2", "Files of the system", FILLER),
        "debian-handbook/html/pl-PL/sect.a.html": section("2", "Pliki i katalogi systemu", POLISH)
        + section("3", "Nieprzetłumaczona część książki", FILLER),
    }
    for name, text in pages.items():
        path = tmp_path / "usr" / "share" / "doc" / name
        path.parent.mkdir(parents=True)
        path.write_text(f'<?xml version="1.0" encoding="UTF-8"?><html><body>{text}</body></html>', encoding="utf-8")
    return tmp_path


def test_sections_are_documents_and_their_headings_queries(unpacked: Path, tmp_path: Path) -> None:
    main([str(unpacked), str(tmp_path / "made")])
    data = read(tmp_path / "made")
    queries = data.queries["test"]
    assert [(each.text, each.language) for each in queries] == [
        ("How do I begin?", "en"),
        ("Where are the logs?", "en"),
        ("Files of the system", "en"),
        ("Pliki i katalogi systemu", "pl"),
    ]
    assert [dict(each.grades) for each in queries] == [{each.id: 1} for each in data.documents]
    first, second = (each.text for each in data.documents[:2])
    assert first.startswith("Begin here.\n\nYou can read")
    assert second.startswith("In /var/log.\n\nYou can read")
    assert all("Where are the logs" not in each.text for each in data.documents)
