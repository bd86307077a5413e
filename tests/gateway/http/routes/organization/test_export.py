"""Usage exports: complete, equal to the ledger, limited in rows and number."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import openpyxl
import pytest

from auth_billing.audit_log import Event
from gateway.http.routes.organization import export
from tests.gateway.http.routes.organization.conftest import AdminApi
from tests.gateway.http.routes.organization.test_usage import DAY, START, put

ASK = f"/usage/export?start_time={START}&end_time={START + DAY}"


async def test_both_formats_have_every_job_once(admin_api: AdminApi) -> None:
    jobs = [put(admin_api, number, at=number * 60.25, tokens=(101, 40, number)) for number in range(1_203)]
    put(admin_api, 5_000, at=2 * DAY)
    await admin_api.sdk.projects.update("proj_0", name="=1+1")
    as_csv = await admin_api.request("GET", f"{ASK}&format=csv")
    assert as_csv.headers["content-type"] == "text/csv; charset=utf-8"
    assert as_csv.headers["content-disposition"] == 'attachment; filename="usage-2024-10-04-2024-10-04.csv"'
    rows = list(csv.DictReader(io.StringIO(as_csv.text, newline="")))
    paid = sum(job.cost or 0 for job in jobs)
    assert [row["request_id"] for row in rows] == [job.id for job in jobs]
    assert sum(int(Decimal(row["cost_usd"]) * 10**9) for row in rows) == paid
    assert {row["project"] for row in rows} == {"'=1+1", ""}
    as_xlsx = await admin_api.request("GET", f"{ASK}&format=xlsx")
    sheet = openpyxl.load_workbook(io.BytesIO(as_xlsx.content), read_only=True).active
    assert sheet is not None
    heads, *found = sheet.iter_rows(values_only=True)
    cost, project = heads.index("cost_usd"), heads.index("project")
    assert len(found) == len(jobs)
    assert sum(round(float(str(row[cost])) * 10**9) for row in found) == paid
    assert {row[project] or "" for row in found} == {"=1+1", ""}
    assert [act.event for act in admin_api.audit_entries[1:]] == [Event.USAGE_EXPORTED] * 2


async def test_filters(admin_api: AdminApi) -> None:
    for number in range(6):
        put(admin_api, number, at=number)
    some = await admin_api.request("GET", f"{ASK}&format=csv&project_ids=proj_1&api_key_ids[]=key_key1")
    assert len(some.text.splitlines()) == 2
    none = await admin_api.request("GET", f"{ASK}&format=csv&models=.*")
    assert len(none.text.splitlines()) == 1


async def test_exports_are_limited_in_rows_and_number(admin_api: AdminApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """H92."""
    monkeypatch.setattr(export, "MAX_ROWS", 3)
    for number in range(4):
        put(admin_api, number, at=number)
    refused = await admin_api.request("GET", f"{ASK}&format=xlsx")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "too_many_rows")
    for query, param in (
        (ASK, "format"),
        (f"{ASK}&format=exe", "format"),
        (f"{ASK}&format=csv&limit=1000000000", "limit"),
        ("/usage/export?format=csv&start_time=0", "start_time"),
        (f"/usage/export?format=csv&start_time={2**40 - 1}&end_time={2**40}", "start_time"),
    ):
        refused = await admin_api.request("GET", query)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    for _ in range(export.MAX_CONCURRENT_EXPORTS):
        await export._slots.acquire()
    try:
        busy = await admin_api.request("GET", f"{ASK}&format=csv")
        assert (busy.status_code, busy.json()["error"]["code"]) == (503, "exports_busy")
        assert busy.headers["retry-after"] == "5"
    finally:
        for _ in range(export.MAX_CONCURRENT_EXPORTS):
            export._slots.release()
    assert admin_api.audit_entries == []
