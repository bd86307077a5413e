"""1,024 streams of one key that begin at once are all served by one gateway with default settings.

The processes of `headrace up` with a worker whose engine only counts, in a new installation: nothing is cached.
"""

from __future__ import annotations

import pytest

from benchmarks import platform_stack
from benchmarks.platform import HOST
from benchmarks.platform_client import Client, Target
from runtime.lifecycle import raise_file_limit
from tests.chaos.installed import skip_unless_installed

STREAMS, TOKENS = 1024, 40
STEP_SECONDS = 0.25
"""A stream lasts until all have begun, and other tests share the processor."""

pytestmark = [pytest.mark.e2e, pytest.mark.store, pytest.mark.rabbitmq, pytest.mark.timeout(600)]


async def test_streams_that_begin_at_once_are_all_served() -> None:
    skip_unless_installed()
    raise_file_limit()
    async with platform_stack.running(step_time=STEP_SECONDS, capacity=STREAMS) as platform:
        client = Client(Target(HOST, platform.port, platform.key, platform_stack.MODEL, max_tokens=TOKENS))
        for _ in range(2):  # without a credit lease, and with one
            await client.burst(STREAMS, drain_seconds=200.0)
        client.close()
    assert {(each.tokens, each.end is None, each.error) for each in client.exchanges} == {(TOKENS, False, "")}
    assert len(client.exchanges) == 2 * STREAMS
