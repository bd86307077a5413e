"""Results of client libraries' own tests: `docs/client-test-suites.json`, and the page that shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from benchmarks.results import own_versions
from infra.install.step import ROOT
from tests.chaos.published_table import markdown_table
from tests.suites.record import TestRecord, Verdict
from tests.suites.suite import Suite

RESULTS = ROOT / "docs" / "client-test-suites.json"
PAGE = ROOT / "docs" / "client-test-suites.md"
SHOWN = (
    Verdict.PASSED,
    Verdict.WITHOUT_FIELDS,
    Verdict.REFUSED,
    Verdict.UNREADABLE,
    Verdict.CLIENT_ONLY,
    Verdict.SKIPPED,
    Verdict.FAILED,
)


class FileRow(msgspec.Struct, kw_only=True):
    """Numbers of the tests of one file by verdict."""

    name: str
    verdicts: dict[Verdict, int]


class RefusalRow(msgspec.Struct, kw_only=True):
    """What the gateway refuses of a route's requests; an empty `field`: the whole request."""

    route: str
    field: str
    message: str
    tests: int


class SuiteResult(msgspec.Struct, kw_only=True):
    """The latest run of one suite."""

    suite: str
    version: str
    date: str
    commit: str
    files: list[FileRow]
    refusals: list[RefusalRow]


def result_of(suite: Suite, version: str, records: Sequence[TestRecord]) -> SuiteResult:
    """Return the figures of a run."""
    files: dict[str, Counter[Verdict]] = {}
    refusals: Counter[tuple[str, str, str]] = Counter()
    for record in records:
        files.setdefault(suite.group(record.name), Counter())[suite.verdict(record)] += 1
        refusals.update((each.route, each.field, each.message) for each in record.refusals)
    return SuiteResult(
        suite=suite.name,
        version=version,
        date=datetime.now(UTC).date().isoformat(),
        commit=own_versions()["commit"],
        files=[FileRow(name=name, verdicts=dict(counts)) for name, counts in files.items()],
        refusals=[
            RefusalRow(route=route, field=field, message=message, tests=tests)
            for (route, field, message), tests in sorted(refusals.items())
        ],
    )


def read() -> list[SuiteResult]:
    """Return the published results."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=list[SuiteResult]) if RESULTS.exists() else []


def publish(result: SuiteResult) -> None:
    """Put a result in the place of that of the same suite, in both files."""
    by_name = {each.suite: each for each in [*read(), result]}
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode([*by_name.values()]), indent=1) + b"\n")
    begin, finish = markers(result.suite)
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(f"{before}{begin}\n{section(result)}{finish}{rest.partition(finish)[2]}")


def markers(suite: str) -> tuple[str, str]:
    """Return the lines of the page between which the suite's section is."""
    return f"<!-- {suite}: begin -->", f"<!-- {suite}: end -->"


def section(result: SuiteResult) -> str:
    """Return a suite's section of the page: its run, its tests by file, and what is refused."""
    total = Counter[Verdict]()
    for row in result.files:
        total.update(row.verdicts)
    shown = [verdict for verdict in SHOWN if total[verdict] or verdict is Verdict.FAILED]
    rows = [*result.files, FileRow(name="all", verdicts=dict(total))]
    cells = [[f"`{row.name}`", *(row.verdicts.get(verdict, 0) for verdict in shown)] for row in rows]
    text = f"Version {result.version}, {sum(total.values())} tests, on {result.date} at commit {result.commit}.\n\n"
    text += markdown_table(["tests", *shown], cells)
    if result.refusals:
        refused = [[f"`{each.route}`", _field(each), each.message, each.tests] for each in result.refusals]
        text += "\n" + markdown_table(["request", "refused", "answer", "tests"], refused)
    return text


def _field(row: RefusalRow) -> str:
    return f"`{row.field}`" if row.field else "the request"
