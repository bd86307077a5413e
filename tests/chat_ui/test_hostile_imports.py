"""Hostile import files over HTTP: the parser is confined, and nothing is read for an import that can't begin."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from chat_ui.importing import parser_process
from chat_ui.importing.importer import MAX_CONCURRENT
from tests.chat_ui.chat_clients import Person, Scene
from tests.chat_ui.test_importing import exported


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A chat whose parsers are processes."""
    scene = Scene(parse_file=parser_process.parse_in_sandbox)
    yield scene
    await scene.close()


def parse_with(monkeypatch: pytest.MonkeyPatch, name: str, **limits: Any) -> None:
    """Let imports run the function `name` of `tests.fakes.hostile_work` in place of the parser."""
    monkeypatch.setattr(parser_process, "WORK", f"tests.fakes.hostile_work:{name}")
    monkeypatch.setattr(parser_process, "LIMITS", replace(parser_process.LIMITS, **limits))


async def test_a_file_is_imported(scene: Scene) -> None:
    person = await scene.person()
    outcome = await person.imported(json.loads(exported(3)))
    assert (outcome["state"], outcome["imported"]) == ("done", 3)


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("allocate", {"memory_bytes": 2**26}),
        ("loop", {"cpu_seconds": 0.2}),
        ("sleep", {"wait_seconds": 1.0}),
        ("write_a_large_message", {"message_bytes": 2**19}),
    ],
)
async def test_a_file_that_exceeds_a_limit_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str, limits: dict[str, Any]
) -> None:
    parse_with(monkeypatch, name, **limits)
    person = await scene.person()
    refused = await person.call("POST", "/import", json.loads(exported(1)), status=400)
    assert refused["error"]["code"] == "import_too_costly"
    assert "too much" in refused["error"]["message"]
    assert (await person.call("GET", "/import"))["last"] is None
    monkeypatch.undo()
    assert (await person.imported(json.loads(exported(1))))["imported"] == 1


@pytest.mark.parametrize("name", ["fail", "crash", "invalid_messages", "opens_a_socket"])
async def test_a_file_that_breaks_the_parser_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    parse_with(monkeypatch, name)
    person = await scene.person()
    refused = await person.call("POST", "/import", json.loads(exported(1)), status=400)
    assert refused["error"]["code"] == "invalid_json"


async def test_endless_output_ends_the_import(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    parse_with(monkeypatch, "endless_batches", output_bytes=2**20)
    person = await scene.person()
    outcome = await person.imported(json.loads(exported(1)))
    assert (outcome["state"], outcome["imported"]) == ("failed", 0)


async def test_without_a_sandbox_imports_are_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    parse_with(monkeypatch, "can_not_be_confined")
    person = await scene.person()
    refused = await person.call("POST", "/import", json.loads(exported(1)), status=503)
    assert refused["error"]["code"] == "import_unavailable"


async def test_nothing_is_read_for_an_import_that_can_not_begin(scene: Scene) -> None:
    """Uploads that never end hold all places; the next person is refused before a byte of the body is read."""
    people = [await scene.person(name=f"person-{each}") for each in range(MAX_CONCURRENT + 1)]
    uploads = [asyncio.create_task(upload(each, endless=True)) for each in people[:MAX_CONCURRENT]]
    await asyncio.sleep(0.2)
    status, read = await upload(people[-1], endless=False)
    assert (status, read) == (503, 0)
    status, read = await upload(people[0], endless=False)
    assert (status, read) == (409, 0)
    for each in uploads:
        each.cancel()
    await asyncio.gather(*uploads, return_exceptions=True)
    assert (await people[-1].imported(json.loads(exported(1))))["imported"] == 1


async def test_two_imports_run_at_a_time(scene: Scene) -> None:
    people = [await scene.person(name=f"person-{each}") for each in range(MAX_CONCURRENT)]
    files = [json.loads(exported(100)) for _ in people]
    outcomes = await asyncio.gather(*(each.imported(file) for each, file in zip(people, files, strict=True)))
    assert [each["imported"] for each in outcomes] == [100, 100]


async def upload(person: Person, *, endless: bool) -> tuple[int, int]:
    """Send an import's body piece by piece; return the status, and the number of pieces that were read."""
    read = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal read
        for piece in (exported(1)[:5], exported(1)[5:]):
            read += 1
            yield piece
        if endless:
            await asyncio.Event().wait()

    response = await person.browser.send("POST", "/import", pieces())
    return response.status_code, read
