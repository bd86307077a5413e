"""Routes of `/v1/organization/usage/{completions,embeddings,images}` and `/costs`: settled jobs by time and group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from auth_billing.money.usage_reports import Dimension, UsageFilter, UsageKind, UsageRow
from auth_billing.prices.pricing import NANO
from gateway.errors import InvalidRequest
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.pagination import query_of
from gateway.http.routes.organization.access import Administrator, Reader
from gateway.http.routes.organization.time_buckets import WIDTHS, Period, next_page, page_of_period, requested_period
from gateway.openai.organization.keys import format_key_id, parse_key_id
from gateway.openai.organization.usage import (
    Amount,
    CompletionsUsage,
    CompletionsUsageQuery,
    Costs,
    CostsQuery,
    EmbeddingsUsage,
    EmbeddingsUsageQuery,
    ImagesUsage,
    ImagesUsageQuery,
    QuantityUnit,
    UsageBucket,
    UsagePage,
    UsageQuery,
)

router = APIRouter(prefix="/v1/organization")

MAX_ROWS = 20_000
"""Maximum number of results in a page, which keeps a response within some megabytes."""
PAGES = {"1m": (60, 1440), "1h": (24, 168), "1d": (7, 31)}
"""Default and maximum number of buckets in a page, by width of the buckets."""

_DIMENSIONS = {
    "project_id": Dimension.PROJECT,
    "user_id": Dimension.USER,
    "api_key_id": Dimension.KEY,
    "model": Dimension.MODEL,
    "service_tier": Dimension.SERVICE_CLASS,
}

Results = Callable[[Sequence[UsageRow]], Sequence[Any]]


@dataclass(frozen=True)
class PageSize:
    """Size of a page: the width of its buckets in seconds, and their number."""

    width: int
    buckets: int


@router.get("/usage/completions", **document_route(UsagePage, query=CompletionsUsageQuery))
async def completions_usage(
    admin: Reader, query: Annotated[CompletionsUsageQuery, Depends(query_of(CompletionsUsageQuery))]
) -> Response:
    """Report tokens and requests of chat completions and completions, by time bucket and group.

    Answers `GET /v1/organization/usage/completions`.
    """
    by = [_DIMENSIONS[name] for name in dict.fromkeys(query.group_by) if name != "batch"]
    batch = False if "batch" in query.group_by else None

    def results(rows: Sequence[UsageRow]) -> list[CompletionsUsage]:
        return [
            CompletionsUsage(
                input_tokens=row.input_tokens,
                input_cached_tokens=row.cached_tokens,
                input_uncached_tokens=row.input_tokens - row.cached_tokens,
                output_tokens=row.output_tokens,
                num_model_requests=row.requests,
                batch=batch,
                service_tier=row.group.get(Dimension.SERVICE_CLASS),
                **_grouped(row),
            )
            for row in ([] if query.batch else rows)
        ]

    return json_response(await _usage(admin, query, UsageKind.COMPLETIONS, by, results))


@router.get("/usage/embeddings", **document_route(UsagePage, query=EmbeddingsUsageQuery))
async def embeddings_usage(
    admin: Reader, query: Annotated[EmbeddingsUsageQuery, Depends(query_of(EmbeddingsUsageQuery))]
) -> Response:
    """Report input tokens and requests of embeddings, by time bucket and group.

    Answers `GET /v1/organization/usage/embeddings`.
    """

    def results(rows: Sequence[UsageRow]) -> list[EmbeddingsUsage]:
        return [
            EmbeddingsUsage(input_tokens=row.input_tokens, num_model_requests=row.requests, **_grouped(row))
            for row in rows
        ]

    by = [_DIMENSIONS[name] for name in dict.fromkeys(query.group_by)]
    return json_response(await _usage(admin, query, UsageKind.EMBEDDINGS, by, results))


@router.get("/usage/images", **document_route(UsagePage, query=ImagesUsageQuery))
async def images_usage(
    admin: Reader, query: Annotated[ImagesUsageQuery, Depends(query_of(ImagesUsageQuery))]
) -> Response:
    """Report generated images and requests for them, by time bucket and group (`GET /v1/organization/usage/images`)."""

    def results(rows: Sequence[UsageRow]) -> list[ImagesUsage]:
        return [ImagesUsage(images=row.units, num_model_requests=row.requests, **_grouped(row)) for row in rows]

    by = [_DIMENSIONS[name] for name in dict.fromkeys(query.group_by)]
    return json_response(await _usage(admin, query, UsageKind.IMAGES, by, results))


@router.get("/costs", **document_route(UsagePage, query=CostsQuery))
async def costs(admin: Reader, query: Annotated[CostsQuery, Depends(query_of(CostsQuery))]) -> Response:
    """Report the costs of settled jobs in USD, by day (UTC) and group (`GET /v1/organization/costs`)."""
    itemised = "line_item" in query.group_by
    by = [_DIMENSIONS[name] for name in dict.fromkeys(query.group_by) if name != "line_item"]

    def results(rows: Sequence[UsageRow]) -> list[Costs]:
        return [cost for row in rows for cost in (_line_items(row) if itemised else [_cost(row, row.cost)])]

    period = page_of_period(requested_period(query.start_time, query.end_time), query.page)
    wanted = _filter(admin, period, {"project_ids": query.project_ids, "api_key_ids": query.api_key_ids})
    by = [*by, Dimension.MODEL] if itemised else by
    return json_response(await _page(admin, wanted, PageSize(WIDTHS["1d"], query.limit), by, results))


async def _usage(
    admin: Administrator,
    query: UsageQuery,
    kind: UsageKind,
    by: Sequence[Dimension],
    results: Results,
) -> UsagePage:
    default, most = PAGES[query.bucket_width]
    limit = default if query.limit is None else query.limit
    if limit > most:
        message = f"Invalid 'limit': a page has {most} buckets of {query.bucket_width} at most."
        raise InvalidRequest(message, param="limit")
    period = page_of_period(requested_period(query.start_time, query.end_time), query.page)
    ids = {name: getattr(query, name) for name in ("project_ids", "user_ids", "api_key_ids", "models")}
    size = PageSize(WIDTHS[query.bucket_width], limit)
    return await _page(admin, _filter(admin, period, ids, kind), size, by, results)


def _filter(
    admin: Administrator, period: Period, ids: Mapping[str, Sequence[str]], kind: UsageKind | None = None
) -> UsageFilter:
    return UsageFilter(admin.organisation, period.since, period.until, usage_dimensions(ids), kind)


def usage_dimensions(ids: Mapping[str, Sequence[str]]) -> dict[Dimension, Sequence[str]]:
    """Convert lists of ids, by query parameter such as `project_ids`, to a filter: allowed values by dimension."""
    only: dict[Dimension, Sequence[str]] = {_DIMENSIONS[name.removesuffix("s")]: values for name, values in ids.items()}
    if Dimension.KEY in only:
        only[Dimension.KEY] = [parse_key_id(each) for each in only[Dimension.KEY]]
    return only


async def _page(
    admin: Administrator, wanted: UsageFilter, size: PageSize, by: Sequence[Dimension], results: Results
) -> UsagePage:
    buckets = Period(wanted.since, wanted.until).buckets(size.width, size.buckets)
    until = buckets[-1].until
    shown = UsageFilter(wanted.organisation, wanted.since, until, wanted.ids, wanted.kind)
    rows = await admin.administration.usage.rows(shown, size.width, by, MAX_ROWS + 1)
    if len(rows) > MAX_ROWS:
        message = "The answer would be too large: ask for fewer buckets ('limit') or groups."
        raise InvalidRequest(message, param="limit", code="too_many_rows")
    by_bucket: dict[int, list[UsageRow]] = defaultdict(list)
    for row in rows:
        by_bucket[row.start].append(row)
    more = until < wanted.until
    return UsagePage(
        data=[
            UsageBucket(
                start_time=each.since,
                end_time=each.until,
                results=list(results(by_bucket[each.since // size.width * size.width])),
            )
            for each in buckets
        ],
        has_more=more,
        next_page=next_page(until) if more else None,
    )


def _grouped(row: UsageRow) -> dict[str, Any]:
    group = row.group
    return {
        "project_id": group.get(Dimension.PROJECT),
        "user_id": group.get(Dimension.USER),
        "api_key_id": format_key_id(group[Dimension.KEY]) if Dimension.KEY in group else None,
        "model": group.get(Dimension.MODEL),
    }


def _line_items(row: UsageRow) -> Iterator[Costs]:
    parts = (
        ("input", row.input_cost, row.input_tokens - row.cached_tokens),
        ("cached input", row.cached_cost, row.cached_tokens),
        ("output", row.output_cost, row.output_tokens),
    )
    model = row.group[Dimension.MODEL]
    for name, cost, tokens in parts:
        if tokens:
            yield _cost(row, cost, f"{model}, {name}", tokens)
    if row.units:
        yield _cost(row, row.unit_cost, f"{model}, units", row.units, unit="units")
    # A job is never charged more than its hold, so its cost may be less than the sum of its parts.
    if rest := row.cost - row.unit_cost - sum(cost for _, cost, _ in parts):
        yield _cost(row, rest, f"{model}, not charged")


def _cost(
    row: UsageRow,
    nano: int,
    line_item: str | None = None,
    quantity: int | None = None,
    *,
    unit: QuantityUnit = "tokens",
) -> Costs:
    grouped = _grouped(row)
    return Costs(
        amount=Amount(value=nano / NANO),
        line_item=line_item,
        project_id=grouped["project_id"],
        api_key_id=grouped["api_key_id"],
        quantity=quantity,
        quantity_unit=unit if quantity is not None else None,
    )
