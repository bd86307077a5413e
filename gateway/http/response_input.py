"""Collects the input of a response: the items of the responses or the conversation that it continues, and its own.

References to stored items are replaced by those items.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from auth_billing.access.principal import Principal
from gateway.errors import InvalidRequest
from gateway.http.gateway import Gateway
from gateway.openai.responses.encrypted_items import decrypted
from gateway.openai.responses.items import InputItem, ItemReference
from gateway.openai.responses.request import ContextFields
from gateway.openai.responses.response import OPEN_STATUSES
from gateway.openai.responses.stored_items import from_stored
from gateway.openai.responses.translation import input_items, param_of, renamed
from router.producer.errors import JobFailed
from stored_objects.errors import ContextTooLarge, DocumentNotFound
from stored_objects.project_documents.records import ProjectDocument, ProjectOwner
from stored_objects.responses.responses import Item, StoredResponse

MAX_REFERENCES = 128
"""Most stored items that an input may refer to."""
INLINE_ITEMS = 256
"""More items are read in a thread, so that they do not block the event loop."""
INLINE_CHARACTERS = 256 * 1024
"""More characters of encrypted contents are decrypted in a thread."""


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
        earlier = await _read([item for each in context for item in each.all_items])
        return ResponseInput(context, own, None, await _decrypted(gateway, caller, [*earlier, *own]))
    conversation = await gateway.conversations.find(ProjectOwner.of(caller), body.conversation_id)
    try:
        items = await gateway.conversations.items(conversation)
    except ContextTooLarge as error:
        message = f"The conversation is too long: {error}."
        raise InvalidRequest(message, param="conversation", code="context_length_exceeded") from error
    continued = [*await _read(items), *own]
    return ResponseInput(context, own, conversation, await _decrypted(gateway, caller, continued))


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


async def _read(items: Sequence[Item]) -> list[InputItem]:
    if len(items) <= INLINE_ITEMS:
        return from_stored(items)
    return await asyncio.to_thread(from_stored, items)


async def _decrypted(gateway: Gateway, caller: Principal, items: list[InputItem]) -> list[InputItem]:
    size = sum(len(getattr(item, "encrypted_content", None) or "") for item in items)
    if not size:
        return items
    arguments = gateway.contents, ProjectOwner.of(caller), items
    return decrypted(*arguments) if size <= INLINE_CHARACTERS else await asyncio.to_thread(decrypted, *arguments)


async def _resolved(gateway: Gateway, caller: Principal, items: list[InputItem]) -> list[InputItem]:
    ids = list(dict.fromkeys(item.id for item in items if isinstance(item, ItemReference)))
    if not ids:
        return items
    if len(ids) > MAX_REFERENCES:
        raise _invalid(f"it refers to more than {MAX_REFERENCES} items")
    stored = await gateway.responses.items(ProjectOwner.of(caller), ids)
    if missing := next((each for each in ids if each not in stored), None):
        raise _invalid(f"item with id '{missing[:64]}' not found")
    found = dict(zip(ids, from_stored([stored[each] for each in ids]), strict=True))
    return [found[item.id] if isinstance(item, ItemReference) else item for item in items]


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid 'input': {reason}.", param="input", code="invalid_value")
