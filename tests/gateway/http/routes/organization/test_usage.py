"""Usage and costs through the stock SDK: buckets, groups, pages, and totals equal to the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auth_billing.money.billing_records import JobRecord
from gateway.http.routes.organization import usage as usage_routes
from router.messages import ServiceClass, Usage
from tests.auth_billing.money.test_usage_reports import job
from tests.gateway.http.routes.organization.conftest import OURS, AdminApi

DAY = 86_400
START = 20_000 * DAY


def put(
    admin_api: AdminApi, number: int, *, at: float, tokens: tuple[int, int, int] = (100, 40, 30), **fields: Any
) -> JobRecord:
    usage = Usage(prompt_tokens=tokens[0], cached_tokens=tokens[1], completion_tokens=tokens[2])
    record = job(number, at=START + at, usage=usage, organisation=OURS, **fields)
    admin_api.stage.organisation.usage.records.append(record)
    return record


async def test_buckets_have_their_usage(admin_api: AdminApi) -> None:
    put(admin_api, 0, at=10)
    put(admin_api, 1, at=20, user="")
    put(admin_api, 2, at=DAY + 5, service_class=ServiceClass.FLEX)
    put(admin_api, 3, at=DAY + 6, tokens=(50, 0, 0), id="embd-3")
    page = await admin_api.sdk.usage.completions(start_time=START, end_time=START + 3 * DAY)
    assert (page.object, page.has_more, page.next_page) == ("page", False, None)
    assert [(each.start_time, each.end_time) for each in page.data] == [
        (START + day * DAY, START + (day + 1) * DAY) for day in range(3)
    ]
    first = page.data[0].results[0]
    assert first.object == "organization.usage.completions.result"
    assert (first.input_tokens, first.input_cached_tokens, first.output_tokens, first.num_model_requests) == (
        200,
        80,
        60,
        2,
    )
    assert (first.project_id, first.model, first.batch, first.service_tier) == (None, None, None, None)
    assert [len(each.results) for each in page.data] == [1, 1, 0]
    embeddings = await admin_api.sdk.usage.embeddings(start_time=START, end_time=START + 3 * DAY, group_by=["model"])
    assert [len(each.results) for each in embeddings.data] == [0, 1, 0]
    assert (embeddings.data[1].results[0].input_tokens, embeddings.data[1].results[0].model) == (50, "org/model")


async def test_images_are_counted_apart_from_completions(admin_api: AdminApi) -> None:
    drawn = job(0, at=START + 10, usage=Usage(prompt_tokens=0, units={"512x512": 3}), organisation=OURS, id="img-0")
    admin_api.stage.organisation.usage.records.append(drawn)
    put(admin_api, 1, at=20)
    page = await admin_api.sdk.usage.images(start_time=START, end_time=START + DAY, group_by=["model"])
    (result,) = page.data[0].results
    assert result.object == "organization.usage.images.result"
    assert (result.images, result.num_model_requests, result.model) == (3, 1, "org/model")
    completions = await admin_api.sdk.usage.completions(start_time=START, end_time=START + DAY)
    assert [each.num_model_requests for each in completions.data[0].results] == [1]


async def test_groups_and_filters(admin_api: AdminApi) -> None:
    for number in range(6):
        put(admin_api, number, at=number, service_class=list(ServiceClass)[number % 2])
    ask = admin_api.sdk.usage.completions
    fields = ["project_id", "user_id", "api_key_id", "model", "batch", "service_tier"]
    page = await ask(start_time=START, end_time=START + 60, bucket_width="1m", group_by=fields)
    found = [[getattr(row, name) for name in fields] for row in page.data[0].results]
    assert len(found) == 6
    assert ["proj_0", "user-0", "key_key0", "org/model", False, "priority"] in found
    assert sum(row.num_model_requests for row in page.data[0].results) == 6
    only = await ask(start_time=START, api_key_ids=["key_key1"], project_ids=["proj_1"], end_time=START + DAY)
    assert [row.num_model_requests for row in only.data[0].results] == [1]
    nothing = await ask(start_time=START, end_time=START + DAY, batch=True)
    assert nothing.data[0].results == []


async def test_pages_are_consecutive(admin_api: AdminApi) -> None:
    for number in range(50):
        put(admin_api, number, at=number * 1800)
    asked = {"start_time": START + 1, "end_time": START + 26 * 3600, "bucket_width": "1h", "limit": 10}
    pages: list[Any] = [await admin_api.sdk.usage.completions(**asked)]
    while pages[-1].has_more:
        pages.append(await admin_api.sdk.usage.completions(**asked, page=pages[-1].next_page))
    buckets = [bucket for page in pages for bucket in page.data]
    assert [len(page.data) for page in pages] == [10, 10, 6]
    assert [bucket.start_time for bucket in buckets[1:]] == [bucket.end_time for bucket in buckets[:-1]]
    assert (buckets[0].start_time, buckets[-1].end_time) == (START + 1, START + 26 * 3600)
    assert sum(row.num_model_requests for bucket in buckets for row in bucket.results) == 49  # the first was before


async def test_costs_are_the_ledgers_to_the_nano_dollar(admin_api: AdminApi) -> None:
    jobs = [put(admin_api, number, at=number * 7000.0, tokens=(101, 40, 31 + number)) for number in range(20)]
    jobs.append(put(admin_api, 20, at=5.0, tokens=(10, 0, 0), id="embd-20", model="=embedder"))
    capped = put(admin_api, 21, at=6.0)
    admin_api.stage.organisation.usage.records[-1] = replace(capped, cost=(capped.cost or 0) - 5)
    paid = sum(record.cost or 0 for record in jobs) + (capped.cost or 0) - 5
    for group_by in ([], ["line_item"], ["project_id", "line_item", "api_key_id"]):
        page = await admin_api.sdk.usage.costs(start_time=START, end_time=START + 3 * DAY, group_by=group_by)
        amounts = [row.amount for bucket in page.data for row in bucket.results]
        assert {amount.currency for amount in amounts} == {"usd"}
        assert sum(round(float(amount.value) * 10**9) for amount in amounts) == paid
    items = {row.line_item: row for row in page.data[0].results}
    assert {"org/model, input", "org/model, cached input", "org/model, output", "=embedder, input"} <= items.keys()
    assert round(float(items["org/model, not charged"].amount.value) * 10**9) == -5
    assert (items["=embedder, input"].quantity, items["=embedder, input"].quantity_unit) == (10, "tokens")
    assert items["=embedder, input"].project_id == "proj_0"


@pytest.mark.parametrize("path", ["/usage/completions", "/usage/embeddings", "/usage/images", "/costs"])
async def test_invalid_usage_queries_are_refused(admin_api: AdminApi, path: str) -> None:
    """H90."""
    questions: dict[str, str] = {
        "": "start_time",
        "start_time=abc": "start_time",
        "start_time=-1": "start_time",
        "start_time=1e9": "start_time",
        f"start_time={START}&end_time={START}": "end_time",
        f"start_time={START}&end_time={START - 1}": "end_time",
        f"start_time={START}&end_time={START + 3650 * DAY}": "start_time",
        f"start_time={2**40 - 1}&end_time={2**40}": "start_time",
        "start_time=0": "start_time",
        f"start_time={START}&end_time={START + DAY}&limit=1000000000": "limit",
        f"start_time={START}&end_time={START + DAY}&limit=0": "limit",
        f"start_time={START}&end_time={START + DAY}&bucket_width=1y": "bucket_width",
        f"start_time={START}&end_time={START + DAY}&group_by=password": "group_by[0]",
        f"start_time={START}&end_time={START + DAY}&page=page_1": "page",
        f"start_time={START}&end_time={START + DAY}&page={{}}": "page",
        f"start_time={START}&end_time={START + DAY}&sort[$where]=1": "sort[$where]",
        f"start_time={START}&end_time={START + DAY}&project_ids[$ne]=1": "project_ids[$ne]",
        f"start_time[$gt]={START}": "start_time[$gt]",
    }
    for query, param in questions.items():
        response = await admin_api.request("GET", f"{path}?{query}")
        assert response.status_code == 400, query
        assert response.json()["error"]["param"] == param, query


async def test_a_page_is_limited_in_rows(admin_api: AdminApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_routes, "MAX_ROWS", 2)
    for number in range(3):
        put(admin_api, number, at=number)
    ask = f"/usage/completions?start_time={START}&end_time={START + DAY}"
    assert (await admin_api.request("GET", ask)).status_code == 200
    refused = await admin_api.request("GET", f"{ask}&group_by=api_key_id")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "too_many_rows")
    patterns = f"{ask}&models=(a%2B)%2B$&user_ids=.*"
    assert (await admin_api.request("GET", patterns)).json()["data"][0]["results"] == []
