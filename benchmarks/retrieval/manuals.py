"""`python -m benchmarks.retrieval.manuals UNPACKED FOLDER`: makes a data set in BEIR's layout of Debian's manuals.

`UNPACKED` has the Debian packages `debian-faq` and `debian-handbook` (`apt-get download`, `dpkg -x PACKAGE UNPACKED`).
Each section of the FAQ and of the handbook in English and in Polish is a document without its heading; the heading is
the query that it answers. Sections that are not translated are left out, and so are short ones and headings of one or
two words, which many sections would answer. The split is `test`, as nothing was tuned on these queries.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from documents.search.question_language import Language, language_of

NAME = "debian-manuals"
DOCUMENTATION = Path("usr", "share", "doc")
MANUALS: Sequence[tuple[str, Language, str]] = (
    ("faq", "en", "debian/FAQ/*.en.html"),
    ("handbook", "en", "debian-handbook/html/en-US/sect.*.html"),
    ("handbook", "pl", "debian-handbook/html/pl-PL/sect.*.html"),
)
"""Manuals: name, language, and pages."""
MIN_WORDS = 3
"""Words of a heading that is a query, at least."""
MIN_CHARACTERS = 200
"""Characters of a section that is a document, at least."""
_NUMBER = re.compile(r"^[\d.]+\s+")
_LEFT_OUT = {"script", "style", "title", "h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = {"p", "div", "li", "pre", "tr", "dt", "dd", "ul", "ol", "dl", "table", "blockquote"}


@dataclass(frozen=True)
class Section:
    """A section of a manual, without the sections in it."""

    manual: str
    language: Language
    heading: str
    text: str


def sections(page: bytes, manual: str, language: Language) -> Iterator[Section]:
    """Yield the sections of a page of HTML as DocBook's style sheets write it."""
    root = etree.fromstring(page, etree.HTMLParser(encoding="utf-8", remove_comments=True))
    for element in root.iter("div"):
        if element.get("class") != "section":
            continue
        heading = next((each for each in element.iter("h2", "h3", "h4") if each.get("class") == "title"), None)
        if heading is not None:
            name = _NUMBER.sub("", " ".join("".join(heading.itertext()).split()))
            paragraphs = (" ".join(each.split()) for each in "".join(_texts(element)).split("\0"))
            yield Section(manual, language, name, "\n\n".join(filter(None, paragraphs)))


def usable(found: Sequence[Section]) -> list[Section]:
    """Return the sections with a heading that is a query of its own and with enough text in their language."""
    times = Counter(each.heading.lower() for each in found)
    return [
        each
        for each in found
        if times[each.heading.lower()] == 1
        and len(each.heading.split()) >= MIN_WORDS
        and len(each.text) >= MIN_CHARACTERS
        and language_of(each.text) == each.language
    ]


def write(folder: Path, found: Sequence[Section]) -> None:
    """Write sections as a data set: `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    named = [(f"{each.manual}-{each.language}-{number}", each) for number, each in enumerate(found, 1)]
    corpus = [{"_id": id, "title": "", "text": each.text} for id, each in named]
    queries = [{"_id": f"q-{id}", "text": each.heading, "metadata": {"language": each.language}} for id, each in named]
    for name, lines in (("corpus", corpus), ("queries", queries)):
        written = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(written, encoding="utf-8")
    grades = "".join(f"q-{id}\t{id}\t1\n" for id, _ in named)
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{grades}", encoding="utf-8")


def _texts(element: etree._Element, *, inner: bool = False) -> Iterator[str]:
    """Yield the texts of a section, with a null character around each block; without headings and cross-references.

    A cross-reference has the heading of another section, and a section in this one is a document of its own.
    """
    name, kind = str(element.tag), element.get("class") or ""
    if name not in _LEFT_OUT and kind not in ("xref", "toc") and not (inner and kind == "section"):
        edge = "\0" if name in _BLOCKS else ""
        yield edge + (element.text or "")
        for child in element:
            yield from _texts(child, inner=True)
        yield edge
    if inner:
        yield element.tail or ""


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.retrieval.manuals`: write the data set of unpacked Debian packages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval.manuals", description=__doc__)
    parser.add_argument("unpacked", type=Path, help="folder with the files of debian-faq and debian-handbook")
    parser.add_argument("folder", type=Path, help=f"folder of the data set, by convention named {NAME}")
    arguments = parser.parse_args(words)
    found = [
        section
        for manual, language, pages in MANUALS
        for path in sorted((arguments.unpacked / DOCUMENTATION).glob(pages))
        for section in sections(path.read_bytes(), manual, language)
    ]
    kept = usable(found)
    write(arguments.folder, kept)
    print(json.dumps(Counter(f"{each.manual} {each.language}" for each in kept)))


if __name__ == "__main__":
    main()
