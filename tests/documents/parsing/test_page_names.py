"""Numbers of pages in sentences."""

from __future__ import annotations

import pytest

from documents.parsing.page_names import page_names


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3], "page 3"),
        ([1, 2, 3, 7], "pages 1-3, 7"),
        (list(range(1, 16, 2)), "pages 1, 3, 5, 7, 9, 11, 13, 15"),
        (list(range(1, 100, 2)), "pages 1, 3, 5, 7, 9, 11, 13, 15, ..."),
    ],
)
def test_names(numbers: list[int], text: str) -> None:
    assert page_names(numbers) == text
