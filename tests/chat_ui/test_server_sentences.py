"""The page has texts for every sentence in the code on files that were not read and on lines that a batch refuses."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from documents.content import NO_TEXT
from documents.parsing import recognition, scans
from gateway.batches import input_lines
from gateway.vector_stores import file_import
from runtime.sandbox import exchange

ROOT = Path(__file__).parents[2]
CATALOGUE = ROOT / "chat_ui/web/src/ui/messages/en/server_sentences.ts"
SOURCES = (
    *sorted((ROOT / "documents").rglob("*.py")),
    *(Path(str(module.__file__)) for module in (file_import, input_lines, exchange)),
    ROOT / "gateway/batches/batch_run.py",
)
SPEAKERS = frozenset({
    "BatchError", "DamagedFile", "EncryptedFile", "FileTooLarge", "ImportFailure", "LimitExceeded", "LineRefused",
    "Refused", "TesseractUnavailable", "UnsupportedFormat", "_Failed", "warn",
})  # fmt: skip
"""Functions and classes one of whose arguments is a sentence for people, or a part of one."""
FRAGMENTS = (
    *(name for _, name in recognition._UNREAD),
    *(scans._NO_TEXT, scans._UNCLEAR, scans._SLOW, scans._LATE, scans._LARGE),
    *("page 3", "pages 1-4, 7", NO_TEXT, "The embedding model does not answer."),
    "Recognising the text of its images failed.",
    "Recognising the text of its images takes more memory than it may.",
)
CODES = re.compile(r"[a-z_]+")


def patterns() -> list[re.Pattern[str]]:
    lines = re.findall(r'^  \w+: (".*"),$', CATALOGUE.read_text(), re.MULTILINE)
    return [re.compile(re.escape(json.loads(each)).replace(r"\{\}", "(.+?)")) for each in lines]


def text_of(node: ast.expr, names: dict[str, ast.expr]) -> str | None:
    """A sentence of an expression with a number for each value; `None` if it is no text."""
    match node:
        case ast.Name(name) if name in names:
            return text_of(names[name], {})
        case ast.Constant(str(text)):
            return text
        case ast.FormattedValue(ast.IfExp(body=ast.Constant(str(text)))):
            return text
        case ast.FormattedValue():
            return "7"
        case ast.JoinedStr(parts):
            return "".join(text_of(part, names) or "" for part in parts)
    return None


def sentences(source: Path) -> Iterator[str]:
    tree = ast.parse(source.read_text())
    names = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called in SPEAKERS:
                yield from filter(None, (text_of(each, names) for each in node.args[:2]))


@pytest.mark.parametrize("source", SOURCES, ids=lambda each: each.name)
def test_the_page_knows_every_sentence(source: Path) -> None:
    known = patterns()
    for text in sentences(source):
        for sentence in re.split(r"(?<=\.) (?=[A-Z])", text):
            # Codes of errors and names of fields are arguments too.
            is_code = CODES.fullmatch(sentence) is not None and source.name != "exchange.py"
            assert is_code or any(each.fullmatch(sentence) for each in known), f"{CATALOGUE.name} lacks {sentence!r}"


def test_the_page_knows_what_sentences_are_made_of() -> None:
    known = patterns()
    assert len(known) > len(FRAGMENTS)
    assert [each for each in FRAGMENTS if not any(pattern.fullmatch(each) for pattern in known)] == []
    found = [text for source in SOURCES for text in sentences(source)]
    assert len(found) > 50, "the code's sentences are not found any more"
