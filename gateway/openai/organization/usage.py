"""Usage and costs. Source: `UsageResponse`, `UsageTimeBucket` and the queries of `/organization/usage` and `/costs`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.openai.base import ApiModel
from gateway.openai.query import QueryBool, QueryInt, QueryParameters, QueryText

Ids = Annotated[list[QueryText], Field(default_factory=list, max_length=100)]
Seconds = Annotated[QueryInt, Field(ge=0, le=2**40)]


class UsageQuery(QueryParameters):
    """What all of them are asked by. Buckets begin at whole minutes, hours or days of UTC."""

    start_time: Seconds
    """From then on, in Unix seconds."""
    end_time: Seconds | None = None
    """Until before then; by default until now. A year after `start_time` at most."""
    project_ids: Ids
    api_key_ids: Ids
    page: QueryText | None = None
    """`next_page` of the page before."""


class CompletionsUsageQuery(UsageQuery):
    """How usage of text generation is asked for."""

    bucket_width: Literal["1m", "1h", "1d"] = "1d"
    user_ids: Ids
    models: Ids
    batch: QueryBool | None = None
    """Nothing runs in batches: `true` finds nothing."""
    group_by: Annotated[
        list[Literal["project_id", "user_id", "api_key_id", "model", "batch", "service_tier"]],
        Field(default_factory=list, max_length=6),
    ]
    limit: Annotated[QueryInt, Field(ge=1, le=1440)] | None = None
    """Buckets in a page: 7 days (31 at most), 24 hours (168) or 60 minutes (1,440)."""


class EmbeddingsUsageQuery(UsageQuery):
    """How usage of embeddings is asked for."""

    bucket_width: Literal["1m", "1h", "1d"] = "1d"
    user_ids: Ids
    models: Ids
    group_by: Annotated[
        list[Literal["project_id", "user_id", "api_key_id", "model"]], Field(default_factory=list, max_length=4)
    ]
    limit: Annotated[QueryInt, Field(ge=1, le=1440)] | None = None
    """Buckets in a page: 7 days (31 at most), 24 hours (168) or 60 minutes (1,440)."""


class CostsQuery(UsageQuery):
    """How costs are asked for."""

    bucket_width: Literal["1d"] = "1d"
    group_by: Annotated[
        list[Literal["project_id", "line_item", "api_key_id"]], Field(default_factory=list, max_length=3)
    ]
    limit: Annotated[QueryInt, Field(ge=1, le=180)] = 7
    """Days in a page."""


class ExportQuery(QueryParameters):
    """Which jobs a table has, and as what."""

    format: Literal["csv", "xlsx"]
    start_time: Seconds
    """From then on, in Unix seconds."""
    end_time: Seconds | None = None
    """Until before then; by default until now. A year after `start_time` at most."""
    project_ids: Ids
    user_ids: Ids
    api_key_ids: Ids
    models: Ids


class _Grouped(ApiModel):
    """Null where nothing is grouped by it."""

    project_id: str | None = None
    user_id: str | None = None
    api_key_id: str | None = None
    model: str | None = None


class CompletionsUsage(_Grouped):
    """Tokens of generated text and its prompts."""

    object: Literal["organization.usage.completions.result"] = "organization.usage.completions.result"
    input_tokens: int
    input_cached_tokens: int
    """Part of the input."""
    input_uncached_tokens: int
    output_tokens: int
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0
    num_model_requests: int
    batch: bool | None = None
    service_tier: str | None = None


class EmbeddingsUsage(_Grouped):
    """Tokens that were embedded."""

    object: Literal["organization.usage.embeddings.result"] = "organization.usage.embeddings.result"
    input_tokens: int
    num_model_requests: int


class Amount(ApiModel):
    """USD; exact to a billionth."""

    value: float
    currency: Literal["usd"] = "usd"


class Costs(ApiModel):
    """What was paid."""

    object: Literal["organization.costs.result"] = "organization.costs.result"
    amount: Amount
    line_item: str | None = None
    """A model and a kind of its tokens."""
    project_id: str | None = None
    api_key_id: str | None = None
    quantity: int | None = None
    """Tokens of the line item."""
    quantity_unit: Literal["tokens"] | None = None


class UsageBucket(ApiModel):
    """What happened from `start_time` until before `end_time`."""

    object: Literal["bucket"] = "bucket"
    start_time: int
    end_time: int
    results: list[CompletionsUsage | EmbeddingsUsage | Costs]


class UsagePage(ApiModel):
    """Some buckets, in order; those without usage too."""

    object: Literal["page"] = "page"
    data: list[UsageBucket]
    has_more: bool
    next_page: str | None
