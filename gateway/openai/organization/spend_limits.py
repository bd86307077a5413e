"""Monthly budgets. Source: `ProjectSpendLimitResource`, `OrganizationSpendLimitResource`; keys have them here too."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.openai.base import ApiModel, RequestBody

NANO_PER_CENT = 10_000_000


class SpendLimitUpdate(RequestBody):
    """Body of `POST .../spend_limit`."""

    threshold_amount: Annotated[int, Field(ge=1, le=10**11)]
    """In cents."""
    currency: Literal["USD"]
    interval: Literal["month"]
    """Of UTC."""

    @property
    def nano(self) -> int:
        """In nano-USD."""
        return self.threshold_amount * NANO_PER_CENT


class Enforcement(ApiModel):
    """Whether it refuses anything now."""

    status: Literal["inactive", "enforcing"]


class SpendLimit(ApiModel):
    """A monthly budget, which nothing overruns: a request is refused if what it may cost does not fit."""

    object: Literal["organization.spend_limit", "project.spend_limit", "project.api_key.spend_limit"]
    threshold_amount: int
    """In cents, rounded down."""
    currency: Literal["USD"] = "USD"
    interval: Literal["month"] = "month"
    enforcement: Enforcement


class SpendLimitDeleted(ApiModel):
    """No budget any more."""

    object: Literal[
        "organization.spend_limit.deleted", "project.spend_limit.deleted", "project.api_key.spend_limit.deleted"
    ]
    deleted: Literal[True] = True
