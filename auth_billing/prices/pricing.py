"""Defines price lists, finds a model's rate (nano-USD per token and unit), and computes the exact cost of usage.

Amounts are integer nano-USD, never rounded (docs/design/money.md#amounts).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from auth_billing.errors import NoPrice, UnacceptableValue
from router.messages import ServiceClass, Usage

NANO = 1_000_000_000
"""Nano-USD per USD."""
MAX_TOKEN_PRICE = 1_000_000_000
"""Highest price of one token, in nano-USD: one USD."""
MAX_UNIT_PRICE = 1_000 * NANO
"""Highest price of one unit, such as an image: 1,000 USD."""
MAX_UNITS = 32
"""Most units that one model has prices of."""
TOOL_PREFIX = "tool."
"""Prefix of the names of tools among models. A tool without an entry in the price list is free."""

UNIT_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""Names of units, which are names of fields in the store."""


@dataclass(frozen=True)
class TokenRate:
    """Nano-USD per token and per unit. `cached_input` is at most `input`, since a hold counts the prompt as not cached.

    An embedding model has no `output`.
    """

    input: int
    cached_input: int
    output: int
    units: Mapping[str, int] = field(default_factory=dict, kw_only=True, hash=False)
    """Nano-USD for each unit, by its name, such as `1024x1024` (an image of that size) or `call`."""


@dataclass(frozen=True)
class Price(TokenRate):
    """The rate that a job was accepted at: later versions of the price list do not change the job's cost."""

    version: int

    def cost(self, usage: Usage) -> int:
        """Return the cost of `usage` in nano-USD at this price: units and tokens (the prompt's include cached ones)."""
        fresh = usage.prompt_tokens - usage.cached_tokens
        tokens = fresh * self.input + usage.cached_tokens * self.cached_input + usage.completion_tokens * self.output
        return tokens + self.unit_cost(usage)

    def unit_cost(self, usage: Usage) -> int:
        """Return the nano-USD cost of only the units in `usage` (images, tool calls); one without a price is free."""
        return sum(count * self.units.get(unit, 0) for unit, count in usage.units.items())

    def covers(self, usage: Usage) -> bool:
        """Return whether each unit in `usage` (images, calls of tools) has a price here."""
        return usage.units.keys() <= self.units.keys()


def check_rate(rate: TokenRate) -> TokenRate:
    """Return `rate` unchanged if its prices are integers from 0 to their maxima, and cached input is not above input.

    Raises:
        UnacceptableValue: anything else, or the name of a unit is malformed.
    """
    for name in ("input", "cached_input", "output"):
        if not _is_price(getattr(rate, name), MAX_TOKEN_PRICE):
            raise UnacceptableValue(name, f"`{name}` is no integer of nano-USD per token from 0 to {MAX_TOKEN_PRICE}")
    if len(rate.units) > MAX_UNITS:
        raise UnacceptableValue("units", f"more than {MAX_UNITS} units have prices")
    for unit, price in rate.units.items():
        check_unit(unit)
        if not _is_price(price, MAX_UNIT_PRICE):
            raise UnacceptableValue("units", f"`units.{unit}` is no integer of nano-USD from 0 to {MAX_UNIT_PRICE}")
    if rate.cached_input > rate.input:
        raise UnacceptableValue("cached_input", "`cached_input` is more than `input`")
    return rate


def check_unit(unit: str) -> str:
    """Return the name of a priced unit unchanged if it has 1 to 32 letters, digits, `_` and `-`.

    Raises:
        UnacceptableValue: the name is anything else.
    """
    if not UNIT_NAME.fullmatch(unit):
        raise UnacceptableValue("units", f"unit {unit[:64]!r}: only letters, digits, _ and -, at most 32")
    return unit


def _is_price(value: object, maximum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= maximum


RateCard = Mapping[ServiceClass, TokenRate]
"""Rate of one model in every service class."""


@dataclass(frozen=True)
class PriceList:
    """One version of the prices of all models; versions begin at 1. `default` applies to models without an entry."""

    version: int
    models: Mapping[str, RateCard]
    default: RateCard | None = None

    def price(self, model: str, service_class: ServiceClass) -> Price:
        """Return the price of `model` in a service class: the model's own in this version, else the default.

        Raises:
            NoPrice: the model has no entry and there is no default.
        """
        rates = self.models.get(model, self.default)
        if rates is None:
            raise NoPrice(model)
        rate = rates[service_class]
        return Price(rate.input, rate.cached_input, rate.output, self.version, units=rate.units)

    def price_of(self, model: str, usage: Usage, service_class: ServiceClass) -> Price:
        """Return the price of a model, or of a tool, that covers all units in `usage`, in a service class.

        A tool without an entry is free.

        Raises:
            NoPrice: the model has no price, or none of a unit in `usage`.
        """
        if model.startswith(TOOL_PREFIX):
            return self.price(model, service_class) if model in self.models else Price(0, 0, 0, self.version)
        price = self.price(model, service_class)
        if not price.covers(usage):
            raise NoPrice(model)
        return price
