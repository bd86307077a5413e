"""Tells somebody when a budget or a balance runs low: once per threshold and month, whatever happens to who tells.

What is due follows from the accounts as they are; nobody who holds or settles knows that there are alerts. An alert is
written down before it is sent, under an id that follows from what it is about, and a lease on it decides who sends it.
It may arrive twice (when the answer is lost), with the same id. Knows neither HTTP (`webhook.py`) nor MongoDB.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from auth_billing.errors import AlertNotSent
from auth_billing.money.amounts import usd
from auth_billing.money.books import Balance
from auth_billing.money.budgets import budgets_used
from auth_billing.money.holds import month_of

LEASE_SECONDS = 120.0
"""Longer than one round of tries (`webhook.py`) takes."""
LONGEST_PAUSE = 3600.0
MOST_ROUNDS = 24
"""After about a day nobody listens, and an alert is old."""
BATCH = 20

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Alert:
    """Something that somebody should know. Amounts are nano-USD.

    `budget` is the name of a budget (`holds.budgets_of`), or empty when the credit of the organisation is low;
    `threshold` is a percentage of `limit`, or the credit that is low.
    """

    organisation: str
    month: str
    budget: str
    threshold: int
    limit: int
    amount: int
    """Spent, or left."""
    at: float

    @property
    def id(self) -> str:
        """The same for the same threshold in the same month."""
        return f"alert:{self.organisation}:{self.month}:{self.budget or 'credit'}:{self.threshold}"

    def message(self) -> dict[str, object]:
        """What is sent: an event in the shape that OpenAI's webhooks have."""
        about = {"budget": self.budget, "percent": self.threshold} if self.budget else {}
        names = ("limit", "spent") if self.budget else ("threshold", "available")
        amounts = dict(zip(names, (self.limit, self.amount), strict=True))
        return {
            "id": self.id,
            "object": "event",
            "type": "budget.threshold_reached" if self.budget else "credit.low",
            "created_at": int(self.at),
            "data": {
                "organization": self.organisation,
                "month": self.month,
                **about,
                **{f"{name}_nano_usd": amount for name, amount in amounts.items()},
                **{f"{name}_usd": usd(amount) for name, amount in amounts.items()},
            },
        }


@dataclass(frozen=True)
class Claimed:
    """An alert to be sent by whoever has claimed it; `rounds` have failed before."""

    alert: Alert
    rounds: int


class AlertStore(Protocol):
    """Where alerts are. Every method may raise `StoreUnavailable`; each may be repeated."""

    async def watched(self, low: int) -> Sequence[Balance]:
        """Accounts that have budgets, or less than `low` available."""
        ...

    async def add(self, alerts: Sequence[Alert]) -> None:
        """Write down those that are not there yet."""
        ...

    async def claim(self, now: float, lease: float) -> Claimed | None:
        """An alert that is not sent and that nobody has a lease on; it is the caller's until `lease`."""
        ...

    async def postpone(self, id: str, until: float) -> None:
        """One more round has failed; nobody tries before `until`."""
        ...

    async def done(self, id: str, at: float) -> None:
        """It is sent, or given up."""
        ...


class Sender(Protocol):
    """Where alerts go."""

    async def send(self, id: str, message: dict[str, object]) -> None:
        """Send a message; the same id is the same message.

        Raises:
            AlertNotSent: nobody has taken it.
        """
        ...


class Alerts:
    """Finds what is due and sends it.

    Args:
        store: accounts and alerts.
        sender: where they go.
        thresholds: percentages of a budget.
        low: nano-USD; an organisation that has less credit left is told. 0: none is.
        clock: Unix seconds.
    """

    def __init__(
        self,
        store: AlertStore,
        sender: Sender,
        *,
        thresholds: Sequence[int],
        low: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._sender = sender
        self._thresholds = thresholds
        self._low = low
        self._clock = clock

    async def look(self) -> None:
        """Write down what is due, and send what is not sent.

        Raises:
            StoreUnavailable: the next look does it.
        """
        now = self._clock()
        due = [
            alert
            for balance in await self._store.watched(self._low)
            for alert in alerts_due(balance, self._thresholds, self._low, now)
        ]
        if due:
            await self._store.add(due)
        for _ in range(BATCH):
            claimed = await self._store.claim(self._clock(), self._clock() + LEASE_SECONDS)
            if claimed is None:
                return
            await self._send(claimed)

    async def _send(self, claimed: Claimed) -> None:
        alert, now = claimed.alert, self._clock()
        try:
            await self._sender.send(alert.id, alert.message())
        except AlertNotSent as error:
            _log.warning("alert not sent", id=alert.id, rounds=claimed.rounds + 1, reason=str(error))
            if claimed.rounds + 1 < MOST_ROUNDS:
                await self._store.postpone(alert.id, now + min(LONGEST_PAUSE, 60.0 * 2**claimed.rounds))
                return
            _log.error("alert given up", id=alert.id)
        await self._store.done(alert.id, self._clock())


def alerts_due(balance: Balance, thresholds: Sequence[int], low: int, now: float) -> Iterator[Alert]:
    """What should have been said of an account this month. What is only held is not spent."""
    month, organisation = month_of(now), balance.organisation
    for use in budgets_used(balance, month):
        for percent in thresholds if use.limit else ():
            if use.limit and use.spent * 100 >= percent * use.limit:
                yield Alert(organisation, month, use.name, percent, use.limit, use.spent, now)
    left = balance.available + sum(hold.amount for hold in balance.held.values())
    if balance.credited and left < low:
        yield Alert(organisation, month, "", low, low, left, now)
