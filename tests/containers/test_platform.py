"""The platform of docker-compose.yml, used as the README says: key, stream, chat, scaling, a killed worker, restart."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from playwright.async_api import Browser, expect

from tests.chat_ui.chromium import Visit, chromium
from tests.containers.compose import Compose, third_party_images
from tests.containers.conftest import Platform
from tests.containers.images import timed
from tests.containers.load import MODEL, load, stream

in_browser = pytest.mark.asyncio(loop_scope="module")
TIMEOUT = 60_000
"""Timeout in milliseconds; long, because the machine may be busy."""
ADDRESS, PASSWORD = "ada@example.org", "correct horse battery"
QUESTION = "What is the capital of France?"
GREETING = "What would you like to know?"


@pytest.fixture(scope="module")
def client(platform: Platform) -> Iterator[OpenAI]:
    """A client with a key that is made as the README says."""
    key = platform.compose.exec("billing", "headrace", "key").splitlines()[-1]
    with OpenAI(base_url=f"{platform.origin}/v1", api_key=key, timeout=120, max_retries=0) as client:
        wait_for_model(client)
        yield client


def wait_for_model(client: OpenAI, timeout: float = 30) -> None:
    """Wait until the gateway has a heartbeat of a healthy worker."""
    until = time.monotonic() + timeout
    while MODEL not in [model.id for model in client.models.list()]:
        if time.monotonic() > until:
            raise TimeoutError(f"no worker serves {MODEL}")
        time.sleep(0.5)


@pytest.fixture(scope="module")
def seen() -> dict[str, str]:
    """The answers that were shown in the chat, by the address of their conversation."""
    return {}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


def test_the_override_changes_images_of_third_parties_only(compose: tuple[Compose, int]) -> None:
    shipped, merged = (compose[0].configuration(overridden=value) for value in (False, True))
    for service in third_party_images():
        if service in merged["services"]:
            merged["services"][service]["image"] = shipped["services"][service]["image"]
    assert merged == shipped


def test_each_service_has_its_own_user_of_rabbitmq(platform: Platform) -> None:
    list_users = ["list_connections", "user", "--quiet", "--no-table-headers"]
    listed = platform.compose.exec("rabbitmq", "rabbitmqctl", *list_users).split()
    assert set(listed) == {"gateway", "billing", "searcher", "assistant"}  # a worker that runs searches


def test_the_database_requires_its_password(platform: Platform) -> None:
    code = """
import os, pymongo
for url in (os.environ["HEADRACE_MONGODB_URL"], "mongodb://store/?directConnection=true"):
    try:
        print(len(pymongo.MongoClient(url).headrace.list_collection_names()) > 0)
    except pymongo.errors.OperationFailure as error:
        print(error.code)
"""
    assert platform.compose.exec("billing", "python", "-c", code).split() == ["True", "13"]


def test_a_key_and_a_stream(client: OpenAI) -> None:
    text, reason = stream(client, QUESTION)
    assert "Paris" in text
    assert reason in ("stop", "length")


def test_the_assistant_calculates(client: OpenAI) -> None:
    """SymPy runs in its sandbox inside a confined container."""
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is 15% of 240?"}]
    answer = client.chat.completions.create(model="assistant", messages=messages, max_tokens=8)
    _, tool = answer.choices[0].message.model_extra["steps"]  # type: ignore[index]
    assert tool["state"] == "done", tool
    assert tool["data"]["result"]["numeric"] == 36


@in_browser
async def test_the_chat_in_a_browser(platform: Platform, browser: Browser, seen: dict[str, str]) -> None:
    link = platform.compose.exec("billing", "headrace", "invite", "--url", platform.origin).splitlines()[-1]
    visit = await Visit.to(platform.origin, browser, TIMEOUT)
    await visit.page.goto(link)
    await visit.page.get_by_label("Your name").fill("Ada")
    await visit.page.get_by_label("E-mail address").fill(ADDRESS)
    await visit.page.get_by_label("Password").fill(PASSWORD)
    await visit.page.get_by_role("button", name="Sign up").click()
    await expect(visit.page.get_by_role("heading", name=GREETING)).to_be_visible()
    await visit.ask(QUESTION)
    answer = visit.page.locator("article.answer").last
    await expect(answer).to_have_attribute("aria-busy", "false")
    await expect(visit.page).to_have_url(re.compile("/c/conv-"))
    seen[visit.page.url] = await answer.locator(".markdown").inner_text()
    assert all(seen.values())
    await visit.expect_clean()
    await visit.context.close()


def kill_a_worker(compose: Compose) -> str:
    """Kill a worker's process as a crash would, and return the container's name."""
    container = compose.containers("worker")[0]
    os.kill(compose.inspect(container)["State"]["Pid"], signal.SIGKILL)
    return container


def test_workers_are_scaled_and_killed_under_load(platform: Platform, client: OpenAI) -> None:
    compose = platform.compose
    with load(client) as running, timed("scaling workers 1, 3, 1 and killing one under load"):
        running.wait_for(2)
        running.note("scale to 3")
        compose.scale_workers(3)
        assert len(compose.containers("worker")) == 3
        compose.wait_until_healthy()
        running.wait_for(3)
        running.note("kill")
        killed = kill_a_worker(compose)
        running.wait_for(6)
        until = time.monotonic() + 60
        while killed not in compose.running():
            assert time.monotonic() < until, f"{killed} was not restarted"
            time.sleep(0.5)
        compose.wait_until_healthy()
        running.note("scale to 1")
        compose.scale_workers(1)
        running.note("scaled to 1")
        running.wait_for(3)
    assert running.failures == []
    print(f"containers: {running.answers} answers under load, none failed")


@in_browser
async def test_accounts_and_conversations_outlive_a_restart(
    platform: Platform, client: OpenAI, browser: Browser, seen: dict[str, str]
) -> None:
    with timed("restart of everything"):
        platform.compose("stop")
        assert not platform.compose.running()
        platform.compose.up()
        platform.compose.wait_until_healthy()
    wait_for_model(client)
    assert "Paris" in stream(client, QUESTION)[0]
    visit = await Visit.to(platform.origin, browser, TIMEOUT)
    await visit.page.goto(platform.origin)
    await visit.page.get_by_label("E-mail address").fill(ADDRESS)
    await visit.page.get_by_label("Password").fill(PASSWORD)
    await visit.page.get_by_role("button", name="Sign in", exact=True).click()
    await expect(visit.page.get_by_role("heading", name=GREETING)).to_be_visible()
    assert seen
    for url, text in seen.items():
        await visit.page.goto(url)
        await expect(visit.page.locator("article.answer .markdown").last).to_have_text(text.strip())
    await visit.context.close()
