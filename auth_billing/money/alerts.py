"""Sends the operator alerts about budgets and low credit: one per threshold and month, even if the sender dies.

Alerts that are due are derived from the accounts, off the path of holds and settlements. An alert is stored before it
is sent, under an id derived from its subject, and the process that claims it sends it. It may arrive twice (if the
receiver's answer is lost), with the same id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

import structlog

from auth_billing.errors import AlertNotSent
from auth_billing.money.amounts import format_usd
from auth_billing.money.billing_records import Balance
from auth_billing.money.budgets import budget_usage
from auth_billing.money.holds import month_of

CLAIM_LEASE = 120.0
"""Seconds that a claim lasts: longer than one round of tries (`webhook.py`) takes."""
MAX_PAUSE = 3600.0
MAX_ROUNDS = 24
"""Failed rounds, over about a day, after which an alert is dropped."""
BATCH_SIZE = 20
"""Most alerts that one run sends."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Alert:
    """A budget that reached a threshold, or credit that ran low. Amounts are nano-USD.

    `budget` is the name of a budget (`holds.budget_names`), or "" for low credit. `threshold` is a percentage of
    `limit`, or for low credit the amount that it fell below.
    """

    organisation: str
    month: str
    budget: str
    threshold: int
    limit: int
    amount: int
    """What is spent of the budget, or what is left of the credit."""
    at: float

    @property
    def id(self) -> str:
        """The alert's id, derived from organisation, month, budget and threshold, so that each alert is sent once."""
        return f"alert:{self.organisation}:{self.month}:{self.budget or 'credit'}:{self.threshold}"

    def message(self) -> dict[str, object]:
        """Return the alert as the JSON object for the operator's webhook, in the shape of OpenAI's webhook events."""
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
                **{f"{name}_usd": format_usd(amount) for name, amount in amounts.items()},
            },
        }


@dataclass(frozen=True)
class ClaimedAlert:
    """An unsent alert that one process has claimed to send; `rounds`: how often sending failed before."""

    alert: Alert
    rounds: int


class AlertStore(Protocol):
    """Store of alerts. Every method may raise `StoreUnavailable`, and may be repeated."""

    async def candidates(self, low_credit: int) -> Sequence[Balance]:
        """Return the accounts that may need alerts: with budgets, or with less than `low_credit` nano-USD available."""
        ...

    async def add(self, alerts: Sequence[Alert]) -> None:
        """Store alerts durably, to be sent; alerts that are stored already are skipped."""
        ...

    async def claim(self, now: float, until: float) -> ClaimedAlert | None:
        """Claim and return one unsent, unclaimed alert from `now` until `until` (Unix seconds), `None` if none."""
        ...

    async def postpone(self, id: str, until: float) -> None:
        """Count a failed round of sending the alert `id`; it can't be claimed before `until` (Unix seconds)."""
        ...

    async def mark_done(self, id: str, at: float) -> None:
        """Mark the alert `id` as sent or dropped at `at` (Unix seconds), so that no process claims it again."""
        ...


class AlertSender(Protocol):
    """Sends alerts to the operator."""

    async def send(self, id: str, message: dict[str, object]) -> None:
        """Send one alert's message to the operator; the receiver can drop a repeated message by the alert's `id`.

        Raises:
            AlertNotSent: the receiver did not accept the message.
        """
        ...


@dataclass(eq=False, repr=False)
class Alerts:
    """Stores the budget and low-credit alerts that are due and sends them.

    Args:
        store: accounts and alerts.
        sender: sends an alert to the operator.
        thresholds: percentages of a budget.
        low_credit: nano-USD; an alert is due below it. 0: never.
        clock: Unix seconds.
    """

    store: AlertStore
    sender: AlertSender
    _: KW_ONLY
    thresholds: Sequence[int]
    low_credit: int
    clock: Callable[[], float] = time.time

    async def run_once(self) -> None:
        """Store the alerts that are due now, then send up to `BATCH_SIZE` unsent alerts.

        The billing process calls this periodically. An alert that the receiver does not accept is sent again by a later
        run, up to `MAX_ROUNDS` times.

        Raises:
            StoreUnavailable: the next run repeats what was not done.
        """
        now = self.clock()
        due = [
            alert
            for balance in await self.store.candidates(self.low_credit)
            for alert in due_alerts(balance, self.thresholds, self.low_credit, now)
        ]
        if due:
            await self.store.add(due)
        for _ in range(BATCH_SIZE):
            claimed = await self.store.claim(self.clock(), self.clock() + CLAIM_LEASE)
            if claimed is None:
                return
            await self._send(claimed)

    async def _send(self, claimed: ClaimedAlert) -> None:
        alert, now = claimed.alert, self.clock()
        try:
            await self.sender.send(alert.id, alert.message())
        except AlertNotSent as error:
            _log.warning("alert not sent", id=alert.id, rounds=claimed.rounds + 1, reason=str(error))
            if claimed.rounds + 1 < MAX_ROUNDS:
                await self.store.postpone(alert.id, now + min(MAX_PAUSE, 60.0 * 2**claimed.rounds))
                return
            _log.error("alert dropped", id=alert.id)
        await self.store.mark_done(alert.id, self.clock())


def due_alerts(balance: Balance, thresholds: Sequence[int], low_credit: int, now: float) -> Iterator[Alert]:
    """Yield every alert that an account has reached in the month of `now` (Unix seconds), sent before or not.

    Open holds count as unspent. `thresholds`: percentages of a budget; `low_credit`: nano-USD.
    """
    month, organisation = month_of(now), balance.organisation
    for use in budget_usage(balance, month):
        for percent in thresholds if use.limit else ():
            if use.limit and use.spent * 100 >= percent * use.limit:
                yield Alert(organisation, month, use.name, percent, use.limit, use.spent, now)
    left = balance.available + balance.total_held
    if balance.credited and left < low_credit:
        yield Alert(organisation, month, "", low_credit, low_credit, left, now)
