"""The server's clock is read once per interval and extrapolated by the monotonic clock in between."""

from __future__ import annotations

import pytest

from auth_billing.errors import StoreUnavailable
from auth_billing.store import server_clock
from auth_billing.store.connection import StoreConnection
from auth_billing.store.server_clock import REFRESH_INTERVAL, ServerClock


class _Server:
    """The time of a server, and how often it was read."""

    def __init__(self) -> None:
        self.time, self.reads, self.away = 5_000.0, 0, False

    async def server_time(self) -> float:
        if self.away:
            raise StoreUnavailable("away")
        self.reads += 1
        return self.time


class _Monotonic:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def monotonic(monkeypatch: pytest.MonkeyPatch) -> _Monotonic:
    fake = _Monotonic()
    monkeypatch.setattr(server_clock, "time", fake)
    return fake


async def test_the_time_is_extrapolated_until_the_next_reading(monotonic: _Monotonic) -> None:
    server = _Server()
    clock = ServerClock(server)  # type: ignore[arg-type]
    assert await clock.now() == 5_000.0
    server.time, server.away = 9_000.0, True
    monotonic.now += REFRESH_INTERVAL - 1
    assert await clock.now() == 5_000.0 + REFRESH_INTERVAL - 1
    assert server.reads == 1


async def test_an_old_reading_is_not_extrapolated(monotonic: _Monotonic) -> None:
    server = _Server()
    clock = ServerClock(server)  # type: ignore[arg-type]
    await clock.now()
    monotonic.now += REFRESH_INTERVAL
    server.away = True
    with pytest.raises(StoreUnavailable):
        await clock.now()
    server.away, server.time = False, 9_000.0
    assert await clock.now() == 9_000.0


@pytest.mark.store
async def test_a_server_tells_its_time(connection: StoreConnection) -> None:
    first = await ServerClock(connection).now()
    assert abs(await ServerClock(connection).now() - first) < 60
