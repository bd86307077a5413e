"""A process's memory is moved into huge pages where the system permits it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runtime import huge_pages
from runtime.huge_pages import HUGE_PAGE, use_huge_pages

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")

MOVING = """
from runtime.huge_pages import use_huge_pages
kept = [b"%d" % number for number in range(1_000_000)]
moved = use_huge_pages()
lines = open("/proc/self/smaps").read().splitlines()
print(moved, sum(1024 * int(line.split()[1]) for line in lines if line.startswith("AnonHugePages:")))
"""


@pytest.mark.skipif(not SETTING.exists() or "[never]" in SETTING.read_text(), reason="the system has no huge pages")
def test_what_a_process_keeps_is_moved() -> None:
    output = subprocess.run([sys.executable, "-c", MOVING], capture_output=True, text=True, check=True).stdout
    moved, huge = map(int, output.split())
    if not moved:
        pytest.skip("the system has no free huge pages, or is older than Linux 6.1")
    assert moved % HUGE_PAGE == 0
    assert huge >= moved


def test_nothing_is_moved_where_the_operator_wants_no_huge_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = tmp_path / "enabled"
    setting.write_text("always madvise [never]\n")
    monkeypatch.setattr(huge_pages, "_SETTING", setting)
    assert use_huge_pages() == 0


def test_full_anonymous_mappings_are_moved_in_whole_pages() -> None:
    smaps = "\n".join(
        [
            *_mapping("1ff000-a01000 rw-p 00000000 00:00 0                          [heap]", 6000),
            *_mapping("c00000-1000000 rw-p 00000000 00:00 0 ", 4096),
            *_mapping("2000000-2400000 rw-p 00000000 00:00 0 ", 100),  # hardly used, as a stack
            *_mapping("3000000-3400000 r-xp 00000000 00:00 0 ", 4096),
            *_mapping("4000000-4400000 rw-p 00000000 fe:00 77                         /usr/lib/libc.so", 4096),
            *_mapping("5000000-5100000 rw-p 00000000 00:00 0 ", 1024),  # smaller than a huge page
        ]
    )
    assert list(huge_pages._filled_mappings(smaps)) == [(0x200000, 0xA00000), (0xC00000, 0x1000000)]


def _mapping(header: str, resident: int) -> list[str]:
    return [header, "Size:               4096 kB", f"Rss:                {resident} kB", "VmFlags: rd wr mr mw me ac"]
