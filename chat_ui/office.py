"""What administrators see and change, and what people see of what they used: the parts of `auth_billing` below it.

The fleet is a port: who knows workers and queues is whoever serves the chat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from auth_billing.administration import Administration
from auth_billing.money.books import BalanceStore
from auth_billing.money.credit import Credit
from auth_billing.prices.price_book import PriceBook
from auth_billing.rate_limits.book import LimitBook
from router.messages import WorkerStatus
from router.registry import ModelInfo


class Fleet(Protocol):
    """What serves the platform now."""

    def workers(self) -> Sequence[WorkerStatus]:
        """The last word of each worker that is alive, by name."""
        ...

    def models(self) -> Sequence[ModelInfo]:
        """The models seen within the hour, by name."""
        ...

    def queued(self, model: str) -> int:
        """Answers that wait for a model and that nobody has begun."""
        ...


@dataclass(frozen=True)
class Office:
    """The parts."""

    administration: Administration
    credit: Credit
    balances: BalanceStore
    prices: PriceBook
    limits: LimitBook
    fleet: Fleet
    console: str = ""
    """The RabbitMQ console's address; empty: nobody has told one."""
