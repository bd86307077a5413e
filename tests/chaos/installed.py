"""What a platform of processes needs on this machine. Without it tests are skipped locally and fail in CI."""

from __future__ import annotations

import os

import pytest

from benchmarks.platform_stack import INSTALLED
from infra.accounts.embedded_store import PROGRAM
from infra.rabbitmq.node import BrokerNotInstalled, find_program


def skip_unless_installed() -> None:
    """Skips, or fails in CI, without a broker and a store."""
    reason = None if (INSTALLED / PROGRAM).exists() else f"{INSTALLED / PROGRAM} is missing: `make setup`"
    try:
        find_program("rabbitmq-server")
    except BrokerNotInstalled as error:
        reason = str(error)
    if reason is not None:
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


def marks_of_a_run(variable: str, reason: str, *, timeout: int = 600) -> list[pytest.MarkDecorator]:
    """Return the marks of tests of a whole platform that are skipped unless an environment variable is set."""
    needs = [pytest.mark.e2e, pytest.mark.store, pytest.mark.rabbitmq, pytest.mark.timeout(timeout)]
    return [*needs, pytest.mark.skipif(not os.environ.get(variable), reason=reason)]
