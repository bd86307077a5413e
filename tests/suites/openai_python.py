"""The tests of OpenAI's Python client: where they come from, what their requests name, and what is refused of them.

The tests are generated from OpenAI's specification, one file for each resource; they call each method with its required
arguments, with all arguments, and by raw and streamed responses, and check the types of the answers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import metadata
from types import MappingProxyType

from gateway.moderation.rules import RULES_MODEL
from tests.gateway.conftest import MODEL
from tests.suites.call import Call
from tests.suites.objects import EMBEDDER, EXAMPLE, PAINTER, Objects
from tests.suites.proxy import Preparation
from tests.suites.record import Expected
from tests.suites.scripts import count_or_tokenise
from tests.suites.sources import source
from tests.suites.suite import API_RESOURCES, Environment, Suite, resource_of

FILES = (
    "test_responses.py",
    "responses/test_input_items.py",
    "responses/test_input_tokens.py",
    "test_conversations.py",
    "conversations/test_items.py",
    "chat/test_completions.py",
    "chat/completions/test_messages.py",
    "test_completions.py",
    "test_embeddings.py",
    "test_files.py",
    "test_uploads.py",
    "uploads/test_parts.py",
    "test_batches.py",
    "test_vector_stores.py",
    "vector_stores/test_files.py",
    "vector_stores/test_file_batches.py",
    "test_models.py",
    "test_images.py",
    "test_moderations.py",
)
"""Files under `tests/api_resources` of the resources that the gateway has."""


def _model(name: str) -> Preparation:
    """Name a served model in the body, also in requests without one."""

    async def prepare(_objects: Objects, call: Call) -> None:
        if call.body is not None:
            call.body["model"] = name

    return prepare


async def _embedding(_objects: Objects, call: Call) -> None:
    """Ask for numbers: the client asks for base64 by default, which its own strict validation can't read."""
    if call.body is not None:
        call.body |= {"model": EMBEDDER, "encoding_format": "float"}


async def _prompt(objects: Objects, call: Call) -> None:
    """Name a model and existing contexts; requests without an input get one."""
    body = call.body if call.body is not None else {}
    call.body = {"input": "Hello.", **body, "model": MODEL}
    if "conversation" in body:
        call.body["conversation"] = (await objects.conversation())[0]
    if "previous_response_id" in body:
        call.body["previous_response_id"] = await objects.response()


async def _response(objects: Objects, call: Call) -> None:
    call.ids["response_id"] = await objects.response()


async def _retrieved_response(objects: Objects, call: Call) -> None:
    """Name a response; where its events are requested, one that was created in the background."""
    call.ids["response_id"] = await objects.response(background=call.parameter("stream") == "true")


async def _background_response(objects: Objects, call: Call) -> None:
    call.ids["response_id"] = await objects.response(background=True)


async def _input_items(objects: Objects, call: Call) -> None:
    call.ids["response_id"] = response = await objects.response()
    call.set_parameter("after", await objects.input_item(response))


async def _conversation(objects: Objects, call: Call) -> None:
    call.ids["conversation_id"], item = await objects.conversation()
    if "item_id" in call.ids:
        call.ids["item_id"] = item
    call.set_parameter("after", item)


async def _completion(objects: Objects, call: Call) -> None:
    call.ids["completion_id"], message = await objects.completion()
    call.set_parameter("after", message)


async def _completions(objects: Objects, call: Call) -> None:
    first, _ = await objects.completion()
    await objects.completion()
    call.set_parameter("after", first)
    call.set_parameter("model", MODEL)


async def _file(objects: Objects, call: Call) -> None:
    call.ids["file_id"] = await objects.file()


async def _files(objects: Objects, call: Call) -> None:
    call.set_parameter("after", await objects.file())
    call.set_parameter("purpose", "assistants")


async def _upload(objects: Objects, call: Call) -> None:
    call.ids["upload_id"], _ = await objects.upload()


async def _new_upload(_objects: Objects, call: Call) -> None:
    """Say a size: the tests create uploads of no bytes."""
    if call.body is not None:
        call.body["bytes"] = len(EXAMPLE)


