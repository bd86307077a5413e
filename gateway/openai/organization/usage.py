"""Query and response models of the usage and cost reports and of the export in `/v1/organization`.

Source: `UsageResponse`, `UsageTimeBucket` and the queries of `/organization/usage` and `/costs` in OpenAI's
specification.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.openai.base import ApiModel
from gateway.openai.query_parameters import QueryBool, QueryInt, QueryParameters, QueryText

Ids = Annotated[list[QueryText], Field(default_factory=list, max_length=100)]
Seconds = Annotated[QueryInt, Field(ge=0, le=253_402_300_799)]
"""Unix seconds until the end of the year 9999."""


class PeriodQuery(QueryParameters):
    """Query parameters of all reports and of the export: a period, projects and keys."""

    start_time: Seconds
    """Start of the period in Unix seconds, inclusive."""
    end_time: Seconds | None = None
    """End of the period in Unix seconds, exclusive; at most a year after `start_time`, default now."""
    project_ids: Ids
    api_key_ids: Ids


class UsageQuery(PeriodQuery):
    """Query parameters of the usage reports. Buckets begin at whole minutes, hours or days in UTC."""

    page: QueryText | None = None
    """`next_page` of the previous page."""
    bucket_width: Literal["1m", "1h", "1d"] = "1d"
    user_ids: Ids
    models: Ids
    limit: Annotated[QueryInt, Field(ge=1, le=1440)] | None = None
    """Buckets per page: 7 days (31 at most), 24 hours (168) or 60 minutes (1,440)."""


class CompletionsUsageQuery(UsageQuery):
    """Query of the usage of chat completions and completions."""

    batch: QueryBool | None = None
    """The Batch API is not offered, so `true` returns empty buckets."""
    group_by: Annotated[
        list[Literal["project_id", "user_id", "api_key_id", "model", "batch", "service_tier"]],
        Field(default_factory=list, max_length=6),
    ]


class EmbeddingsUsageQuery(UsageQuery):
    """Query of the usage of embeddings."""

    group_by: Annotated[
        list[Literal["project_id", "user_id", "api_key_id", "model"]], Field(default_factory=list, max_length=4)
    ]


class ImagesUsageQuery(UsageQuery):
    """Query of the usage of images; all of them were generated, and sizes are not told apart."""

    group_by: Annotated[
        list[Literal["project_id", "user_id", "api_key_id", "model"]], Field(default_factory=list, max_length=4)
    ]


class CostsQuery(PeriodQuery):
    """Query of costs. Buckets are days in UTC."""

    page: QueryText | None = None
    """`next_page` of the previous page."""
    bucket_width: Literal["1d"] = "1d"
    group_by: Annotated[
        list[Literal["project_id", "line_item", "api_key_id"]], Field(default_factory=list, max_length=3)
    ]
    limit: Annotated[QueryInt, Field(ge=1, le=180)] = 7
    """Days per page."""


class ExportQuery(PeriodQuery):
    """Query of an export: the jobs to include and the file format."""

    format: Literal["csv", "xlsx"]
    user_ids: Ids
    models: Ids


class _Grouped(ApiModel):
    """Group of a usage result; a field is null unless the query groups by it."""

    project_id: str | None = None
    user_id: str | None = None
    api_key_id: str | None = None
    model: str | None = None


class CompletionsUsage(_Grouped):
    """Usage of chat completions and completions in one bucket and group."""

    object: Literal["organization.usage.completions.result"] = "organization.usage.completions.result"
    input_tokens: int
    input_cached_tokens: int
    """Input tokens that were found in the prefix cache."""
    input_uncached_tokens: int
    output_tokens: int
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0
    num_model_requests: int
    batch: bool | None = None
    service_tier: str | None = None


class EmbeddingsUsage(_Grouped):
    """Usage of embeddings in one bucket and group."""

    object: Literal["organization.usage.embeddings.result"] = "organization.usage.embeddings.result"
    input_tokens: int
    num_model_requests: int


QuantityUnit = Literal["tokens", "units"]


class ImagesUsage(_Grouped):
    """Usage of images in one bucket and group."""

    object: Literal["organization.usage.images.result"] = "organization.usage.images.result"
    images: int
    num_model_requests: int


class Amount(ApiModel):
    """An amount of US dollars, exact to a billionth."""

    value: float
    currency: Literal["usd"] = "usd"


class Costs(ApiModel):
    """Costs in one bucket and group."""

    object: Literal["organization.costs.result"] = "organization.costs.result"
    amount: Amount
    line_item: str | None = None
    """Model and kind of tokens, or units: images by size, or calls of a tool."""
    project_id: str | None = None
    api_key_id: str | None = None
    quantity: int | None = None
    """Number of tokens or units of the line item."""
    quantity_unit: QuantityUnit | None = None


class UsageBucket(ApiModel):
    """Results of one bucket, from `start_time` (inclusive) to `end_time` (exclusive)."""

    object: Literal["bucket"] = "bucket"
    start_time: int
    end_time: int
    results: list[CompletionsUsage | EmbeddingsUsage | ImagesUsage | Costs]


class UsagePage(ApiModel):
    """A page of consecutive buckets, including those without usage."""

    object: Literal["page"] = "page"
    data: list[UsageBucket]
    has_more: bool
    next_page: str | None
