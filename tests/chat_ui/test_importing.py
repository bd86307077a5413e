"""Imports store complete conversations once, and leave no partial ones when a process dies."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, BinaryIO

import msgspec
import pytest

from auth_billing.errors import StoreUnavailable
from chat_ui.errors import Busy, ImportRunning
from chat_ui.history.records import Owner
from chat_ui.importing.frames import Batch, Frame, ImportRequest, Opened, ParserDied, Refused
from chat_ui.importing.importer import Importer, ReceiveFile
from chat_ui.importing.parser import BATCH_SIZE, parse
from chat_ui.importing.parser_process import parse_in_sandbox
from chat_ui.importing.records import Import, ImportState, Skipped, SkipReason
from router.timings import DEFAULT_TIMINGS, Timings
from tests.chat_ui.chat_clients import eventually
from tests.fakes.chat import ChatHouse

ADA = Owner("org-acme", "user-ada")
REQUEST = ImportRequest(ADA, "m", 1.7e9)


def exported(number: int, *more: Any) -> bytes:
    """Return an Open WebUI export with `number` conversations of two messages."""
    return json.dumps([*(conversation(each) for each in range(number)), *more]).encode()


def conversation(name: object, answers: int = 1) -> dict[str, Any]:
    messages: dict[str, Any] = {f"q{name}": {"role": "user", "content": f"Question {name}"}}
    for answer in range(answers):
        messages[f"a{name}-{answer}"] = {"parentId": f"q{name}", "role": "assistant", "content": "Żółw 🐢"}
    return {"title": f"No. {name}", "chat": {"history": {"messages": messages}}}


def file(raw: bytes) -> ReceiveFile:
    """Return a function that receives these bytes as a file."""

    @asynccontextmanager
    async def receive() -> AsyncIterator[BinaryIO]:
        with tempfile.TemporaryFile() as source:
            source.write(raw)
            source.seek(0)
            yield source

    return receive


async def parsed(raw: bytes) -> list[Frame]:
    async with file(raw)() as source:
        return [frame async for frame in parse_in_sandbox(source, REQUEST)]


class House(ChatHouse):
    """A chat whose parsers wait for a signal before each batch."""

    def __init__(self, timings: Timings = DEFAULT_TIMINGS) -> None:
        super().__init__(timings)
        self.go = asyncio.Semaphore(0)
        self.death: Exception | None = None
        self.made: list[Importer] = []

    async def hesitant(self, source: BinaryIO, request: ImportRequest) -> AsyncIterator[Frame]:
        for frame in parse(source.read(), request):
            if isinstance(frame, Batch):
                await self.go.acquire()
                if self.death is not None:
                    raise self.death
            yield frame

    def gateway(self) -> Importer:
        self.made.append(self.importer(self.hesitant))
        return self.made[-1]

    async def ended(self, importer: Importer) -> Import:
        await eventually(lambda: not importer._running)
        last = await importer.last(ADA)
        assert last is not None
        return last

    async def taken(self, raw: bytes) -> Import:
        importer = self.gateway()
        for _ in range(100):
            self.go.release()
        await importer.begin(ADA, file(raw), "m")
        last = await self.ended(importer)
        self.go = asyncio.Semaphore(0)
        return last

    @property
    def there(self) -> int:
        """Number of conversations; requires that each has its messages and that no other messages exist."""
        found = {each.conversation for _, each in self.history.messages.values()}
        assert found == {key for _, key in self.history.conversations}
        return len(found)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House(timings=Timings(import_store_timeout=0.0))
    yield house
    for each in house.made:
        await each.close()


async def test_a_file_is_imported_in_batches_and_once(house: House) -> None:
    raw = exported(BATCH_SIZE * 2 + 3, {"title": "No", "chat": 3})
    last = await house.taken(raw)
    number = BATCH_SIZE * 2 + 3
    assert (last.state, last.total, last.done, last.imported, last.known) == (
        ImportState.DONE,
        number + 1,
        number + 1,
        number,
        0,
    )
    assert [each.title for each in last.skipped] == ["No"]
    assert house.there == number
    last = await house.taken(raw)
    assert (last.done, last.imported, last.known, len(last.skipped)) == (number + 1, 0, number, 1)
    assert house.there == number


async def test_a_grown_conversation_is_imported_again_and_a_renamed_one_is_not(house: House) -> None:
    await house.taken(exported(0, conversation("a"), conversation("b")))
    renamed = conversation("a") | {"title": "Another"}
    last = await house.taken(exported(0, renamed, conversation("b", answers=2), conversation("b", answers=2)))
    assert (last.imported, last.known) == (1, 2)
    assert house.there == 3
    assert (await house.importer().last(Owner("org-acme", "user-eve"))) is None


async def test_imports_are_limited_per_person_and_per_process(house: House) -> None:
    first, second = house.gateway(), house.gateway()
    begun = await first.begin(ADA, file(exported(1)), "m")
    assert (begun.state, begun.total) == (ImportState.RUNNING, 1)
    for importer in (first, second):
        with pytest.raises(ImportRunning):
            await importer.begin(ADA, file(exported(1)), "m")
    await first.begin(Owner("org-acme", "user-eve"), file(exported(1)), "m")
    with pytest.raises(Busy):
        await first.begin(Owner("org-acme", "user-bob"), file(exported(1)), "m")
    assert (await second.last(ADA)) == begun
    house.go.release()
    house.go.release()
    assert (await house.ended(first)).state is ImportState.DONE


Break = Callable[[House, Importer], Awaitable[None]]


async def gone(*_: object) -> Any:
    raise StoreUnavailable("gone")


async def store_goes(house: House, importer: Importer) -> None:
    """Make the store fail after the messages and before their conversations."""
    importer._stores.conversations.add_missing = gone  # type: ignore[method-assign, assignment]
    house.go.release()
    await eventually(lambda: not importer._running)


async def reader_dies(house: House, importer: Importer) -> None:
    house.death = ParserDied("with status -9")
    house.go.release()
    await eventually(lambda: not importer._running)


async def gateway_stops(_house: House, importer: Importer) -> None:
    await importer.close()


@pytest.mark.parametrize("happens", [store_goes, reader_dies, gateway_stops])
async def test_a_failed_import_can_be_repeated(house: House, happens: Break) -> None:
    importer, raw = house.gateway(), exported(BATCH_SIZE * 3)
    await importer.begin(ADA, file(raw), "m")
    house.go.release()
    await eventually(lambda: len(house.history.conversations) == BATCH_SIZE)
    await happens(house, importer)
    last = await importer.last(ADA)
    assert last is not None
    assert (last.state, last.imported) == (ImportState.FAILED, BATCH_SIZE)
    house.death = None
    last = await house.taken(raw)
    assert (last.state, last.imported, last.known) == (ImportState.DONE, BATCH_SIZE * 2, BATCH_SIZE)
    assert house.there == BATCH_SIZE * 3


async def test_partial_conversations_of_a_dead_process_are_deleted(house: House) -> None:
    house.timings = replace(house.timings, import_scan_interval=0.01, import_lease=0.05)
    importer = house.gateway()
    await importer.begin(ADA, file(exported(3)), "m")

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    importer._stores.conversations.add_missing = never  # type: ignore[method-assign, assignment]
    house.go.release()
    await eventually(lambda: len(house.history.messages) == 6)
    importer._stores.imports.renew = gone  # type: ignore[method-assign, assignment] # as after kill -9
    other = house.importer()
    scanning = asyncio.create_task(other.run())
    await eventually(lambda: not house.history.messages)
    await eventually(lambda: house.history.imports[ADA].until == 0)
    assert house.history.imports[ADA].state is ImportState.FAILED
    scanning.cancel()


async def test_the_parser_runs_in_a_sandbox() -> None:
    raw = exported(3, conversation("long") | {"title": "x" * 400_000})
    apart = await parsed(raw)
    encode = msgspec.msgpack.encode
    assert encode(apart) == encode(list(parse(raw, REQUEST)))
    assert apart[0] == Opened(4)
    refused = await parsed(b"[")
    assert isinstance(refused[0], Refused)
    assert not refused[0].is_json


async def test_a_killed_parser_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def watched(*command: str, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*command, **options))
        started[0].kill()
        return started[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
    with pytest.raises(ParserDied):
        await parsed(exported(3))


def of_ours(messages: int, *files: str) -> dict[str, Any]:
    """Return a conversation in this chat's JSON with `messages` messages, each with files."""
    attachments = [{"name": "a.txt", "text": text} for text in files]
    message = {"role": "user", "text": "Hi", "attachments": attachments}
    return {"leaf": "0", "messages": [message | {"id": str(each)} for each in range(messages)]}


@pytest.mark.parametrize(
    ("left_out", "reason", "limit"),
    [
        (3, SkipReason.UNKNOWN_KIND, None),
        (of_ours(0), SkipReason.NO_TEXT, None),
        ({"mapping": {"x": {"message": None}}}, SkipReason.NO_TEXT, None),
        (of_ours(2_001), SkipReason.TOO_MANY_MESSAGES, 2_000),
        (of_ours(9, "x" * 2**20), SkipReason.TOO_LARGE, 8),
        (of_ours(1, *["x"] * 11), SkipReason.TOO_MANY_FILES, 10),
        (of_ours(1, "x" * 2**20, "x"), SkipReason.FILES_TOO_LARGE, 1),
    ],
)
def test_skipped_conversations_have_a_reason(left_out: Any, reason: SkipReason, limit: int | None) -> None:
    _, batch = parse(exported(1, left_out), ImportRequest(ADA, "m", 1.7e9))
    assert isinstance(batch, Batch)
    assert batch.skipped == [Skipped("", reason, limit)]
