"""Request and response models of the operator's routes: organisations, their credit, prices, and the usage of all."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends
from pydantic import Field, StringConstraints

from auth_billing.money.amounts import MAX_AMOUNT
from auth_billing.money.credit import MAX_REASON_LENGTH, MAX_REFERENCE_LENGTH, CreditKind
from auth_billing.prices.pricing import MAX_TOKEN_PRICE, MAX_UNIT_PRICE, MAX_UNITS, RateCard, TokenRate
from chat_ui.http.request_bodies import Body, body_of
from chat_ui.http.schemas.base import Schema
from chat_ui.http.schemas.usage import DayUsage
from router.messages import ServiceClass

Nano = Annotated[int, Field(ge=0, le=MAX_TOKEN_PRICE)]
UnitNano = Annotated[int, Field(ge=0, le=MAX_UNIT_PRICE)]


class OrganisationRow(Schema):
    """An organisation and its credit."""

    id: str
    name: str
    created: float
    available_nano: int
    held_nano: int
    spent_nano: int
    open: bool
    """Whether new requests are accepted."""


class OrganisationPage(Schema):
    """A page of the installation's organisations, sorted by id."""

    organisations: list[OrganisationRow]
    next: str | None
    """The `cursor` of the next page."""


class CreditBody(Body):
    """Credit to give (`promo`, or `topup` for a payment) or to take; a repeated `reference` changes nothing."""

    kind: Literal["promo", "topup", "withdrawal"]
    amount_nano: Annotated[int, Field(ge=1, le=MAX_AMOUNT)]
    reference: Annotated[str, StringConstraints(min_length=1, max_length=MAX_REFERENCE_LENGTH)]
    reason: Annotated[str, StringConstraints(min_length=1, max_length=MAX_REASON_LENGTH)]

    @property
    def credit_kind(self) -> CreditKind:
        """The kind of ledger entry that the request to change an organisation's credit makes."""
        return CreditKind(self.kind)


class RateBody(Body):
    """Prices in nano-USD per token and unit."""

    input_nano: Nano
    cached_input_nano: Nano
    output_nano: Nano
    units_nano: Annotated[dict[str, UnitNano], Field(default_factory=dict, max_length=MAX_UNITS)]
    """Prices of an image by its size, or of a tool's `call`."""

    @property
    def rate(self) -> TokenRate:
        """The prices in the request body as a token rate, in nano-USD."""
        return TokenRate(self.input_nano, self.cached_input_nano, self.output_nano, units=self.units_nano)


class RatesBody(Body):
    """Prices by service class; a missing class costs what `default` costs."""

    default: RateBody
    priority: RateBody | None = None
    flex: RateBody | None = None

    @property
    def rates(self) -> RateCard:
        """The rate of every service class that the request body sets; a missing class gets that of `default`."""
        return {each: (getattr(self, each.value) or self.default).rate for each in ServiceClass}


class PriceBody(Body):
    """New prices of a model, based on a version of the prices."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None
    """`null`: the default of models without a price."""
    rates: RatesBody | None
    """`null` removes the model's own prices."""
    version: Annotated[int, Field(ge=0, le=2**53)]
    """The version that was changed; refused if another one is in force."""


class OrganisationUsageRow(Schema):
    """An organisation's usage of all models in the period."""

    id: str
    name: str
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_nano: int


class InstallationUsage(Schema):
    """Usage of all organisations, from hourly rollups."""

    by_day: list[DayUsage]
    by_organisation: list[OrganisationUsageRow]
    """The most expensive first."""
    complete_until: int | None
    """Unix seconds; later usage is not in the report yet. `null`: nothing is rolled up yet."""


# Dependencies of routes: each reads and validates a request body.
CreditJson = Annotated[CreditBody, Depends(body_of(CreditBody))]
PriceJson = Annotated[PriceBody, Depends(body_of(PriceBody))]
