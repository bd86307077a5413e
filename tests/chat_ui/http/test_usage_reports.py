"""Usage by person is one bucket of whole hours, which the store reads from its rollups."""

from __future__ import annotations

from typing import Any

from auth_billing.money.usage_rollups import HOUR
from chat_ui.http.usage_reports import by_person
from tests.fakes.chat import ChatHouse


async def test_usage_by_person_is_one_bucket_of_whole_hours(monkeypatch: Any) -> None:
    admin, widths = ChatHouse().admin(), list[int]()

    async def rows(_filter: object, width: int, *_: object) -> list[Any]:
        widths.append(width)
        return []

    monkeypatch.setattr(admin.administration.usage, "rows", rows)
    assert await by_person(admin, "org-0", 366) == []
    assert widths[0] % HOUR == 0
    assert widths[0] > 4 * 10**9  # seconds since 1970 of any date in sight: the bucket never ends
