"""Collects the input of a response: the items of the responses or the conversation that it continues, and its own.

References to stored items are replaced by those items.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from auth_billing.access.principal import Principal
from gateway.errors import InvalidRequest
from gateway.http.gateway import Gateway
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.responses.encrypted_items import decrypted
from gateway.openai.responses.items import InputItem, ItemReference
from gateway.openai.responses.request import ContextFields
from gateway.openai.responses.response import OPEN_STATUSES
from gateway.openai.responses.stored_items import from_stored
from gateway.openai.responses.translation import input_items, param_of, renamed
from router.producer.errors import JobFailed
from stored_objects.errors import ContextTooLarge, DocumentNotFound
from stored_objects.project_documents.records import ProjectDocument, ProjectOwner
from stored_objects.responses.responses import MAX_CONTEXT_BYTES, Item, StoredResponse

MAX_REFERENCES = 128
"""Most stored items that an input may refer to."""
MAX_PARTS = 50_000
"""Most items and parts of items in a context; one request has no more (`strict_json.MAX_CONTAINERS`)."""
INLINE_PARTS = 256
"""More items and parts are read and translated in a thread, so that they do not block the event loop."""
INLINE_CHARACTERS = 256 * 1024
"""More characters of encrypted contents are decrypted in a thread."""
_LISTS = ("content", "output", "summary", "results")
"""Fields of items that may have lists of parts."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class ResponseInput:
    """The input of a response: the stored responses or the conversation that it continues, and its own items."""

    context: list[StoredResponse]
    own: list[InputItem]
    conversation: ProjectDocument | None = None
    """The conversation that the response belongs to."""
    items: list[InputItem] = field(default_factory=list)
    """All items, of the conversation or the responses and its own, in order, with encrypted contents decrypted."""


async def read_input(gateway: Gateway, caller: Principal, body: ContextFields) -> ResponseInput:
    """Return the input of a response that `caller` requests.

    Raises:
        InvalidRequest: The previous response or an item that the input refers to is not stored, too long a context, or
            encrypted content that this installation did not encrypt for the caller's project.
        DocumentNotFound: The conversation is not stored.
        StoreUnavailable: The context can't be read now.
    """
    context: list[StoredResponse] = []
    if body.previous_response_id is not None:
        try:
            context = await gateway.responses.context(ProjectOwner.of(caller), body.previous_response_id)
        except DocumentNotFound as error:
            message = f"Previous response with id '{body.previous_response_id}' not found, or an earlier one."
            raise InvalidRequest(message, param="previous_response_id", code="previous_response_not_found") from error
        except ContextTooLarge as error:
            message = f"The context of the previous response is too long: {error}."
            raise InvalidRequest(message, param="previous_response_id", code="context_length_exceeded") from error
    if context and context[-1].response["status"] in OPEN_STATUSES:
        raise InvalidRequest("The previous response is not finished.", param="previous_response_id")
    own = await _resolved(gateway, caller, input_items(body))
    if body.conversation_id is None:
        earlier = await _read([item for each in context for item in each.all_items], "previous_response_id")
        return ResponseInput(context, own, None, await _decrypted(gateway, caller, _within_parts([*earlier, *own])))
    conversation = await gateway.conversations.find(ProjectOwner.of(caller), body.conversation_id)
    try:
        items = await gateway.conversations.items(conversation)
    except ContextTooLarge as error:
        message = f"The conversation is too long: {error}."
        raise InvalidRequest(message, param="conversation", code="context_length_exceeded") from error
    continued = [*await _read(items, "conversation"), *own]
    return ResponseInput(context, own, conversation, await _decrypted(gateway, caller, _within_parts(continued)))


@contextmanager
def response_fields() -> Iterator[None]:
    """Return a context in which errors about fields of the chat completion name those of the response."""
    try:
        yield
    except InvalidRequest as error:
        raise renamed(error) from error
    except JobFailed as error:
        error.param = param_of(error.param)
        raise


async def translated(
    items: Sequence[InputItem], translate: Callable[[], ChatCompletionRequest]
) -> ChatCompletionRequest:
    """Return the chat completion that `translate` makes of a response with the conversation `items`.

    A long conversation is translated in a thread. Raises as `translate` does.
    """
    return await _in_thread_if(_extent(map(vars, items)) > INLINE_PARTS, translate)


async def _read(items: Sequence[Item], param: str) -> list[InputItem]:
    if (extent := _extent(items)) > MAX_PARTS:
        raise _too_many_parts(param)
    return await _in_thread_if(extent > INLINE_PARTS, partial(from_stored, items))


def _within_parts(items: list[InputItem]) -> list[InputItem]:
    """Return the items of a whole input.

    Raises:
        InvalidRequest: They have too many parts, such as those of an item that the input refers to many times.
    """
    if _extent(map(vars, items)) > MAX_PARTS:
        raise _too_many_parts("input")
    return items


def _too_many_parts(param: str) -> InvalidRequest:
    message = f"Invalid '{param}': the context has more than {MAX_PARTS} items and parts of items."
    return InvalidRequest(message, param=param, code="context_length_exceeded")


def _extent(items: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of items and of their parts."""
    lists = (each for item in items for each in ([item], *map(item.get, _LISTS)))
    return sum(len(each) for each in lists if isinstance(each, list))


async def _in_thread_if(long: bool, call: Callable[[], Result]) -> Result:
    return await asyncio.to_thread(call) if long else call()


async def _decrypted(gateway: Gateway, caller: Principal, items: list[InputItem]) -> list[InputItem]:
    size = sum(len(getattr(item, "encrypted_content", None) or "") for item in items)
    if not size:
        return items
    return await _in_thread_if(
        size > INLINE_CHARACTERS, partial(decrypted, gateway.contents, ProjectOwner.of(caller), items)
    )


async def _resolved(gateway: Gateway, caller: Principal, items: list[InputItem]) -> list[InputItem]:
    ids = list(dict.fromkeys(item.id for item in items if isinstance(item, ItemReference)))
    if not ids:
        return items
    if len(ids) > MAX_REFERENCES:
        raise _invalid(f"it refers to more than {MAX_REFERENCES} items")
    stored = await gateway.responses.items(ProjectOwner.of(caller), ids)
    if missing := next((each for each in ids if each not in stored), None):
        raise _invalid(f"item with id '{missing[:64]}' not found")
    await _check_repeated(stored, [item.id for item in items if isinstance(item, ItemReference)])
    found = dict(zip(ids, await _read([stored[each] for each in ids], "input"), strict=True))
    return [found[item.id] if isinstance(item, ItemReference) else item for item in items]


async def _check_repeated(stored: Mapping[str, Item], references: Sequence[str]) -> None:
    """Check that `references`, ids of `stored` items that may be repeated, are replaced by at most `MAX_CONTEXT_BYTES`.

    Raises:
        InvalidRequest: They are not.
    """
    if len(references) == len(stored):
        return  # each item once, whose bytes are bounded where they are read
    numbers = Counter(references)

    def size() -> int:
        return sum(number * len(json.dumps(stored[id], separators=(",", ":"))) for id, number in numbers.items())

    if await asyncio.to_thread(size) > MAX_CONTEXT_BYTES:
        raise _invalid(f"the items that it refers to have more than {MAX_CONTEXT_BYTES} bytes")


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid 'input': {reason}.", param="input", code="invalid_value")
