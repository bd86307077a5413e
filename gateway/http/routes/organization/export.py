"""Route of `GET /v1/organization/usage/export`: every settled job of a period as a row of a CSV or XLSX file.

The number of rows is limited to what a spreadsheet can hold and the number of concurrent exports to a few; the file is
complete on disk before it is sent. Costs add up to the ledger's amount.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.responses import StreamingResponse

from auth_billing.audit_log import Event
from auth_billing.money.billing_records import JobRecord
from auth_billing.money.usage_reports import UsageFilter
from auth_billing.prices.pricing import NANO
from gateway.errors import ExportsBusy, InvalidRequest
from gateway.http.api_documentation import document_file_route
from gateway.http.pagination import query_of
from gateway.http.routes.organization.access import Administrator, Reader
from gateway.http.routes.organization.time_buckets import requested_period
from gateway.http.routes.organization.usage import usage_dimensions
from gateway.openai.organization.keys import format_key_id
from gateway.openai.organization.usage import ExportQuery
from runtime import tables
from runtime.tables import Row

router = APIRouter(prefix="/v1/organization/usage")

MAX_ROWS = 1_000_000
"""Maximum number of rows of an export; a spreadsheet's sheet has 1,048,576."""
MAX_CONCURRENT_EXPORTS = 2
"""Maximum number of concurrent exports of a gateway."""
BATCH = 500
"""Rows that are written to the file at a time."""

_FILES = {"csv": tables.csv_file, "xlsx": tables.xlsx_file}
_TYPES = {"csv": tables.CSV_TYPE, "xlsx": tables.XLSX_TYPE}

COLUMNS = (
    "settled_at",
    "request_id",
    "project_id",
    "project",
    "user_id",
    "user",
    "api_key_id",
    "model",
    "service_tier",
    "outcome",
    "input_tokens",
    "input_cached_tokens",
    "output_tokens",
    "cost_usd",
)

_slots = asyncio.Semaphore(MAX_CONCURRENT_EXPORTS)


@router.get("/export", **document_file_route([tables.CSV_TYPE, tables.XLSX_TYPE], query=ExportQuery))
async def export_usage(admin: Reader, query: Annotated[ExportQuery, Depends(query_of(ExportQuery))]) -> Response:
    """Return a CSV or XLSX file of the jobs settled from `start_time` to before `end_time`; log the export for audits.

    Answers `GET /v1/organization/usage/export`.
    """
    period = requested_period(query.start_time, query.end_time)
    ids = {name: getattr(query, name) for name in ("project_ids", "user_ids", "api_key_ids", "models")}
    wanted = UsageFilter(admin.organisation, period.since, period.until, usage_dimensions(ids))
    if _slots.locked():
        raise ExportsBusy
    async with _slots:
        if await admin.administration.usage.count(wanted, MAX_ROWS + 1) > MAX_ROWS:
            message = f"The table would have more than {MAX_ROWS:,} rows: ask for a shorter time."
            raise InvalidRequest(message, param="start_time", code="too_many_rows")
        details = {"format": query.format, "start_time": period.since, "end_time": period.until}
        await admin.record(Event.USAGE_EXPORTED, admin.organisation, details=details)
        file = await _FILES[query.format](COLUMNS, _rows(admin, wanted, await _names(admin)))
    name = f"usage-{_day(period.since)}-{_day(period.until - 1)}.{query.format}"
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return StreamingResponse(tables.chunks(file), media_type=_TYPES[query.format], headers=headers)


async def _rows(admin: Administrator, wanted: UsageFilter, names: Mapping[str, str]) -> tables.Rows:
    batch: list[Row] = []
    async for job in admin.administration.usage.jobs(wanted):
        batch.append(_row(job, names))
        if len(batch) == BATCH:
            yield batch
            batch = []
    yield batch


async def _names(admin: Administrator) -> dict[str, str]:
    """Return the names of projects and the email addresses of users, by id."""
    projects = await admin.administration.projects.all(admin.organisation, archived=True)
    members = await admin.administration.members.all(admin.organisation)
    return {each.id: each.name for each in projects} | {each.user.id: each.user.email for each in members}


def _row(job: JobRecord, names: Mapping[str, str]) -> Row:
    if job.final is None:
        raise ValueError(f"job {job.id} is not settled")
    usage = job.final.usage
    return (
        datetime.fromtimestamp(job.final.at, UTC),
        job.id,
        job.project,
        names.get(job.project, ""),
        job.user,
        names.get(job.user, ""),
        format_key_id(job.key),
        job.model,
        job.service_class.value,
        job.final.outcome.value,
        usage.prompt_tokens,
        usage.cached_tokens,
        usage.completion_tokens,
        Decimal(job.cost or 0) / NANO,
    )


def _day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()
