"""Kill processes of assistants' answers `HEADRACE_TEST_KILLS` (20) times in each phase.

`python -m tests.kills [VICTIM ...]`, by default all of `run.VICTIMS`.

With `--publish` the figures are written to `docs/assistant-kills.json` and `docs/reliability.md`, else only printed.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os

from tests.kills import report
from tests.kills.run import VICTIMS, killed


def main() -> int:
    """Run, show, and return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills")
    parser.add_argument("victims", nargs="*", default=list(VICTIMS), help=", ".join(VICTIMS))
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no round later")
    arguments = parser.parse_args()
    times, seconds = int(os.environ.get("HEADRACE_TEST_KILLS", "20")), 60 * arguments.minutes
    if unknown := set(arguments.victims) - VICTIMS.keys():
        parser.error(f"no victim {', '.join(sorted(unknown))}; there are {', '.join(VICTIMS)}")
    kills, wrong = asyncio.run(killed(times, arguments.victims, of_each=2, say=_say, seconds=seconds))
    rows = report.rows_of(kills, arguments.victims, wrong)
    print("\n".join(wrong))
    print(report.TABLE.table(rows))
    if arguments.publish:
        report.TABLE.publish(rows)
    return 1 if wrong else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
