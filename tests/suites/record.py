"""Records of the tests of a suite: their requests, what the gateway refused of them, and their outcome."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, order=True)
class Refusal:
    """A field of a route's requests that the gateway refused, or the whole request if `field` is empty."""

    route: str
    field: str
    message: str


Expected = Mapping[str, Collection[str]]
"""Fields that the gateway refuses, by route; the empty name stands for the route's whole requests."""


class Verdict(StrEnum):
    """What a test says about the gateway."""

    PASSED = "passed"
    WITHOUT_FIELDS = "passed without refused fields"
    REFUSED = "refused"
    UNREADABLE = "unreadable"
    """The gateway's answer is right, and outside the client's types."""
    CLIENT_ONLY = "client only"
    """The test passed without a request."""
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass
class TestRecord:
    """One test of a suite."""

    name: str
    requests: int = 0
    outcome: str = ""
    """`passed`, `failed` or `skipped`; a failure at any time stays."""
    reason: str = ""
    refusals: set[Refusal] = field(default_factory=set)
    unknown_answered: set[str] = field(default_factory=set)
    """Requests for an object that was never created which the gateway did not answer with 404."""

    __test__ = False

    def unexpected(self, expected: Expected) -> list[Refusal]:
        """Return the refusals that are not among the expected ones."""
        return sorted(each for each in self.refusals if each.field not in expected.get(each.route, ()))

    def verdict(self, expected: Expected, unreadable: Collection[str] = ()) -> Verdict:
        """Judge the test: refusals that are not expected, and answers for objects that do not exist, are failures.

        `unreadable` are beginnings of the names of tests whose answers are outside the client's types.
        """
        if self.outcome == "skipped":
            return Verdict.SKIPPED
        if self.unknown_answered or self.unexpected(expected):
            return Verdict.FAILED
        whole = any(not each.field for each in self.refusals)
        if self.outcome != "passed":
            if self.name.startswith(tuple(unreadable)):
                return Verdict.UNREADABLE
            return Verdict.REFUSED if whole else Verdict.FAILED
        if self.refusals:
            return Verdict.WITHOUT_FIELDS
        return Verdict.PASSED if self.requests else Verdict.CLIENT_ONLY


class Recorder:
    """The records of all tests in the order of their beginnings; the last begun one makes the requests."""

    def __init__(self) -> None:
        self.tests: dict[str, TestRecord] = {}
        self._current = TestRecord("outside of all tests")

    @property
    def current(self) -> TestRecord:
        """The test that runs."""
        return self._current

    def report(self, test: str, outcome: str = "", reason: str = "") -> None:
        """Take what the plugin reports: without an outcome that the test begins."""
        self._current = self.tests.setdefault(test, TestRecord(test))
        if outcome and self._current.outcome != "failed":
            self._current.outcome, self._current.reason = outcome, reason
