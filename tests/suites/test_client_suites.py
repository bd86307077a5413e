"""No test of a client library fails against the gateway, besides those whose refusal is listed.

With `HEADRACE_TEST_CLIENT_SUITES=1`: the libraries' sources are downloaded, and hundreds of their tests are run.
"""

from __future__ import annotations

import os

import pytest

from tests.suites.__main__ import SUITES, failures
from tests.suites.run import run
from tests.suites.sources import SourceUnavailable

pytestmark = pytest.mark.skipif(
    "HEADRACE_TEST_CLIENT_SUITES" not in os.environ,
    reason="downloads the tests of client libraries: `make test-client-suites`, or HEADRACE_TEST_CLIENT_SUITES=1",
)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SUITES)
async def test_no_test_of_a_client_library_fails(name: str) -> None:
    suite = SUITES[name]
    try:
        environment = suite.environment()
    except SourceUnavailable as error:
        pytest.skip(f"the package index can't be reached: {error}")
    assert failures(suite, await run(suite, environment)) == []
