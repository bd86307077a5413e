"""A chat answer survives the death of its gateway and then of its worker: its reader gets the complete answer.

Real processes and the real lease of ten seconds, so only with `CHAOS_CHAT=1` (`make chaos`).
`tests/chat_ui/test_generations.py` has the cases one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

from auth_billing.audit.auditor import Auditor
from auth_billing.store.audit import MongoAuditStore
from chat_ui.generations import titles
from infra.accounts import sign_in_services
from infra.home.process_records import kill_group
from tests.chaos import books
from tests.chaos.installed import marks_of_a_run, skip_unless_installed
from tests.chaos.stack import MODEL, Size, Stack, running
from tests.chat_ui.browser_client import Browser
from tests.chat_ui.chat_clients import Person, Reader, text_of

pytestmark = marks_of_a_run("CHAOS_CHAT", "takes half a minute: CHAOS_CHAT=1, or make chaos")

TOKENS = 120
TITLE_TOKENS = titles.MAX_TOKENS
PATIENCE_SECONDS = 120.0


async def test_an_answer_goes_on_when_its_gateway_and_then_its_worker_are_killed() -> None:
    skip_unless_installed()
    async with running(Size(gateways=2, workers=2, step_seconds=0.05)) as stack, asyncio.timeout(PATIENCE_SECONDS):
        here, there = await owner(stack)
        async with aclosing(here.browser.client), aclosing(there.browser.client):
            conversation = await here.conversation(model=MODEL, max_tokens=TOKENS)
            answer = (await here.ask(conversation, "Count, please"))["answer"]["id"]
            reader = Reader(f"/conversations/{conversation}/messages/{answer}/events")
            await reader.follow(here.browser, lambda: reader.numbers >= 10)
            with frozen_engines(stack):  # so that it is half written for as long as this takes
                await until_stored(there, conversation)
                (killed,) = await books.read_jobs(stack.access.connection)
                kill(stack, "gateway-1")
                await stack.supervisor["gateway-1"].stop()  # and it is not restarted

            reading = asyncio.create_task(reader.follow(there.browser, lambda: False))
            await until(
                lambda: bool(reader.events) and reader.last_id.startswith("1.") and reader.numbers > 60, reading
            )
            kill(stack, worker_at_work(stack))
            await reading

            assert [name for name, _, _ in reader.events[-2:]] == ["done", "title"]
            message = (await there.tree(conversation))["messages"][-1]
            assert reader.events[-2][1]["message"]["text"] == message["text"] == text_of(reader.events)
            # The model of the tests begins what it goes on with by a blank, which is a token too.
            assert message["text"] == "".join(f"{number} " for number in range(TOKENS - 1))
            assert (message["state"], message["usage"]["completion_tokens"]) == ("done", TOKENS)
            await billed(stack, message, killed)


async def owner(stack: Stack) -> tuple[Person, Person]:
    """The owner of the installation, in a browser at each of the two gateways."""
    origins = [f"http://127.0.0.1:{stack.ports[name]}" for name in stack.gateways]
    here, there = (Browser(None, origin) for origin in origins)
    token = await sign_in_services.first_owner_token(stack.access)
    assert (await here.send("POST", "/start", {"invitation": token})).status_code == 200
    there.take(here.cookies)
    return Person(here), Person(there)


async def until_stored(person: Person, conversation: str) -> None:
    """Wait until ten tokens of the answer are in the store."""
    while True:
        usage = (await person.tree(conversation))["messages"][-1]["usage"]
        if usage is not None and usage["completion_tokens"] >= 10:
            return
        await asyncio.sleep(0.1)


async def until(condition: Callable[[], bool], task: asyncio.Task[None]) -> None:
    """Wait for it; if `task` ends first, that is wrong."""
    while not condition():
        if task.done():
            await task
            raise AssertionError("the answer ended early")
        await asyncio.sleep(0.02)


@contextmanager
def frozen_engines(stack: Stack) -> Iterator[None]:
    """Inside, no token is made."""
    engines = [engine for name in stack.workers if (engine := stack.engine(name)) is not None]
    for engine in engines:
        engine.suspend()
    try:
        yield
    finally:
        for engine in engines:
            engine.resume()


def kill(stack: Stack, name: str) -> None:
    """kill -9, of its children too."""
    process = stack.process(name)
    assert process is not None
    kill_group(process.pid)


def worker_at_work(stack: Stack) -> str:
    """Whose engine has made the last token."""
    latest = max(stack.counts.glob("*.jsonl"), key=lambda log: log.stat().st_mtime)
    return latest.name.rpartition("-")[0]


async def billed(stack: Stack, message: Any, killed: str) -> None:
    """What was written after the killing is billed to the token, the rest is held until the sweeper takes it for dead.

    (That the sweeper does, and to what, is for `tests/auth_billing/money`.)
    """
    connection = stack.access.connection
    while await connection.durable("jobs").count_documents({"state": {"$ne": "settled"}, "_id": {"$ne": killed}}):
        await asyncio.sleep(0.2)
    jobs = await books.read_jobs(connection)
    (rest,) = (job for id_, job in jobs.items() if id_ != killed and job.billed.completion != TITLE_TOKENS)
    assert len(jobs) == 3  # one is the title's
    input_price, _, output_price = rest.price
    before = message["usage"]["completion_tokens"] - rest.billed.completion
    prompt_before = message["usage"]["prompt_tokens"] - rest.billed.prompt
    assert (rest.source, before >= 10, prompt_before > 0) == ("receipt", True, True)
    assert message["cost_nano"] == rest.cost + prompt_before * input_price + before * output_price
    report = await Auditor(MongoAuditStore(connection), pause=0.5).audit()
    assert not report.differences
