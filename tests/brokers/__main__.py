"""Run the tests that need RabbitMQ on several versions of it (`make test-brokers`).

`python -m tests.brokers [RELEASE ...]` runs contract tests, fault injection, bills, the launcher and a short chaos run
on private nodes of this machine's version (`installed`) and of those of Debian releases. With `--publish` the results
are written to `docs/brokers.json` and to the table of versions in `docs/reliability.md`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.platform_stack import INSTALLED
from benchmarks.results import own_versions
from infra.install.step import ROOT
from tests.brokers import debian_release, report
from tests.chaos.published_table import rabbitmq_version

INSTALLED_VERSION = "installed"
RELEASES = (INSTALLED_VERSION, "trixie", "sid")
"""This machine's RabbitMQ, and Debian releases with RabbitMQ 4.0 and 4.3."""


def main() -> int:
    """Install each release, run the tests on it, and return 1 if a test failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.brokers")
    parser.add_argument("releases", nargs="*", default=RELEASES, help=f"by default: {', '.join(RELEASES)}")
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    rows, path = [], os.environ["PATH"]
    for name in arguments.releases:
        if name != INSTALLED_VERSION:
            print(f"{name}: installing", flush=True)
            os.environ["PATH"] = f"{debian_release.install(name, INSTALLED / 'brokers' / name)}:{path}"
        rows.append(_run())
        os.environ["PATH"] = path
        print(report.TABLE.table(rows[-1:]), flush=True)
        if arguments.publish:
            report.TABLE.publish(rows[-1:])
    return 1 if any(row.failed for row in rows) else 0


def _run() -> report.Row:
    with TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-m", "rabbitmq", f"--junit-xml={results}", "tests"]
        subprocess.run(command, cwd=ROOT, env=os.environ | {"CI": "true"}, check=False)
        suite = ElementTree.parse(results).getroot()[0]
    count = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    return report.Row(
        rabbitmq=rabbitmq_version(),
        erlang=_erlang_version(),
        commit=own_versions()["commit"],
        passed=count["tests"] - failed - count["skipped"],
        failed=failed,
    )


def _erlang_version() -> str:
    program = "io:put_chars(erlang:system_info(otp_release)), halt()."
    return subprocess.run(["erl", "-noshell", "-eval", program], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    raise SystemExit(main())
