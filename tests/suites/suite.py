"""Defines a suite: the tests of a client library, what they need, and what the gateway refuses of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.scripted_worker import Script
from tests.suites.proxy import Preparation
from tests.suites.record import Expected, TestRecord, Verdict

API_RESOURCES = "tests/api_resources/"
"""Folder of the tests that generated clients have, a file for each resource."""


def resource_of(test: str) -> str:
    """Return the resource of a generated test by its node id, such as `chat/completions`."""
    return test.partition("::")[0].removeprefix(API_RESOURCES).replace("test_", "").removesuffix(".py")


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
