"""Token prices and the cost of usage. Amounts are integer nano-USD, never rounded (docs/design/money.md#amounts)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auth_billing.errors import NoPrice, UnacceptableValue
from router.messages import ServiceClass, Usage

NANO = 1_000_000_000
"""Nano-USD per USD."""
MAX_TOKEN_PRICE = 1_000_000_000
"""Highest price of one token, in nano-USD: one USD."""


@dataclass(frozen=True)
class TokenRate:
    """Nano-USD per token. `cached_input` is at most `input`, since a hold counts the prompt as not cached.

    An embedding model has no `output`.
    """

    input: int
    cached_input: int
    output: int


@dataclass(frozen=True)
class Price(TokenRate):
    """The token rate that a job was accepted at: later versions of the price list do not change the job's cost."""

    version: int

    def cost(self, usage: Usage) -> int:
        """Return the cost of `usage` in nano-USD; cached tokens are part of the prompt's tokens."""
        fresh = usage.prompt_tokens - usage.cached_tokens
        return fresh * self.input + usage.cached_tokens * self.cached_input + usage.completion_tokens * self.output


def check_rate(rate: TokenRate) -> TokenRate:
    """Return `rate` if its prices are integers from 0 to `MAX_TOKEN_PRICE`, and cached input is not above input.

    Raises:
        UnacceptableValue: anything else.
    """
    for name, price in vars(rate).items():
        if not isinstance(price, int) or isinstance(price, bool) or not 0 <= price <= MAX_TOKEN_PRICE:
            raise UnacceptableValue(name, f"`{name}` is no integer of nano-USD per token from 0 to {MAX_TOKEN_PRICE}")
    if rate.cached_input > rate.input:
        raise UnacceptableValue("cached_input", "`cached_input` is more than `input`")
    return rate


RateCard = Mapping[ServiceClass, TokenRate]
"""Rate of one model in every service class."""


@dataclass(frozen=True)
class PriceList:
    """One version of the prices of all models; versions begin at 1. `default` applies to models without an entry."""

    version: int
    models: Mapping[str, RateCard]
    default: RateCard | None = None

    def price(self, model: str, service_class: ServiceClass) -> Price:
        """Return the price of `model` in a service class, in this version.

        Raises:
            NoPrice: the model has no entry and there is no default.
        """
        rates = self.models.get(model, self.default)
        if rates is None:
            raise NoPrice(model)
        rate = rates[service_class]
        return Price(rate.input, rate.cached_input, rate.output, self.version)
