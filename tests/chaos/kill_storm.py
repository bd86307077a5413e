"""Outcome of a storm that kills processes with SIGKILL: what was killed, and what was wrong afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.checker import check_books
from tests.chaos.evidence import Evidence
from tests.chaos.experiment import at_rest, collect
from tests.chaos.stack import Stack

PATIENCE = 600.0
"""Seconds that work may take to end after the last kill."""
REST = 180.0
"""Seconds that the books may take to come to rest: jobs of a killed gateway wait for its lease to run out."""
Say = Callable[[str], None]


@dataclass(kw_only=True)
class StormOutcome:
    """What storms of kills have in common, judged."""

    killed: Counter[str] = field(default_factory=Counter)
    """Number of kills by process."""
    seconds: float = 0.0
    """Duration of the storm, until the last kill."""
    broken: list[str] = field(default_factory=list)
    """What was wrong with the work."""
    misbilled: list[str] = field(default_factory=list)
    """What was wrong with bills and books."""

    @property
    def wrong(self) -> list[str]:
        """All that was wrong."""
        return self.broken + self.misbilled

    async def judge_books(self, stack: Stack) -> Evidence:
        """Wait until the books are at rest, add what is wrong with them and with the logs, and return the evidence."""
        if not await at_rest(stack, REST):
            self.misbilled.append("the books are not at rest")
        evidence = await collect(stack, [], 0)
        self.misbilled += [*map(str, check_books(evidence)), *evidence.leaks]
        return evidence

    def write(self, stack: Stack, folder: Path) -> None:
        """Copy the logs of a platform to a folder, with all that was wrong."""
        folder.mkdir(parents=True, exist_ok=True)
        for log in stack.processes.home.log.glob("*.log*"):
            (folder / log.name).write_bytes(log.read_bytes())
        (folder / "wrong.txt").write_text("\n".join(self.wrong) + "\n")
