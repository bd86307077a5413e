"""Request and response models of the operator API, `/v1/operator`: organisations, credit, prices, usage of all.

Amounts are integers of nano-USD (1e-9 USD).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from auth_billing.installation import MAX_DAYS
from auth_billing.money.amounts import MAX_AMOUNT
from auth_billing.money.credit import MAX_REASON_LENGTH, MAX_REFERENCE_LENGTH, CreditKind
from auth_billing.prices.pricing import MAX_TOKEN_PRICE, MAX_UNIT_PRICE, MAX_UNITS, RateCard, TokenRate
from gateway.openai.base import ApiModel, RequestBody
from gateway.openai.pagination import ItemList
from gateway.openai.query_parameters import QueryInt, QueryParameters
from router.messages import ServiceClass

TokenPrice = Annotated[int, Field(ge=0, le=MAX_TOKEN_PRICE)]
UnitPrice = Annotated[int, Field(ge=0, le=MAX_UNIT_PRICE)]


class OrganizationCredit(ApiModel):
    """An organisation and its credit in nano-USD."""

    object: Literal["operator.organization"] = "operator.organization"
    id: str
    name: str
    created_at: int
    active: bool
    """False: the account is closed, so new requests are refused."""
    available: int
    held: int
    spent: int


class OrganizationCreditList(ItemList[OrganizationCredit]):
    """A page of the installation's organisations, sorted by id."""


class CreditCreate(RequestBody):
    """Body of `POST /v1/operator/organizations/{id}/credit`."""

    kind: Literal["promo", "topup", "withdrawal"]
    """Give credit, record a payment, or take unspent credit back."""
    amount: Annotated[int, Field(ge=1, le=MAX_AMOUNT)]
    reference: Annotated[str, StringConstraints(min_length=1, max_length=MAX_REFERENCE_LENGTH)]
    """The caller's id of the transaction: a repetition with the same amount changes nothing."""
    reason: Annotated[str, StringConstraints(min_length=1, max_length=MAX_REASON_LENGTH)]
    """Reason for the change, in words; the organisation sees it."""

    @property
    def credit_kind(self) -> CreditKind:
        """Kind of ledger entry that the request creates: credit given, or credit withdrawn."""
        return CreditKind(self.kind)


class CreditItem(ApiModel):
    """An entry of the ledger that gives or takes credit."""

    object: Literal["operator.credit"] = "operator.credit"
    id: str
    organization_id: str
    kind: str
    amount: int
    reference: str
    reason: str
    created_at: int


class Rate(ApiModel):
    """Prices in nano-USD per token and unit; `cached_input` is at most `input`. An embedding model has no output."""

    input: TokenPrice
    cached_input: TokenPrice
    output: TokenPrice
    units: Annotated[
        dict[str, UnitPrice],
        Field(default_factory=dict, max_length=MAX_UNITS, exclude_if=lambda units: not units),
    ]
    """Prices of things that are priced each: an image by its size (`1024x1024`), a tool's `call`."""

    @property
    def rate(self) -> TokenRate:
        """Prices of this service tier as the token rate that the price list stores."""
        return TokenRate(self.input, self.cached_input, self.output, units=self.units)


class Rates(ApiModel):
    """Prices by service tier; in a request, a missing tier costs what `default` costs."""

    default: Rate
    priority: Rate | None = None
    flex: Rate | None = None

    @property
    def rates(self) -> RateCard:
        """Prices of every service class, as the price list stores them."""
        return {each: (getattr(self, each.value) or self.default).rate for each in ServiceClass}


class Prices(ApiModel):
    """A version of the prices of all models."""

    object: Literal["operator.prices"] = "operator.prices"
    version: int
    in_file: bool
    """Whether the operator's price file has them, so that they can't be changed here."""
    models: dict[str, Rates]
    default: Rates | None
    """Prices of models without an entry; `null`: they can't be used."""


class PriceUpdate(RequestBody):
    """Body of `POST /v1/operator/prices`: the new prices of one model."""

    version: Annotated[int, Field(ge=0)]
    """The version that was changed: 409 if another one is in force."""
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None
    """`null`: the default of models without an entry."""
    rates: Rates | None
    """`null` removes the model's entry."""


class UsageQuery(QueryParameters):
    """Query parameters of the usage of all organisations."""

    days: Annotated[QueryInt, Field(ge=1, le=MAX_DAYS)] = 30
    """Days (UTC), today included."""
    format: Literal["json", "csv"] = "json"


class UsageItem(ApiModel):
    """The usage of one organisation and model on one day (UTC)."""

    object: Literal["operator.usage.result"] = "operator.usage.result"
    date: str
    organization_id: str
    organization: str
    model: str
    num_model_requests: int
    input_tokens: int
    input_cached_tokens: int
    output_tokens: int
    cost: int


class UsageItemList(ApiModel):
    """The usage of all organisations by day, organisation and model, from hourly rollups."""

    object: Literal["list"] = "list"
    data: list[UsageItem]
    complete_until: int | None
    """Unix seconds; later usage is not in the list yet."""
