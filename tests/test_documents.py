"""Documents name only what is there: files, links, make verbs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = tuple(f"{each.name}/" for each in ROOT.iterdir() if each.is_dir() and not each.name.startswith("."))


def named_paths(text: str) -> list[str]:
    """Paths of this repository between backticks, without those that have a placeholder."""
    quoted = re.findall(r"`([\w./-]+)`", text)
    return [each for each in quoted if each.startswith(ROOMS)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_exist(document: Path) -> None:
    missing = [each for each in named_paths(document.read_text()) if not (ROOT / each).exists()]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text())
    missing = [each for each in links if not (document.parent / each).exists()]
    assert not missing


def test_the_architecture_names_many_files() -> None:
    """The check above would pass on an empty list."""
    assert len(named_paths((ROOT / "ARCHITECTURE.md").read_text())) > 20


def test_make_verbs_in_the_readme_exist() -> None:
    verbs = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / "README.md").read_text()))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert verbs
    assert verbs <= targets
