"""A pytest plugin in the process of a foreign test suite: reports each test's beginning and outcome to the proxy.

The suite has a package `tests` of its own, so this module imports nothing of this repository.
"""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

import pytest


def _report(**fields: Any) -> None:
    request = urllib.request.Request(
        os.environ["SUITE_RECORDER"], json.dumps(fields).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        answer.read()


def pytest_runtest_logstart(nodeid: str) -> None:
    """Report that a test begins."""
    _report(test=nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Report the end of a test's call, and what failed or was skipped before or after it."""
    if report.when == "call" or report.outcome != "passed":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        _report(test=report.nodeid, outcome=report.outcome, reason=reason[-2000:])
