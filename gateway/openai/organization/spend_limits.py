"""Request and response models of monthly budgets, `/v1/organization/.../spend_limit`.

Source: `ProjectSpendLimitResource`, `OrganizationSpendLimitResource` in OpenAI's specification.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.openai.base import ApiModel, RequestBody

NANO_PER_CENT = 10_000_000


class SpendLimitUpdate(RequestBody):
    """Body of `POST .../spend_limit`."""

    threshold_amount: Annotated[int, Field(ge=1, le=10**11)]
    """Budget in cents."""
    currency: Literal["USD"]
    interval: Literal["month"]
    """Calendar month in UTC."""

    @property
    def nano_usd(self) -> int:
        """Monthly budget in nano-USD, converted from the body's cents."""
        return self.threshold_amount * NANO_PER_CENT


class Enforcement(ApiModel):
    """Whether a budget is used up, so that requests are refused."""

    status: Literal["inactive", "enforcing"]


class SpendLimit(ApiModel):
    """A monthly budget. A request is refused if its maximum cost exceeds what is left, so a budget is never overrun."""

    object: Literal["organization.spend_limit", "project.spend_limit", "project.api_key.spend_limit"]
    threshold_amount: int
    """Budget in cents, rounded down."""
    currency: Literal["USD"] = "USD"
    interval: Literal["month"] = "month"
    enforcement: Enforcement


class SpendLimitDeleted(ApiModel):
    """Confirmation that a budget was removed."""

    object: Literal[
        "organization.spend_limit.deleted", "project.spend_limit.deleted", "project.api_key.spend_limit.deleted"
    ]
    deleted: Literal[True] = True
