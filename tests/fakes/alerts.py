"""In-memory alerts, and a receiver that records messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auth_billing.errors import AlertNotSent
from auth_billing.money.alerts import Alert, ClaimedAlert
from auth_billing.money.billing_records import Balance
from tests.fakes.billing_stores import DictBalanceStore


@dataclass
class Kept:
    alert: Alert
    sent: float = 0.0
    lease: float = 0.0
    rounds: int = 0


class DictAlertStore:
    def __init__(self, balances: DictBalanceStore) -> None:
        self._balances = balances
        self.kept: dict[str, Kept] = {}

    async def candidates(self, low_credit: int) -> Sequence[Balance]:
        return [each for each in self._balances.balances.values() if each.budgets or each.available < low_credit]

    async def add(self, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            self.kept.setdefault(alert.id, Kept(alert))

    async def claim(self, now: float, until: float) -> ClaimedAlert | None:
        free = next((each for each in self.kept.values() if not each.sent and each.lease < now), None)
        if free is None:
            return None
        free.lease = until
        return ClaimedAlert(free.alert, free.rounds)

    async def postpone(self, id: str, until: float) -> None:
        self.kept[id].lease = until
        self.kept[id].rounds += 1

    async def mark_done(self, id: str, at: float) -> None:
        self.kept[id].sent = at


class Receiver:
    """Accepts messages unless it is away."""

    def __init__(self) -> None:
        self.away = False
        self.messages: list[dict[str, object]] = []

    async def send(self, id: str, message: dict[str, object]) -> None:
        if self.away:
            raise AlertNotSent("away")
        assert message["id"] == id
        self.messages.append(message)
