"""Run client libraries' own tests against the gateway (`make test-client-suites`).

`python -m tests.suites [SUITE ...]`, by default all. With `--publish` the results are written to
`docs/client-test-suites.json` and to the page of the same name, else only printed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging

import structlog

from tests.suites import anthropic_python, langchain_chat, openai_python, report
from tests.suites.record import TestRecord, Verdict
from tests.suites.run import run
from tests.suites.suite import Suite

SUITES = {each.name: each for each in (openai_python.SUITE, anthropic_python.SUITE, langchain_chat.SUITE)}


def main() -> int:
    """Run the suites, and return 1 if a test failed for a reason that is not among the suite's refusals."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites")
    parser.add_argument("suites", nargs="*", default=list(SUITES), help=", ".join(SUITES))
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    failed = 0
    for name in arguments.suites:
        suite = SUITES[name]
        environment = suite.environment()
        records = asyncio.run(run(suite, environment))
        result = report.result_of(suite, environment.version, records)
        print(report.section(result), *failures(suite, records), sep="\n", flush=True)
        failed += len(failures(suite, records))
        if arguments.publish:
            report.publish(result)
    return 1 if failed else 0


def failures(suite: Suite, records: list[TestRecord]) -> list[str]:
    """Return a line for each test that failed, and for each expected refusal that no test met."""
    lines = [
        f"{each.name}: {each.unexpected(suite.expected) or each.unknown_answered or each.reason}"
        for each in records
        if suite.verdict(each) is Verdict.FAILED
    ]
    met = {(refusal.route, refusal.field) for each in records for refusal in each.refusals}
    expected = {(route, field) for route, fields in suite.expected.items() for field in fields}
    return lines + [f"{route}: no test is refused for {field!r} any more" for route, field in sorted(expected - met)]


if __name__ == "__main__":
    raise SystemExit(main())
