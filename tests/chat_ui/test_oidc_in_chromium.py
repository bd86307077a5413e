"""Sign-in at a real OpenID Connect provider in Chromium: the page, the provider's pages, and the way back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn
from playwright.async_api import expect
from starlette.types import Receive, Scope, Send

from chat_ui.http.page import create_app
from tests.chat_ui.chromium import Visit, chromium
from tests.chat_ui.conftest import DIST
from tests.chat_ui.test_oidc import ALICE, OidcScene
from tests.oidc.provider_process import ProviderProcess

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@asynccontextmanager
async def served() -> AsyncIterator[tuple[OidcScene, str]]:
    """Serve page and API with a provider; yield the scene and the origin."""
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        provider = ProviderProcess(origin)
        provider.start()
        scene = OidcScene(provider)
        await scene.organisations()
        api, page = scene.gateway(origin=origin), create_app(DIST)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await (api if scope["path"].startswith("/api") else page)(scope, receive, send)

        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning", timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield scene, origin
        finally:
            server.should_exit = True
            await serving
            provider.stop()
            for client in scene.clients:
                await client.close()
            scene.people.passwords.close()


async def log_in_at_provider(visit: Visit, subject: str) -> None:
    await visit.page.get_by_role("button", name="Sign in with Acme").click()
    await visit.page.get_by_placeholder("Enter any login").fill(subject)
    await visit.page.get_by_placeholder("and password").fill("any")
    await visit.page.get_by_role("button", name="Sign-in").click()


async def test_a_person_signs_in_comes_back_to_the_page_and_signs_out(tmp_path: Path) -> None:
    async with served() as (scene, origin), chromium() as browser:
        scene.provider.account("alice", **ALICE)
        visit = await Visit.to(origin, browser)
        await visit.page.goto(f"{origin}/account")
        await expect(visit.page.get_by_role("button", name="Sign in with Acme")).to_be_visible()
        assert await visit.violations() == []
        await visit.page.screenshot(path=tmp_path / "sign-in.png")
        await log_in_at_provider(visit, "alice")
        await expect(visit.page).to_have_url(f"{origin}/account")
        await expect(visit.page.get_by_text("alice@example.org")).to_be_visible()
        await expect(visit.page.get_by_text("Change the password")).to_have_count(0)
        cookies = {each["name"]: each for each in await visit.context.cookies(origin)}
        assert {name: each["httpOnly"] for name, each in cookies.items() if name.startswith("headrace")} == {
            "headrace-access": True,
            "headrace-refresh": True,
            "headrace-csrf": False,
        }
        await visit.page.get_by_role("button", name="Sign out here").click()
        await visit.page.get_by_role("button", name="Yes, sign me out").click()
        await expect(visit.page).to_have_url(f"{origin}/sign-in")
        await expect(visit.page.get_by_role("button", name="Sign in with Acme")).to_be_visible()
        assert visit.complaints == []
        await visit.context.close()


async def test_a_refused_person_reads_why(tmp_path: Path) -> None:
    async with served() as (scene, origin), chromium() as browser:
        scene.provider.account("eve", **ALICE | {"groups": []})
        visit = await Visit.to(origin, browser)
        await visit.page.goto(f"{origin}/")
        await log_in_at_provider(visit, "eve")
        await expect(visit.page.get_by_role("alert").first).to_contain_text("None of your groups has access here")
        await expect(visit.page).to_have_url(f"{origin}/sign-in")
        await visit.page.screenshot(path=tmp_path / "refused.png")
        await visit.context.close()
