"""The settings of moderation in a real Chromium, over the real API with stores in memory.

If `HEADRACE_SCREENSHOTS` names a folder, a screenshot of the form is written there.
"""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from auth_billing.access.roles import Role
from auth_billing.people.moderation_policies import ModerationPolicy
from tests.chat_ui.chromium import Visit, chromium
from tests.chat_ui.conftest import DIST, StubServer
from tests.chat_ui.test_password_in_chromium import application, picture, sign_in
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.chat import ChatHouse
from tests.fakes.sessions import PASSWORD, PeopleFixture


async def test_an_administrator_has_the_texts_of_a_project_checked() -> None:
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    people, house = PeopleFixture(), ChatHouse()
    house.organisation.accounts = people.accounts
    access = people.process()
    await people.sign_up_member(access, Role.ADMIN)
    with StubServer(application(house.chat(access, ListAuditLogStore()))) as origin:
        async with chromium() as browser:
            visit = await Visit.to(origin, browser)
            page = visit.page
            await page.goto(f"{origin}/admin/moderation")
            await sign_in(page, "admin", PASSWORD)
            await expect(page.get_by_role("cell", name="Nothing is checked")).to_be_visible()
            await page.get_by_role("button", name="Change: Default").click()
            form = page.get_by_role("dialog")
            await form.get_by_label("Checked by").select_option("moderation-rules")
            await form.get_by_label("Blocks").select_option("Only these categories")
            await form.get_by_label("violence").check()
            await picture(page, "moderation")
            await form.get_by_role("button", name="Save").click()
            await expect(page.get_by_role("cell", name="moderation-rules")).to_be_visible()
            await expect(page.get_by_role("cell", name="Prompts, Answers")).to_be_visible()
            [policy] = house.organisation.moderation_policies.policies.values()
            assert policy == ModerationPolicy("moderation-rules", frozenset({"violence"}))
            await visit.expect_clean()
    people.passwords.close()
