"""`headrace dead` on a real broker: the commands of docs/dead-letters.md, and refusals."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from typer.testing import CliRunner

from auth_billing.money.billing_records import JobRecord, JobState
from auth_billing.prices.pricing import Price
from auth_billing.store.connection import StoreConnection
from auth_billing.store.jobs import MongoJobStore
from infra.cli.dead_letter_commands import refusal
from infra.cli.main import app
from router import messages, topology
from router.bus import Bus
from router.dead_letters import DeadLetters
from router.diagnosis import Diagnosis
from router.errors import BrokerUnavailable
from router.messages import FailureCode, ServiceClass
from router.transport.base import HeaderValue, Outgoing
from router.transport.memory import MemoryBroker, MemoryTransport
from router.transport.rabbitmq import RabbitMQTransport
from runtime.lifecycle import StartupError
from tests.contract.examples import JOB, USAGE_RECORD, msgspec_replace

Dead = Callable[..., str]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "dead-letters.md"
SECRET = "the capital of Atlantis"
DIAGNOSIS = Diagnosis(
    FailureCode.FAILED_REPEATEDLY, "the engine crashed 3 times in a row while it ran this job", 3, "worker-2"
)


def job(id_: str, *, seconds: float = 600) -> messages.Job:
    prompt = messages.TextPrompt(SECRET)
    return msgspec_replace(JOB, id=id_, deadline=time.time() + seconds, prompt=prompt, delivered=[])


def dead(key: str, body: bytes, headers: dict[str, HeaderValue] | None = None) -> Outgoing:
    return Outgoing(topology.DEAD_LETTERS_EXCHANGE, key, body, headers or {}, persistent=True)


@pytest.fixture
def headrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dead]:
    """Runs a command; returns its output, prefixed by the exit status if that is not 0."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setattr("runtime.logging.configure", lambda *_, **__: None)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments)
        if isinstance(done.exception, StartupError):
            return f"cannot start: {done.exception}"
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.output if done.exit_code == 0 else f"{done.exit_code}: {done.output}"

    yield run
    structlog.reset_defaults()


async def fill(url: str) -> None:
    bus = Bus(RabbitMQTransport(url, "test", publish_timeout=10))
    await bus.start()
    usage = messages.encode(msgspec_replace(USAGE_RECORD, job="chatcmpl-usage"))
    letters = [
        dead(topology.DIAGNOSED_ROUTING_KEY, messages.encode(job("chatcmpl-poison")), dict(DIAGNOSIS.headers())),
        dead(topology.SETTLE_ROUTING_KEY, usage, {"x-headrace-reason": "tenant unknown"}),
        dead(topology.dead_job_routing_key("m"), messages.encode(job("chatcmpl-waiting"))),
        dead(topology.dead_job_routing_key("m"), messages.encode(job("chatcmpl-late", seconds=-9))),
        dead(topology.dead_job_routing_key("m"), messages.encode(job("chatcmpl-settled"))),
        dead(topology.DIAGNOSED_ROUTING_KEY, b'{"secret": "' + SECRET.encode()),
    ]
    for letter in letters:
        await bus._transport.publish(letter)
    await bus.declare_model(JOB.model)
    await bus.close()


async def settle(database_url: str) -> None:
    connection = StoreConnection(database_url)
    record = JobRecord(
        id="chatcmpl-settled",
        **cast(dict[str, Any], dict.fromkeys(("organisation", "project", "key", "user", "model", "gateway"), "x")),
        service_class=ServiceClass.DEFAULT,
        created=1.0,
        deadline=2.0,
        month="2026-11",
        price=Price(1, 1, 1, 1),
        hold=0,
        state=JobState.SETTLED,
    )
    await MongoJobStore(connection).insert([record])
    connection.close()


def documented() -> list[list[str]]:
    """The commands of the page, in order, without `headrace`."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [line.split()[1:] for block in blocks for line in block.splitlines() if line.startswith("headrace dead ")]


@pytest.mark.rabbitmq
@pytest.mark.store
def test_list_show_replay_and_drop(
    headrace: Dead, rabbitmq_url: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_AMQP_URL", rabbitmq_url)
    monkeypatch.setenv("HEADRACE_MONGODB_URL", database_url)
    asyncio.run(fill(rabbitmq_url))
    asyncio.run(settle(database_url))
    commands = documented()
    listed, as_json, shown, prompt, replayed, dropped = [headrace(*command) for command in commands]

    assert "the engine crashed 3 times in a row while it ran this job" in listed
    metadata = {each["id"]: each for each in json.loads(as_json)}
    assert len(metadata) == 6
    assert metadata["chatcmpl-poison"]["deaths"] == 3
    assert metadata["chatcmpl-poison"]["age_seconds"] < 24 * 3600
    assert [metadata[id_]["kind"] for id_ in ("chatcmpl-poison", "chatcmpl-usage")] == ["job", "usage"]
    unreadable = next(id_ for id_ in metadata if id_.startswith("body-"))
    assert metadata["chatcmpl-usage"]["reason"] == "tenant unknown"
    assert "x-headrace-by" in shown
    assert SECRET not in shown + listed + as_json + headrace("dead", "show", unreadable)
    assert json.loads(prompt)[0]["body"]["prompt"]["text"] == SECRET
    assert SECRET in headrace("dead", "show", unreadable, "--prompt")
    assert replayed == "chatcmpl-usage (usage): queued again\n"
    assert dropped == "chatcmpl-poison (job): dropped\n"
    assert headrace("dead", "drop", "chatcmpl-poison", "--yes") == "1: headrace: no dead letter chatcmpl-poison\n"

    said = headrace("dead", "replay", "--all")
    assert said.startswith("1: ")
    assert "chatcmpl-waiting (job): queued again" in said
    assert "chatcmpl-late (job): refused: its deadline passed" in said
    assert "chatcmpl-settled (job): refused: it is settled already" in said
    assert f"{unreadable} (unreadable): refused: it can't be read" in said
    assert headrace("dead", "drop", "--all").startswith("1: Delete all dead letters")  # not confirmed
    assert len(json.loads(headrace("dead", "list", "--json"))) == 3
    headrace("dead", "drop", "--all", "--yes")
    assert headrace("dead", "list") == "no dead letters\n"
    assert headrace("dead", "drop").startswith("2:")


def test_without_a_broker_it_says_what_to_set(headrace: Dead) -> None:
    said = headrace("dead", "list")
    assert said.startswith("cannot start: no broker runs in")
    assert "HEADRACE_AMQP_URL" in said


async def test_an_interrupted_listing_loses_nothing_and_rejected_replays_stay() -> None:
    broker = MemoryBroker()
    bus = Bus(MemoryTransport(broker, "test"))
    await bus.start()
    await bus._transport.publish(
        dead(topology.DIAGNOSED_ROUTING_KEY, messages.encode(job("a")), dict(DIAGNOSIS.headers()))
    )
    await bus._transport.publish(dead(topology.dead_job_routing_key("m"), messages.encode(job("b"))))

    async with DeadLetters(bus) as letters:
        waiting, closed = [letter async for letter in letters]
        assert len(broker.queue(topology.DEAD_QUEUE)) == 0
        assert refusal(waiting, time.time(), set()) is None
        assert "it is closed" in str(refusal(closed, time.time(), set()))
        broker.alarm = True
        with pytest.raises(BrokerUnavailable):
            await letters.replay(waiting)
    assert [len(broker.queue(queue)) for queue in (topology.DEAD_QUEUE, topology.DIAGNOSED_QUEUE)] == [1, 1]
