"""Images of questions through the chat API: upload, limits, owners, later turns, edits, sharing, deletion, export."""

from __future__ import annotations

import base64
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from auth_billing.access.roles import Role
from chat_ui.generations.model_client import Turn
from chat_ui.generations.prompt import prompt_turns
from chat_ui.history import records
from stored_objects.blobs.blobs import new_blob_id
from stored_objects.errors import BlobsUnavailable
from stored_objects.images.prompt_limits import MAX_IMAGES, MAX_PIXELS, MAX_TOTAL_BYTES, MAX_TOTAL_PIXELS
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import ObjectKind
from tests.chat_ui.chat_clients import Person, Scene
from tests.fakes.stored_objects import DictObjectStore, stored_objects


def png(width: int = 4, height: int = 3) -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02\x00\x00\x00"


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


async def upload(person: Person, file: bytes, status: int = 201) -> Any:
    return await person.call("POST", "/images", {"data": base64.b64encode(file).decode()}, status=status)


async def image(person: Person, file: bytes | None = None, name: str = "cat.png") -> dict[str, str]:
    """Upload an image, and return the reference by which a question has it."""
    return {"blob": (await upload(person, file or png()))["blob"], "name": name}


def references(scene: Scene, blob: str) -> list[str]:
    assert isinstance(scene.chats.objects.documents, DictObjectStore)
    return scene.chats.objects.documents.records[blob].references


def asked_turns(scene: Scene) -> list[list[Turn]]:
    """Return the prompts of answers, without those of titles."""
    prompts = [list(request.turns) for _, request in scene.engine.asked]
    return [turns for turns in prompts if not turns[-1].text.startswith("Write a title")]


async def test_the_model_gets_images_of_earlier_turns_and_of_edited_questions(scene: Scene) -> None:
    person = await scene.person()
    conversation, first, second = await person.conversation(), await image(person), await image(person, png(9, 9))
    answer = await person.answered(conversation, "What is this?", images=[first])
    answer = await person.answered(conversation, "And this?", answer["id"], images=[second])
    prompts = asked_turns(scene)
    assert [turn.images for turn in prompts[-1]] == [(first["blob"],), (), (second["blob"],)]
    question = (await person.tree(conversation))["messages"][0]
    await person.answered(conversation, "What is it, really?", attachments_of=question["id"])
    assert asked_turns(scene)[-1] == [Turn(records.Role.USER, "What is it, really?", (first["blob"],))]
    regenerated = await person.call(
        "POST", f"/conversations/{conversation}/messages/{answer['id']}/regenerate", {}, status=202
    )
    await person.events(conversation, regenerated["answer"]["id"])
    assert [turn.images for turn in asked_turns(scene)[-1]] == [(first["blob"],), (), (second["blob"],)]


async def test_an_edited_question_keeps_the_texts_of_its_files(scene: Scene) -> None:
    person = await scene.person()
    conversation = await person.conversation()
    await person.answered(conversation, "Sum up", attachments=[{"name": "a.txt", "text": "The text."}])
    question = (await person.tree(conversation))["messages"][0]
    await person.answered(conversation, "Sum up briefly", attachments_of=question["id"])
    assert "The text." in asked_turns(scene)[-1][0].text


async def test_images_are_shown_by_signed_addresses_to_the_owner_and_by_a_share_link(scene: Scene) -> None:
    person = await scene.person()
    conversation, attached = await person.conversation(), await image(person)
    await person.answered(conversation, images=[attached])
    token = (await person.call("POST", f"/conversations/{conversation}/share", {}, status=201))["token"]
    for tree in (await person.tree(conversation), await person.call("GET", f"/shared/{token}")):
        [shown] = tree["messages"][0]["images"]
        assert (shown["name"], shown["size"]) == ("cat.png", len(png()))
        assert shown["url"].startswith(f"/v1/blobs/{attached['blob']}?expires=")
        assert tree["messages"][1]["images"] == []


async def test_images_are_kept_until_the_conversation_is_deleted(scene: Scene) -> None:
    person = await scene.person()
    conversation, attached = await person.conversation(), await image(person)
    await person.answered(conversation, images=[attached])
    assert references(scene, attached["blob"]) == [conversation]
    await person.call("DELETE", f"/conversations/{conversation}", {}, status=204)
    assert references(scene, attached["blob"]) == []


@pytest.mark.parametrize("organisation", ["org-acme", "org-other"])
async def test_images_of_others_cannot_be_attached(scene: Scene, organisation: str) -> None:
    ada, eve = await scene.person(name="ada"), await scene.person(Role.OWNER, "eve", organisation)
    hers = await image(ada)
    conversation = await eve.conversation()
    for blob in (hers["blob"], new_blob_id(), "../../etc/passwd"):
        body = {"text": "Hi", "images": [{"blob": blob, "name": "x.png"}]}
        refused = await eve.call("POST", f"/conversations/{conversation}/messages", body, status=400)
        assert refused["error"]["message"] == "The image x.png is not stored any more. Please attach it again."
    assert references(scene, hers["blob"]) == []
    assert scene.engine.asked == []


async def test_viewers_cannot_upload(scene: Scene) -> None:
    await upload(await scene.person(Role.VIEWER), png(), status=403)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "must be a PNG, JPEG, WebP or GIF file"),
        (b"", "must be a PNG, JPEG, WebP or GIF file"),
        (png(0, 5), "must be a PNG, JPEG, WebP or GIF file"),
        (png(MAX_PIXELS, 2), "16 megapixels are allowed"),
    ],
)
async def test_what_is_no_acceptable_image_is_not_stored(scene: Scene, file: bytes, reason: str) -> None:
    person = await scene.person()
    refused = await upload(person, file, status=400)
    assert reason in refused["error"]["message"]
    await person.call("POST", "/images", {"data": "no base64!"}, status=400)
    assert isinstance(scene.chats.objects.documents, DictObjectStore)
    assert scene.chats.objects.documents.records == {}