async def _complete_upload(objects: Objects, call: Call) -> None:
    call.ids["upload_id"], parts = await objects.upload(parts=1)
    if call.body is not None:
        call.body["part_ids"] = parts


async def _batch(objects: Objects, call: Call) -> None:
    call.ids["batch_id"] = await objects.batch()


async def _batches(objects: Objects, call: Call) -> None:
    call.set_parameter("after", await objects.batch())


async def _new_batch(objects: Objects, call: Call) -> None:
    if call.body is not None:
        call.body["input_file_id"] = await objects.batch_input()


async def _new_vector_store(objects: Objects, call: Call) -> None:
    if call.body is not None and "file_ids" in call.body:
        call.body["file_ids"] = [await objects.file()]


async def _vector_stores(objects: Objects, call: Call) -> None:
    for place in ("after", "before"):
        call.set_parameter(place, (await objects.vector_store())[0])


async def _vector_store(objects: Objects, call: Call) -> None:
    """Name a vector store, and a file and the batch of it where the request names these."""
    has_content = call.route.endswith("/content")
    store, files, batch = await objects.vector_store(imported=has_content)
    call.ids |= {"vector_store_id": store, "file_id": files[0], "batch_id": batch}
    call.set_parameter("after", files[0])
    call.set_parameter("before", files[1])


async def _attached_file(objects: Objects, call: Call) -> None:
    await _vector_store(objects, call)
    if call.body is not None:
        call.body["file_id"] = await objects.file()


async def _attached_files(objects: Objects, call: Call) -> None:
    """Name files; requests without any get one."""
    await _vector_store(objects, call)
    body = call.body if call.body is not None else {}
    if "files" in body:
        body["files"][0]["file_id"] = await objects.file()
    if "file_ids" in body or "files" not in body:
        body["file_ids"] = [await objects.file()]
    call.body = body


async def _served_model(_objects: Objects, call: Call) -> None:
    call.ids["model"] = MODEL


async def _as_it_is(_objects: Objects, _call: Call) -> None:
    """Change nothing."""


PREPARATIONS: Mapping[str, Preparation] = MappingProxyType(
    {
        "POST /v1/responses": _prompt,
        "POST /v1/responses/input_tokens": _prompt,
        "GET /v1/responses/{response_id}": _retrieved_response,
        "DELETE /v1/responses/{response_id}": _response,
        "POST /v1/responses/{response_id}/cancel": _background_response,
        "GET /v1/responses/{response_id}/input_items": _input_items,
        "POST /v1/conversations": _as_it_is,
        "GET /v1/conversations/{conversation_id}": _conversation,
        "POST /v1/conversations/{conversation_id}": _conversation,
        "DELETE /v1/conversations/{conversation_id}": _conversation,
        "POST /v1/conversations/{conversation_id}/items": _conversation,
        "GET /v1/conversations/{conversation_id}/items": _conversation,
        "GET /v1/conversations/{conversation_id}/items/{item_id}": _conversation,
        "DELETE /v1/conversations/{conversation_id}/items/{item_id}": _conversation,
        "POST /v1/chat/completions": _model(MODEL),
        "GET /v1/chat/completions": _completions,
        "GET /v1/chat/completions/{completion_id}": _completion,
        "POST /v1/chat/completions/{completion_id}": _completion,
        "DELETE /v1/chat/completions/{completion_id}": _completion,
        "GET /v1/chat/completions/{completion_id}/messages": _completion,
        "POST /v1/completions": _model(MODEL),
        "POST /v1/embeddings": _embedding,
        "POST /v1/files": _as_it_is,
        "GET /v1/files": _files,
        "GET /v1/files/{file_id}": _file,
        "DELETE /v1/files/{file_id}": _file,
        "GET /v1/files/{file_id}/content": _file,
        "POST /v1/uploads": _new_upload,
        "POST /v1/uploads/{upload_id}/cancel": _upload,
        "POST /v1/uploads/{upload_id}/complete": _complete_upload,
        "POST /v1/uploads/{upload_id}/parts": _upload,
        "POST /v1/batches": _new_batch,
        "GET /v1/batches": _batches,
        "GET /v1/batches/{batch_id}": _batch,
        "POST /v1/batches/{batch_id}/cancel": _batch,
        "POST /v1/vector_stores": _new_vector_store,
        "GET /v1/vector_stores": _vector_stores,
        "GET /v1/vector_stores/{vector_store_id}": _vector_store,
        "POST /v1/vector_stores/{vector_store_id}": _vector_store,
        "DELETE /v1/vector_stores/{vector_store_id}": _vector_store,
        "POST /v1/vector_stores/{vector_store_id}/search": _vector_store,
        "POST /v1/vector_stores/{vector_store_id}/files": _attached_file,
        "GET /v1/vector_stores/{vector_store_id}/files": _vector_store,
        "GET /v1/vector_stores/{vector_store_id}/files/{file_id}": _vector_store,
        "POST /v1/vector_stores/{vector_store_id}/files/{file_id}": _vector_store,
        "DELETE /v1/vector_stores/{vector_store_id}/files/{file_id}": _vector_store,
        "GET /v1/vector_stores/{vector_store_id}/files/{file_id}/content": _vector_store,
        "POST /v1/vector_stores/{vector_store_id}/file_batches": _attached_files,
        "GET /v1/vector_stores/{vector_store_id}/file_batches/{batch_id}": _vector_store,
        "POST /v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel": _vector_store,
        "GET /v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files": _vector_store,
        "GET /v1/models": _as_it_is,
        "GET /v1/models/{model}": _served_model,
        "DELETE /v1/models/{model}": _served_model,
        "POST /v1/images/generations": _model(PAINTER),
        "POST /v1/moderations": _model(RULES_MODEL),
    }
)
"""How requests of each route come to name what exists."""

