"""Run background responses through storms of kills: twice with a counting engine, once with the real model.

`python -m tests.takeovers [counting ...] [real ...]`. `CHAOS_RESPONSES` (200; 24 with the real model) is the number of
responses, `CHAOS_KILLS` (20; 10) that of kills, which are at least 3 s (6 s) apart.

With `--publish` the figures are written to `docs/background-takeovers.json` and `docs/reliability.md`, else only
printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections import Counter
from pathlib import Path
from tempfile import gettempdir

from tests.takeovers import report
from tests.takeovers.storm import Plan, storm


def plan_of(workers: str) -> Plan:
    """Return the plan of a storm with workers that count (`counting`) or serve the real model (`real`)."""
    real = workers == "real"
    responses = int(os.environ.get("CHAOS_RESPONSES", "24" if real else "200"))
    kills = int(os.environ.get("CHAOS_KILLS", "10" if real else "20"))
    return Plan(responses, kills, every=6.0 if real else 3.0, tokens=(40, 240), real=real)


def main() -> int:
    """Run, show, and return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.takeovers")
    parser.add_argument("workers", nargs="*", help="counting, real; by default counting twice, then real")
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    keep = Path(gettempdir()) / f"headrace-takeovers-kept-{int(time.time())}"
    runs: Counter[str] = Counter()
    wrong = 0
    for workers in arguments.workers or ["counting", "counting", "real"]:
        if workers not in ("counting", "real"):
            parser.error(f"no workers {workers}; there are counting and real")
        runs[workers] += 1
        outcome = asyncio.run(storm(plan_of(workers), _say, keep / f"{workers}-{runs[workers]}"))
        row = report.row_of(outcome, runs[workers])
        if arguments.publish:
            report.TABLE.publish([row])
        wrong += len(outcome.wrong)
        print("\n".join(outcome.wrong[:20]))
        print(report.TABLE.table([row]), flush=True)
    print(f"{wrong} faults; logs are in {keep}")
    return 1 if wrong else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
