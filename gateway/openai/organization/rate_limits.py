"""Request and response models of rate limits of a project, organisation, API key and user in `/v1/organization`.

Source: `ProjectRateLimit`, `ProjectRateLimitUpdateRequest` in OpenAI's specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from auth_billing.rate_limits.limits import UNLIMITED
from gateway.openai.base import ApiModel, OmitIfNone, Refused, RequestBody
from gateway.openai.pagination import ItemList, PageQuery
from gateway.openai.query_parameters import QueryInt

ANY_MODEL = "*"
"""Model name of the limits on a project's requests to all models together."""

Limit = Annotated[int, Field(ge=1, le=UNLIMITED)]
_NOT_SERVED = Refused("nothing of that kind is served")


class RateLimit(ApiModel):
    """Rate limits in force. 1,000,000,000 means no limit."""

    object: Literal[
        "project.rate_limit",
        "organization.rate_limit",
        "project.api_key.rate_limit",
        "organization.user.rate_limit",
    ]
    id: str
    """Id of the rate limit, or of the API key or user that it limits."""
    model: OmitIfNone[str] = None
    """Model that is limited; `*`: all models together. Missing if an API key or user is limited."""
    max_requests_per_1_minute: int
    max_tokens_per_1_minute: int
    max_requests_per_1_day: int
    max_concurrent_requests: int
    """Maximum number of requests that run at the same time (an extension)."""


class RateLimitList(ItemList[RateLimit]):
    """A page of the rate limits of a project or an organisation."""


class RateLimitQuery(PageQuery):
    """Query of the rate limits of a project or an organisation."""

    limit: Annotated[QueryInt, Field(ge=1, le=100)] = 100
    """Maximum number of items per page."""


class RateLimitUpdate(RequestBody):
    """Body of `POST .../rate_limits/{rate_limit_id}` and `POST .../rate_limit`: the limits to change."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "max_images_per_1_minute": _NOT_SERVED,
        "max_audio_megabytes_per_1_minute": _NOT_SERVED,
        "batch_1_day_max_input_tokens": _NOT_SERVED,
    }

    max_requests_per_1_minute: Limit | None = None
    max_tokens_per_1_minute: Limit | None = None
    max_requests_per_1_day: Limit | None = None
    max_concurrent_requests: Limit | None = None
