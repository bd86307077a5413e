"""Moves a started process's memory into huge pages, so that its requests take about a twentieth less CPU time.

Between two requests other processes use the processor, and what it knows of this one's pages is gone: it then looks up
each page again, in a virtual machine in two tables. A huge page of Linux replaces 512 others. Where programs choose
(`madvise` in /sys/kernel/mm/transparent_hugepage/enabled, the default of most distributions), Python does not.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

HUGE_PAGE = 2 * 1024 * 1024
MOST_BYTES = 128 * 1024 * 1024
"""Most bytes that are moved, in a third of a second of a processor: more than a gateway has, less than a model."""
FILLED_SHARE = 0.5
"""Share of a mapping that has to be in use: stacks of threads would become larger."""

_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MAPPINGS = Path("/proc/self/smaps")
_HEADER = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(\[heap\])?")
"""First line of a private mapping that can be written and is of no file; the heap is the only one with a name."""
_MADV_COLLAPSE = 25


def use_huge_pages() -> int:
    """Move the memory that this process has now into huge pages; return how many bytes of mappings were moved.

    0 where Linux can't (before 6.1) or the operator does not want it (`never`). Another thread may call it: only what
    touches the memory meanwhile waits.
    """
    if not _SETTING.exists() or "[never]" in _SETTING.read_text():
        return 0
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    moved = 0
    for begin, end in _filled_mappings(_MAPPINGS.read_text()):
        size = min(end - begin, MOST_BYTES - moved)
        if size > 0 and madvise(begin, size, _MADV_COLLAPSE) == 0:
            moved += size
    return moved


def _filled_mappings(smaps: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end, as multiples of a huge page, of the mappings of no file of which enough is in use."""
    begin = end = 0
    for line in smaps.splitlines():
        if line.startswith("Rss:"):
            if end > begin and int(line.split()[1]) * 1024 >= FILLED_SHARE * (end - begin):
                yield begin, end
            begin = end = 0
        elif (header := _HEADER.fullmatch(line)) is not None:
            begin = -(-int(header[1], 16) // HUGE_PAGE) * HUGE_PAGE
            end = int(header[2], 16) // HUGE_PAGE * HUGE_PAGE
