"""Checks of sources that no linter makes: words of Python sources outside the tests, and lengths of C++ lines.

No story pronouns, "knows nothing of" formulas or metaphors. The rules are in CONTRIBUTING.md. The limits only go down:
lower them when fewer occurrences are left.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PRONOUNS = r"\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever|[Aa]nybody|[Ee]verybody|[Ww]hatever)\b"
"""Name the process, the request, the client or the key instead."""

KNOW_FORMULA = r"(?i)\b(?:knows (?:nothing|no|neither)|do(?:es)? not know)\b"
"""State the rule ("must not import torch") instead, or leave it out."""

METAPHORS = r"\b(?:Ear|Mouth|_mourn|Mending|Interlude|Strangers|BillingDesk)\b"
"""Former class and function names that a reader of vLLM or RabbitMQ would not understand."""

METAPHOR_FILES = {
    "brought.py",
    "given_text.py",
    "interlude.py",
    "mending.py",
    "office.py",
    "strangers.py",
    "taking_in.py",
    "wear.py",
}

MAX_COLUMNS = 120
"""Longest line of C++ sources, as of Python sources in `pyproject.toml`."""

LIMITS = {PRONOUNS: 5, KNOW_FORMULA: 5, METAPHORS: 0}


def sources() -> list[Path]:
    """Return the Python files outside `tests/`."""
    folders = [each for each in ROOT.iterdir() if each.is_dir() and each.name != "tests" and each.name[0] != "."]
    built = {"node_modules", "dist", "build"}
    return [
        path for each in folders for path in each.rglob("*.py") if not built.intersection(path.relative_to(ROOT).parts)
    ]


def occurrences(pattern: str) -> list[str]:
    """Return every line that matches as `path:line: text`."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for _ in re.findall(pattern, line)
    ]


@pytest.mark.parametrize("pattern", LIMITS, ids=["pronouns", "know formula", "metaphors"])
def test_banned_words(pattern: str) -> None:
    found = occurrences(pattern)
    assert len(found) <= LIMITS[pattern], "\n".join([f"{len(found)} found, {LIMITS[pattern]} allowed:", *found])


def test_banned_file_names() -> None:
    assert not [str(path.relative_to(ROOT)) for path in sources() if path.name in METAPHOR_FILES]


def test_lines_of_cpp_sources_are_no_longer_than_those_of_python() -> None:
    folders = [ROOT / "inference_worker", ROOT / "tests"]
    paths = [path for each in folders for kind in ("*.h", "*.cpp") for path in each.rglob(kind)]
    assert len(paths) > 20
    assert not [
        f"{path.relative_to(ROOT)}:{number}"
        for path in paths
        if "node_modules" not in path.relative_to(ROOT).parts
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if len(line) > MAX_COLUMNS
    ]
