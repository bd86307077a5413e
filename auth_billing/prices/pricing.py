"""What tokens cost. Money is integer nano-USD (1e-9 USD, docs/design/money.md#amounts), so nothing is ever rounded.

Knows no file (`price_file.py`) and no store (`price_book.py`): only numbers and how they are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auth_billing.errors import NoPrice
from router.messages import ServiceClass, Usage

NANO = 1_000_000_000
"""Nano-USD in a USD."""
MOST = 1_000_000_000
"""Nano-USD that one token may cost at most: a USD."""


@dataclass(frozen=True)
class Rate:
    """Nano-USD per token. `cached_input` is at most `input`: what is held for a prompt counts it as not cached.

    A model that embeds has no `output`.
    """

    input: int
    cached_input: int
    output: int


@dataclass(frozen=True)
class Price(Rate):
    """A rate as a job was accepted at: a later version of the list does not change what the job costs."""

    version: int

    def cost(self, usage: Usage) -> int:
        """Nano-USD for `usage`, whose cached tokens are part of its prompt."""
        fresh = usage.prompt_tokens - usage.cached_tokens
        return fresh * self.input + usage.cached_tokens * self.cached_input + usage.completion_tokens * self.output


Rates = Mapping[ServiceClass, Rate]
"""What one model costs in every service class."""


@dataclass(frozen=True)
class PriceList:
    """One version of all prices; versions begin at 1. `default` is for models that have no entry of their own."""

    version: int
    models: Mapping[str, Rates]
    default: Rates | None = None

    def price(self, model: str, service_class: ServiceClass) -> Price:
        """What `model` costs now.

        Raises:
            NoPrice: it has no entry, and there is none for all others.
        """
        rates = self.models.get(model, self.default)
        if rates is None:
            raise NoPrice(model)
        rate = rates[service_class]
        return Price(rate.input, rate.cached_input, rate.output, self.version)
