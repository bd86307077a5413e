"""Images that the assistant has drawn: what a person sees and pays, and what is refused."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest

from assistant.abilities import tool_part
from assistant.catalogue import ImageSpec
from assistant.tools import image
from assistant.tools.image import Image, ImageServices
from assistant.tools.unit_prices import UnitPrices
from auth_billing.errors import StoreUnavailable
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.pricing import PriceList, TokenRate
from router.messages import (
    Failed,
    FailureCode,
    Finished,
    ImagePrompt,
    Job,
    ServiceClass,
    Started,
    Step,
    StepState,
    Usage,
    UsagePart,
)
from stored_objects.blobs.blobs import derived_blob_id
from stored_objects.errors import BlobsUnavailable
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.quota import CountSubject
from stored_objects.objects.records import RECORD_BYTES, ObjectKind, ObjectOwner, StoredObject
from tests.assistant.answers import ended_steps
from tests.assistant.conftest import Platform
from tests.fakes.assistant_process import AssistantProcess, Talents
from tests.fakes.fleet import Answer, until
from tests.fakes.prices import ListPriceStore
from tests.fakes.scripted_worker import Script, ScriptedWorker, draw, never, png, say
from tests.fakes.stored_objects import stored_objects

SIZES = ("64x64", "128x64")
PERSON = ObjectOwner("t", "person")


class Studio:
    """An assistant that can draw, with a text model and, if there is a script for one, an image model."""

    def __init__(self, platform: Platform, objects: StoredObjects | None, spec: ImageSpec) -> None:
        self.platform = platform
        self.prices = UnitPrices(PriceBook(ListPriceStore()))
        rate = TokenRate(0, 0, 0, units={"64x64": 3, "128x64": 5})
        self.prices.known = PriceList(1, {"painter": dict.fromkeys(ServiceClass, rate)})
        self.talents: Talents = platform.talents(tools=["image"], answers_with="writer")
        services = None if objects is None else ImageServices(objects, self.prices)
        self.talents.more = lambda children: [Image(children, services, spec)]

    async def open(self, script: Script | None = draw, said: str = "a cat in a hat") -> AssistantProcess:
        self.writer = await self.platform.scripted("writer", say(said))
        if script is not None:
            self.painter = await self.platform.scripted("painter", script, image_sizes=SIZES)
        return await self.platform.assistant(self.talents)

    async def ask(self, question: str) -> Answer:
        return await self.platform.ask(question, requester="person")


async def _tool_step(answer: Answer) -> Step:
    await answer.read()
    return ended_steps(answer)[-1]


def _refuse(code: FailureCode) -> Script:
    async def script(worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=0))
        worker.send(job, Failed(job_id=job.id, attempt_id=attempt, code=code, message="No."))

    return script


async def test_images_are_drawn_stored_for_the_person_and_billed(platform: Platform) -> None:
    objects = stored_objects()
    studio = Studio(platform, objects, ImageSpec())
    await studio.open()
    answer = await studio.ask("draw an image of a cat in a hat")
    step = await _tool_step(answer)
    assert (step.kind, step.name, step.state) == ("tool", "image", StepState.DONE)
    result = step.data["result"]
    [shown] = result.pop("images")
    assert result == {
        "type": "image",
        "prompt": "a cat in a hat",
        "prompt_sent": "a cat in a hat",
        "translated": False,
        "size": "64x64",
    }
    assert await objects.get(PERSON, shown["blob"]) == png(0)
    drawn = UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"64x64": 1}))
    assert step.parts == [drawn, tool_part("image")]
    assert isinstance(answer.terminal, Finished)
    assert answer.texts == [""]
    [job] = studio.painter.jobs
    assert job.prompt == ImagePrompt(prompt="a cat in a hat", size="64x64")
    assert (job.tenant, job.requester, job.parent, job.sampling.seed) == ("t", "person", "p", 1)
    assert studio.writer.jobs == []


async def test_a_polish_prompt_is_sent_in_english(platform: Platform) -> None:
    studio = Studio(platform, stored_objects(), ImageSpec())
    await studio.open()
    step = await _tool_step(await studio.ask("narysuj image kota w kapeluszu"))
    result = step.data["result"]
    assert result["prompt"] == "image kota w kapeluszu"
    assert (result["prompt_sent"], result["translated"]) == ("a cat in a hat", True)
    assert [part.model for part in step.parts] == ["writer", "painter", "tool.image"]


async def test_a_prompt_that_the_model_does_not_translate_goes_unchanged(platform: Platform) -> None:
    studio = Studio(platform, stored_objects(), ImageSpec())
    await studio.open(said="0 1 2")
    result = (await _tool_step(await studio.ask("narysuj image kota w kapeluszu"))).data["result"]
    assert (result["prompt_sent"], result["translated"]) == (result["prompt"], False)


async def test_without_an_image_model_a_sentence_says_so(platform: Platform) -> None:
    await (studio := Studio(platform, stored_objects(), ImageSpec())).open(script=None)
    answer = await studio.ask("narysuj image kota w kapeluszu")
    step = await _tool_step(answer)
    assert step.state is StepState.FAILED
    message = "Nie działa tu teraz żaden model z ceną, który rysuje obrazy."
    assert step.data["error"] == {"code": "off", "message": message}
    assert step.parts == []
    assert answer.texts == ["a cat in a hat"], "the answering model says something about it"


async def test_a_model_without_a_price_does_not_draw(platform: Platform) -> None:
    studio = Studio(platform, stored_objects(), ImageSpec())
    studio.prices.known = PriceList(2, {})
    process = await studio.open()
    step = await _tool_step(await studio.ask("draw an image of a cat"))
    assert step.data["error"]["code"] == "off"
    assert [part.model for part in process.abilities.most_parts()] == ["tool.image"], "other questions are answered"
    assert studio.painter.jobs == []


async def test_without_storage_the_tool_is_off(platform: Platform) -> None:
    await (studio := Studio(platform, None, ImageSpec())).open()
    step = await _tool_step(await studio.ask("draw an image of a cat"))
    assert step.data["error"]["message"] == "Pictures are not switched on here: the assistant has no storage for them."
    assert studio.painter.jobs == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (FailureCode.INVALID_PROMPT, "refused"),
        (FailureCode.CONTEXT_LENGTH_EXCEEDED, "too_large"),
        (FailureCode.ENGINE_ERROR, "unavailable"),
    ],
)
async def test_a_failed_image_costs_nothing(platform: Platform, code: FailureCode, expected: str) -> None:
    await (studio := Studio(platform, objects := stored_objects(), ImageSpec())).open(_refuse(code))
    step = await _tool_step(await studio.ask("draw an image of a cat"))
    assert step.data["error"]["code"] == expected
    assert step.parts == []
    assert await objects.documents.stored_bytes("t", None) == 0


async def test_a_full_quota_is_refused_before_anything_is_drawn(platform: Platform) -> None:
    await (studio := Studio(platform, stored_objects(per_owner=1000), ImageSpec())).open()
    step = await _tool_step(await studio.ask("draw an image of a cat"))
    assert step.data["error"]["code"] == "refused"
    assert studio.painter.jobs == []


async def test_another_process_has_the_same_image_drawn_and_billed_once(platform: Platform) -> None:
    objects = stored_objects()
    studio = Studio(platform, objects, ImageSpec())
    first = await studio.open(never)
    answer = await studio.ask("draw an image of a cat")
    await until(lambda: studio.painter.jobs)
    studio.painter.script = draw
    await first.kill()
    await platform.assistant(studio.talents, "assistant-2")
    step = await _tool_step(answer)
    once, again = studio.painter.jobs
    assert (once.prompt, once.sampling) == (again.prompt, again.sampling)
    assert [part.model for each in ended_steps(answer) for part in each.parts] == ["painter", "tool.image"]
    assert len(step.data["result"]["images"]) == 1


@pytest.mark.parametrize(
    ("spec", "units"),
    [
        ({}, {"64x64": 1}),
        ({"sizes": ("128x64", "64x64", "999x999"), "most": 2}, {"128x64": 2, "64x64": 2}),
        ({"model": "another"}, None),
    ],
)
async def test_heartbeats_bound_what_a_call_uses(
    platform: Platform, spec: dict[str, Any], units: dict[str, int] | None
) -> None:
    await (studio := Studio(platform, stored_objects(), ImageSpec(**spec))).open()
    process = await platform.assistant(studio.talents, "assistant-2")
    await until(lambda: len(process.children.models.models()) >= 2)
    parts = {part.model: part.usage for part in process.abilities.most_parts()}
    assert (parts["painter"].units if "painter" in parts else None) == units
    assert ("writer" in parts) is (units is not None)
    assert parts["tool.image"].units == {"call": 1}
    named_or_missing = "model" in spec or units is None
    assert ("painter" in process.abilities.unnamed_models()) is not named_or_missing


async def test_size_and_number_are_bounded(platform: Platform) -> None:
    objects = stored_objects()
    studio = Studio(platform, objects, ImageSpec(sizes=SIZES, most=2))
    process = await studio.open()
    tool = process.abilities.toolbox.find("image")
    assert tool is not None
    properties = tool.parameters["properties"]
    assert properties["size"]["enum"] == [*SIZES]
    assert properties["n"]["maximum"] == 2
    assert tool.for_model({"images": [{}], "prompt_sent": "a cat"}) == "[1 drawn: a cat]"


async def test_a_step_that_is_repeated_after_a_crash_has_the_stored_image(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = stored_objects()
    studio = Studio(platform, objects, ImageSpec())
    process = await studio.open()
    stored = asyncio.Event()

    async def put(*given: Any, **named: Any) -> None:
        await StoredObjects.put(objects, *given, **named)
        stored.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(objects, "put", put)
    asked = await studio.ask("draw an image of a cat in a hat")
    await stored.wait()
    monkeypatch.undo()
    await process.kill()
    await platform.assistant(studio.talents)
    step = await _tool_step(asked)
    [shown] = step.data["result"]["images"]
    assert await objects.get(PERSON, shown["blob"]) == png(0)
    assert [part.model for part in step.parts] == ["painter", "tool.image"], "the step is delivered, and billed, once"
    assert len(studio.painter.jobs) == 1
    assert await objects.quotas.used(CountSubject("t")) == len(png(0)) + RECORD_BYTES


async def test_an_image_that_another_process_is_writing_is_stored_apart(platform: Platform) -> None:
    objects = stored_objects()
    studio = Studio(platform, objects, ImageSpec())
    await studio.open()
    taken = derived_blob_id("p-s1-0")
    kind, soon = ObjectKind.IMAGE, time.time() + 600
    await objects.documents.insert(StoredObject(taken, "t", "person", kind, "image/png", 1, time.time(), soon))
    [shown] = (await _tool_step(await studio.ask("draw an image of a cat"))).data["result"]["images"]
    assert shown["blob"] != taken
    assert await objects.get(PERSON, shown["blob"]) == png(0)


async def test_a_model_whose_worker_was_killed_is_waited_for(platform: Platform) -> None:
    studio = Studio(platform, stored_objects(), ImageSpec())
    process = await studio.open()
    await until(lambda: process.children.models.find("painter"))
    now = time.time()
    process.children.models._clock = lambda: now + 30  # its last heartbeat is half a minute old
    process.children.models._described.clear()
    assert "painter" in [part.model for part in process.abilities.most_parts()]


async def test_images_are_drawn_by_a_process_that_has_just_started(platform: Platform) -> None:
    studio = Studio(platform, stored_objects(), ImageSpec())
    known, studio.prices.known = studio.prices.known, None
    await studio.open()
    asked = await studio.ask("draw an image of a cat")
    await asyncio.sleep(0.3)
    studio.prices.known = known  # read later than the first job came
    assert (await _tool_step(asked)).state is StepState.DONE


@pytest.mark.parametrize("error", [StoreUnavailable, BlobsUnavailable])
async def test_an_image_that_was_drawn_waits_for_a_store_that_is_away(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    studio = Studio(platform, objects := stored_objects(), ImageSpec())
    await studio.open()
    tried = asyncio.Event()

    async def put(*_given: Any, **_named: Any) -> None:
        tried.set()
        raise error("away")

    monkeypatch.setattr(objects, "put", put)
    asked = await studio.ask("draw an image of a cat")
    await tried.wait()
    monkeypatch.undo()
    step = await _tool_step(asked)
    assert await objects.get(PERSON, step.data["result"]["images"][0]["blob"]) == png(0)
    assert len(studio.painter.jobs) == 1


async def test_an_image_is_not_kept_waiting_for_ever(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "STORE_PATIENCE", 0.1)
    studio = Studio(platform, objects := stored_objects(), ImageSpec())
    await studio.open()

    async def put(*_given: Any, **_named: Any) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(objects, "put", put)
    step = await _tool_step(await studio.ask("draw an image of a cat"))
    assert step.data["error"]["message"] == "The picture could not be stored. Please try again later."
    assert step.parts == []