REFUSED: Expected = MappingProxyType(
    {
        "DELETE /v1/models/{model}": [""],
        "GET /v1/batches": ["limit"],
        "GET /v1/chat/completions": ["limit"],
        "GET /v1/chat/completions/{completion_id}/messages": ["limit"],
        "GET /v1/conversations/{conversation_id}/items": ["limit"],
        "GET /v1/files": ["limit"],
        "GET /v1/responses/{response_id}": ["starting_after"],
        "GET /v1/responses/{response_id}/input_items": ["limit"],
        "GET /v1/vector_stores": ["before", "limit"],
        "GET /v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files": ["before", "limit"],
        "GET /v1/vector_stores/{vector_store_id}/files": ["before", "limit"],
        "POST /v1/chat/completions": [
            "functions",
            "logit_bias",
            "max_completion_tokens",
            "max_tokens",
            "moderation",
            "stream_options",
            "web_search_options",
        ],
        "POST /v1/completions": ["logit_bias", "stream_options"],
        "POST /v1/images/edits": [""],
        "POST /v1/images/generations": [
            "background",
            "moderation",
            "partial_images",
            "quality",
            "stream",
            "style",
        ],
        "POST /v1/images/variations": [""],
        "POST /v1/responses": ["context_management", "conversation", "moderation", "prompt", "stream_options"],
        "POST /v1/responses/compact": [""],
        "POST /v1/responses/input_tokens": ["conversation"],
        "POST /v1/uploads/{upload_id}/complete": ["md5"],
        "POST /v1/vector_stores/{vector_store_id}/file_batches": ["files"],
    }
)
"""Fields that the gateway refuses in the tests' requests: values that OpenAI refuses too, and what is not offered."""
UNREADABLE = [
    f"{API_RESOURCES}test_completions.py::Test{each}::test_method_create_with_all_params_overload_1"
    for each in ("Completions", "AsyncCompletions")
]
"""With `echo`, the first token has no log probability: null, as at OpenAI, which the client's types lack."""


def _environment() -> Environment:
    return Environment(source("openai"), sys.executable, metadata.version("openai"))


SUITE = Suite(
    name="openai-python",
    environment=_environment,
    files=[API_RESOURCES + each for each in FILES],
    script=count_or_tokenise,
    group=resource_of,
    preparations=PREPARATIONS,
    expected=REFUSED,
    unreadable=UNREADABLE,
)
