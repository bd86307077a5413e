"""Import files into a vector store under 20 kills of processes (`CHAOS_KILLS`), drawn by a seed (`CHAOS_SEED`, 1)."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from tempfile import gettempdir

from tests.import_kills.storm import Plan, storm


def main() -> int:
    """Run, show, and return 1 if anything was wrong."""
    keep = Path(gettempdir()) / f"headrace-imports-kept-{int(time.time())}"
    kills, seed = int(os.environ.get("CHAOS_KILLS", "20")), int(os.environ.get("CHAOS_SEED", "1"))
    outcome = asyncio.run(storm(Plan(kills, files=4, pause=3.0, seed=seed), _say, keep))
    print("\n".join(outcome.wrong[:20]))
    print(f"{len(outcome.files)} files, {outcome.blocks} blocks of passages, {outcome.resumed} imports resumed")
    print(f"killed: {dict(sorted(outcome.killed.items()))}")
    print(f"{len(outcome.wrong)} faults; logs are in {keep}")
    return 1 if outcome.wrong else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
