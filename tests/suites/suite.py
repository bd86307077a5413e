"""Defines a suite: the tests of a client library, what they need, and what the gateway refuses of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.scripted_worker import Script
from tests.suites.proxy import Preparation
from tests.suites.record import Expected, TestRecord, Verdict


@dataclass(frozen=True)
class Environment:
    """Where a suite's tests run: a folder, and the Python that has the library."""

    folder: Path
    python: str
    version: str


@dataclass(frozen=True)
class Suite:
    """The tests of a client library."""

    name: str
    environment: Callable[[], Environment]
    """Installs what is missing; raises `SourceUnavailable`."""
    files: Sequence[str]
    """Test files in the environment's folder."""
    script: Script
    """What the model answers."""
    group: Callable[[str], str]
    """Name of the row of a test, by its node id."""
    base: str = "/v1"
    """Path that the client puts before those of its requests, as `TEST_API_BASE_URL` has it."""
    preparations: Mapping[str, Preparation] = field(default_factory=dict)
    expected: Expected = field(default_factory=dict)
    """What the gateway refuses, for reasons that `docs/openai-compatibility.md` gives."""
    unreadable: Sequence[str] = ()
    """Beginnings of the names of tests whose answers are right, and outside the client's types."""

    def verdict(self, record: TestRecord) -> Verdict:
        """Judge a test of the suite."""
        return record.verdict(self.expected, self.unreadable)
