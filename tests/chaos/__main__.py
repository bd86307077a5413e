"""Run chaos configurations (`make chaos`): all, or those named: `python -m tests.chaos [NAME ...]`.

`CHAOS_SECONDS` (180) is the duration of each configuration, `CHAOS_SEED` (1) the seed of its schedule and clients.
With `--publish` the figures are written to `docs/reliability.json` and `docs/reliability.md`, else only printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from pathlib import Path
from tempfile import gettempdir

from tests.chaos import report
from tests.chaos.configurations import CONFIGURATIONS
from tests.chaos.experiment import experiment


def main() -> int:
    """Run, show, and say by the exit status whether all promises were kept."""
    by_name = {each.name: each for each in CONFIGURATIONS}
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("names", nargs="*", help=f"all by default: {', '.join(by_name)}")
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - by_name.keys():
        parser.error(f"no configuration {', '.join(sorted(unknown))}; there are {', '.join(by_name)}")
    seconds, seed = float(os.environ.get("CHAOS_SECONDS", "180")), int(os.environ.get("CHAOS_SEED", "1"))
    keep = Path(gettempdir()) / f"headrace-chaos-kept-{int(time.time())}"
    rows, wrong = [], 0
    for number, name in enumerate(names := arguments.names or list(by_name), start=1):
        print(f"[{number}/{len(names)}] {name}: {by_name[name].about}", flush=True)
        outcome = asyncio.run(experiment(by_name[name], seed, seconds, _say, keep))
        rows.append(report.row_of(outcome))
        if arguments.publish:  # after each configuration, so that an interrupted run keeps its results
            report.TABLE.publish(rows[-1:])
        wrong += len(outcome.violations)
        for violation in outcome.violations[:20]:
            print(f"  VIOLATION {violation}", flush=True)
        print(report.TABLE.table(rows[-1:]), flush=True)
    print(report.TABLE.table(rows))
    print(f"{wrong} promises were broken; logs, histories and verdicts are in {keep}")
    return 1 if wrong else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
