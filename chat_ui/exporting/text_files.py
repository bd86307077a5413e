"""Exports conversations as JSON (all branches and files, accepted by `/api/import`) or Markdown (selected branch)."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, BinaryIO

from chat_ui.exporting.conversation_batches import Batches, FullConversation
from chat_ui.history.message_tree import branch, by_id
from chat_ui.history.records import AttachedImage, Attachment, Message
from chat_ui.history.steps import Step

FORMAT = "headrace-chat"
VERSION = 1
_NOT_EXPORTED = ("conversation", "project", "attempt", "waiting")


async def as_json(batches: Batches) -> BinaryIO:
    """Write conversations with all branches to a temporary JSON file, one a line; return the file, open for reading.

    The form is `{"format", "version", "conversations": [{id, title, ..., messages: [...]}]}`.
    """

    async def parts() -> AsyncIterator[Iterable[str]]:
        yield [f'{{"format": "{FORMAT}", "version": {VERSION}, "conversations": [']
        comma = "\n"
        async for batch in batches:
            yield _lines(comma, batch)
            comma = ",\n"
        yield ["\n]}\n"]

    return await _file(parts())


async def as_markdown(batches: Batches) -> BinaryIO:
    """Write the selected branch of conversations to a temporary Markdown file, and return the file, open for reading.

    Each conversation and each message has a heading; steps are blocks of JSON; message texts are inserted unchanged.
    """

    async def parts() -> AsyncIterator[Iterable[str]]:
        async for batch in batches:
            yield _markdown(batch)

    return await _file(parts())


def _lines(comma: str, batch: Sequence[FullConversation]) -> Iterator[str]:
    for conversation, messages in batch:
        exported = {**asdict(conversation), "messages": [_exported(each) for each in messages]}
        yield comma + json.dumps(exported, ensure_ascii=False)
        comma = ",\n"


def _exported(message: Message) -> dict[str, Any]:
    return {name: value for name, value in asdict(message).items() if name not in _NOT_EXPORTED}


def _markdown(batch: Sequence[FullConversation]) -> Iterator[str]:
    for conversation, messages in batch:
        yield f"# {_line(conversation.title) or 'Conversation'}\n\n{_at(conversation.created)}\n\n"
        for message in branch(by_id(messages), conversation.leaf):
            yield _turn(message)


def _turn(message: Message) -> str:
    author = message.model or message.role.value
    attached: list[Attachment | AttachedImage] = [*message.attachments, *message.images]
    files = "".join(f"\n\n*{_line(each.name)}* ({each.size} bytes)" for each in attached)
    steps = "".join(map(_step, message.steps))
    return f"## {_line(author)}, {_at(message.created)}\n\n{steps}{message.text}{files}\n\n"


def _step(step: Step) -> str:
    data = json.dumps(step.data, ensure_ascii=False, indent=1)  # no line of JSON can end the block
    return f"*{_line(step.kind)}: {_line(step.name)}* ({step.state.value})\n\n```json\n{data}\n```\n\n"


def _line(text: str) -> str:
    return " ".join(text.split())


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds")


async def _file(parts: AsyncIterator[Iterable[str]]) -> BinaryIO:
    """Write `parts` in a thread to a temporary file and return it open for reading; closing it frees its disk space."""
    file = await asyncio.to_thread(tempfile.TemporaryFile)
    try:
        async for part in parts:
            await asyncio.to_thread(file.writelines, (text.encode(errors="replace") for text in part))
        await asyncio.to_thread(file.seek, 0)
    except BaseException:
        file.close()
        raise
    return file
