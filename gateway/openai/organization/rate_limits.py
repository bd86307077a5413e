"""Rate limits of a project. Source: `ProjectRateLimit`, `ProjectRateLimitUpdateRequest` in OpenAI's specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from auth_billing.rate_limits.limits import UNLIMITED
from gateway.openai.base import ApiModel, Refused, RequestBody
from gateway.openai.organization.lists import ItemList, PageQuery
from gateway.openai.query import QueryInt

ANY_MODEL = "*"
"""In the place of a model: all that a project asks for."""

Limit = Annotated[int, Field(ge=1, le=UNLIMITED)]
_NO_SUCH_WORK = Refused("nothing of that kind is served")


class RateLimit(ApiModel):
    """How much of one model a project may use; with the model `*`, of all together. A thousand million is no limit."""

    object: Literal["project.rate_limit"] = "project.rate_limit"
    id: str
    model: str
    max_requests_per_1_minute: int
    max_tokens_per_1_minute: int
    max_requests_per_1_day: int
    max_concurrent_requests: int
    """Ours."""


class RateLimitList(ItemList[RateLimit]):
    """A page of limits."""


class RateLimitQuery(PageQuery):
    """Which limits."""

    limit: Annotated[QueryInt, Field(ge=1, le=100)] = 100
    """How many items a page has at most."""


class RateLimitUpdate(RequestBody):
    """Body of `POST .../rate_limits/{rate_limit_id}`: what is to change; `max_concurrent_requests` is ours."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "max_images_per_1_minute": _NO_SUCH_WORK,
        "max_audio_megabytes_per_1_minute": _NO_SUCH_WORK,
        "batch_1_day_max_input_tokens": _NO_SUCH_WORK,
    }

    max_requests_per_1_minute: Limit | None = None
    max_tokens_per_1_minute: Limit | None = None
    max_requests_per_1_day: Limit | None = None
    max_concurrent_requests: Limit | None = None
