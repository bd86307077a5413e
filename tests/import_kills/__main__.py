"""Import files into a vector store while processes are killed, 20 times (`CHAOS_KILLS`), by a seed (`CHAOS_SEED`, 1).

With `--publish` the figures are written to `docs/import-kills.json` and `docs/reliability.md`, else only printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from pathlib import Path
from tempfile import gettempdir

from tests.import_kills import report
from tests.import_kills.storm import Plan, storm


def main() -> int:
    """Run, show, and return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.import_kills")
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    keep = Path(gettempdir()) / f"headrace-imports-kept-{int(time.time())}"
    kills, seed = int(os.environ.get("CHAOS_KILLS", "20")), int(os.environ.get("CHAOS_SEED", "1"))
    outcome = asyncio.run(storm(Plan(kills, files=4, pause=3.0, seed=seed), _say, keep))
    rows = [report.row_of(outcome)]
    if arguments.publish:
        report.TABLE.publish(rows)
    print("\n".join(outcome.wrong[:20]))
    print(report.TABLE.table(rows))
    print(f"{len(outcome.wrong)} faults; logs are in {keep}")
    return 1 if outcome.wrong else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
