"""Writes the numbers of pages in sentences for people."""

from __future__ import annotations

NAMED_PAGES = 8
"""Pages, or ranges of them, that a sentence names."""


def page_names(numbers: list[int]) -> str:
    """Return `page 3` or `pages 1-4, 7`, with the first ones if there are many."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    names = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:NAMED_PAGES]]
    more = [] if len(ranges) <= NAMED_PAGES else ["..."]
    return f"page{'s' if len(numbers) > 1 else ''} {', '.join([*names, *more])}"
