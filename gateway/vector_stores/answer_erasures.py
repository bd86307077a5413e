"""Erases the stored answers to requests of imports whose vectors are stored in passages, those of many by one write."""

from __future__ import annotations

from collections.abc import Sequence

from auth_billing.idempotency import KeyedRequest
from gateway.answers.idempotency import IdempotentRequests
from runtime.grouped_calls import GroupedCalls

DELAY = 0.2
"""Seconds for which an erasure waits for others."""


class AnswerErasures:
    """Erases the answers to keyed requests of one gateway."""

    def __init__(self, idempotent: IdempotentRequests, delay: float = DELAY) -> None:
        self._idempotent = idempotent
        self._calls = GroupedCalls(self._erase, delay)

    async def erase(self, requests: Sequence[KeyedRequest]) -> None:
        """Erase the stored answers to requests, which are not repeated; billing does not need them.

        Raises:
            StoreUnavailable: the answers may be stored still.
        """
        await self._calls.call(requests)

    async def _erase(self, group: Sequence[Sequence[KeyedRequest]]) -> list[None]:
        await self._idempotent.drop_answers([request for requests in group for request in requests])
        return [None] * len(group)
