"""Size of the files that a browser loads before the chat can be used."""

from __future__ import annotations

import gzip
import re

import pytest

from tests.chat_ui.conftest import DIST

MAX_BYTES = 300_000


def test_first_load_is_under_300_kilobytes_compressed() -> None:
    """Counts the files that `index.html` names; scripts load the others on demand."""
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    page = (DIST / "index.html").read_text()
    named = re.findall(r'(?:src|href)="/([^"]+)"', page)
    assert any(name.endswith(".js") for name in named)
    assert any(name.endswith(".css") for name in named)
    sizes = {name: len(gzip.compress((DIST / name).read_bytes())) for name in ["index.html", *named]}
    assert sum(sizes.values()) < MAX_BYTES, sizes


def test_highlighter_and_latex_are_not_in_the_first_load() -> None:
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    page = (DIST / "index.html").read_text()
    later = [
        file.name for file in (DIST / "assets").glob("*.js") if file.name.startswith(("mathml-", "highlight_code-"))
    ]
    assert len(later) == 2
    assert not [name for name in later if name in page]