async def test_an_upload_has_the_bytes_of_a_prompt_at_most(scene: Scene) -> None:
    refused = await upload(await scene.person(), png() + bytes(MAX_TOTAL_BYTES), status=400)
    assert refused["error"]["param"] == "data"


async def test_a_question_has_as_many_images_as_a_prompt_at_most(scene: Scene) -> None:
    person = await scene.person()
    conversation, large = await person.conversation(), await image(person, png(4096, 4096))
    messages = f"/conversations/{conversation}/messages"
    for images, reason in (([large] * (MAX_IMAGES + 1), "16"), ([large] * 5, "64 megapixels together")):
        refused = await person.call("POST", messages, {"text": "Hi", "images": images}, status=400)
        assert reason in refused["error"]["message"]
    assert (await person.tree(conversation))["messages"] == []


async def test_images_of_a_question_have_the_bytes_of_a_prompt_together(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = await scene.person()
    conversation, attached = await person.conversation(), await image(person)
    monkeypatch.setattr("chat_ui.history.conversation_images.MAX_TOTAL_BYTES", 2 * len(png()))
    body = {"text": "Hi", "images": [attached] * 3}
    refused = await person.call("POST", f"/conversations/{conversation}/messages", body, status=400)
    assert "together at most" in refused["error"]["message"]
    await person.answered(conversation, images=[attached] * 2)


async def test_images_count_towards_the_quota_of_stored_objects(scene: Scene) -> None:
    person = await scene.person()
    images = scene.app.state.services.images
    images._objects = stored_objects(per_owner=2500)
    await upload(person, png())
    await upload(person, png())
    refused = await upload(person, png(), status=409)
    assert (refused["error"]["code"], refused["error"]["message"][:14]) == ("storage_full", "You may store ")


async def test_an_upload_fails_clearly_while_images_cannot_be_stored(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise BlobsUnavailable("no folder")

    person = await scene.person()
    monkeypatch.setattr(StoredObjects, "put", fail)
    await upload(person, png(), status=503)


async def test_stored_objects_that_are_no_images_cannot_be_attached(scene: Scene) -> None:
    person = await scene.person()
    conversation, attached = await person.conversation(), await image(person)
    documents = scene.chats.objects.documents
    assert isinstance(documents, DictObjectStore)
    stored = documents.records[attached["blob"]]
    file = await scene.chats.objects.put(stored.owner, png(), kind=ObjectKind.FILE, media_type="image/png")
    body = {"text": "Hi", "images": [{"blob": file.id, "name": "x"}]}
    await person.call("POST", f"/conversations/{conversation}/messages", body, status=400)


async def test_a_deleted_image_is_named_in_later_turns_instead(scene: Scene) -> None:
    person = await scene.person()
    conversation, attached = await person.conversation(), await image(person)
    answer = await person.answered(conversation, "What is this?", images=[attached])
    documents = scene.chats.objects.documents
    assert isinstance(documents, DictObjectStore)
    await scene.chats.objects.delete(attached["blob"], documents.records[attached["blob"]].owner)
    await person.answered(conversation, "Again?", answer["id"])
    first = asked_turns(scene)[-1][0]
    assert (first.images, first.text) == ((), "(The image cat.png is not shown any more.)\n\nWhat is this?")
    question = (await person.tree(conversation))["messages"][0]
    await person.answered(conversation, "And now?", attachments_of=question["id"])


async def test_exports_name_images_and_can_be_imported(scene: Scene) -> None:
    person = await scene.person()
    conversation, attached = await person.conversation(), await image(person)
    await person.answered(conversation, "What is this?", images=[attached])
    for file_format in ("json", "markdown", "csv"):
        exported = await person.browser.get(f"/export?format={file_format}&ids={conversation}")
        assert "cat.png" in exported.text, file_format
    exported = await person.browser.get(f"/export?format=json&ids={conversation}")
    other = await scene.person(name="other")
    imported = await other.imported(exported.content)
    assert imported["imported"] == 1
    [row] = (await other.call("GET", "/conversations"))["conversations"]
    question = (await other.tree(row["id"]))["messages"][0]
    assert (question["text"], question["images"]) == ("What is this?", [])


def test_of_many_images_the_latest_that_fit_are_shown() -> None:
    def question(number: int, pixels: int = 1, size: int = 1) -> records.Message:
        images = [records.AttachedImage(f"blob-{number}", f"{number}.png", size, pixels)]
        return records.Message(f"msg-{number}", "conv", None, records.Role.USER, "?", 0.0, images=images)

    def shown(*messages: records.Message) -> list[str]:
        blobs = {each.blob for message in messages for each in message.images}
        return [blob for turn in prompt_turns(messages, blobs) for blob in turn.images]

    assert len(shown(*map(question, range(20)))) == MAX_IMAGES
    assert shown(*map(question, range(20)))[0] == "blob-4"
    assert shown(question(1), question(2, pixels=MAX_TOTAL_PIXELS)) == ["blob-2"]
    assert shown(question(1, size=2), question(2, size=MAX_TOTAL_BYTES - 1)) == ["blob-2"]
