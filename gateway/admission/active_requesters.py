"""Tracks which requesters sent this gateway a request for one model within the last minute, in order of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping

ACTIVITY_WINDOW = 60.0
"""Seconds for which a requester counts as active after its last request."""

RequestersByTenant = Mapping[str, Collection[str]]


class ActiveRequesters:
    """Requesters that sent this gateway a request for one model within `ACTIVITY_WINDOW`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_request: dict[tuple[str, str], float] = {}
        """Time of the last request of each (tenant, requester), earliest first."""
        self._by_tenant: dict[str, set[str]] = {}

    def note_request(self, tenant: str, requester: str) -> None:
        """Record that a tenant's requester has sent a request now, and so is active for `ACTIVITY_WINDOW` seconds."""
        self._last_request.pop((tenant, requester), None)
        self._last_request[tenant, requester] = self._clock()
        self._by_tenant.setdefault(tenant, set()).add(requester)

    @property
    def by_tenant(self) -> RequestersByTenant:
        """Active requesters of the model, by tenant; not a copy, so read it before the next request is noted."""
        self._drop_inactive()
        return self._by_tenant

    def latest_first(self) -> Iterator[tuple[str, str]]:
        """Iterate over the model's active (tenant, requester) pairs, from the one with the latest request."""
        self._drop_inactive()
        return reversed(self._last_request)

    def _drop_inactive(self) -> None:
        oldest = self._clock() - ACTIVITY_WINDOW
        while self._last_request:
            (tenant, requester), at = next(iter(self._last_request.items()))
            if at >= oldest:
                return
            del self._last_request[tenant, requester]
            self._by_tenant[tenant].discard(requester)
            if not self._by_tenant[tenant]:
                del self._by_tenant[tenant]


def are_several(own: Collection[str], others: Collection[str]) -> bool:
    """Return whether more than one client (tenant or requester) is active: `own` here, `others` at other gateways."""
    return len(own) > 1 or len(others) > 1 or (len(own) == len(others) == 1 and set(own) != set(others))
