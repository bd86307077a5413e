"""Bundles the services behind the chat's administration and usage pages, and defines how these read worker status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from auth_billing.access.roles import Actor
from auth_billing.administration import Administration
from auth_billing.money.billing_records import BalanceStore
from auth_billing.money.credit import Credit
from auth_billing.prices.price_book import PriceBook
from auth_billing.rate_limits.limit_registry import LimitRegistry
from router.messages import WorkerStatus
from router.model_registry import ModelInfo


class Fleet(Protocol):
    """Status of workers and queues; implemented by `infra` from the gateway's heartbeats."""

    def workers(self) -> Sequence[WorkerStatus]:
        """Return the last heartbeat status of each live worker of the platform, sorted by name."""
        ...

    def models(self) -> Sequence[ModelInfo]:
        """Return the models that workers served within the last hour, sorted by name."""
        ...

    def queued(self, model: str) -> int:
        """Return the number of jobs in the queues of the model with this name that no worker has started."""
        ...

    def moderation_models(self) -> Sequence[str]:
        """Return the names by which the checks of a project's texts choose a served classifier or the rules."""
        ...

    def moderation_categories(self) -> Sequence[str]:
        """Return the categories that checks of texts can find, in the order in which they are shown."""
        ...


@dataclass(frozen=True)
class AdminServices:
    """The services that the chat API's routes of administration and usage call."""

    administration: Administration
    credit: Credit
    balances: BalanceStore
    prices: PriceBook
    limits: LimitRegistry
    fleet: Fleet
    console_url: str = ""
    """URL of the RabbitMQ console; empty if none is configured."""

    def is_operator(self, actor: Actor) -> bool:
        """Return whether an actor is an administrator or owner of the organisation that operates the installation."""
        return self.administration.installation.is_operator(actor)
