"""Exports conversations as CSV or XLSX: one row per message of the selected branch; numbers stay numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import BinaryIO

from auth_billing.prices.pricing import NANO
from chat_ui.exporting.conversation_batches import Batches, FullConversation
from chat_ui.history.message_tree import branch, by_id
from chat_ui.history.records import Conversation, Message, ModelSettings, TokenUsage
from runtime import tables
from runtime.tables import Row

COLUMNS = (
    "time",
    "conversation_id",
    "conversation",
    "role",
    "model",
    "temperature",
    "top_p",
    "repetition_penalty",
    "max_tokens",
    "system_prompt",
    "text",
    "attachments",
    "state",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "cost_usd",
    "seconds",
    "text_continued",
)
"""Column names. Columns after the last one continue a text that is too long for one spreadsheet cell."""


async def csv(batches: Batches) -> BinaryIO:
    """Write conversations to a temporary CSV file, and return the file, open for reading.

    The file has one row per message of the selected branch, and each text is in one cell.
    """
    return await tables.csv_file(COLUMNS[:-1], _tables(batches, in_pieces=False))


async def xlsx(batches: Batches) -> BinaryIO:
    """Write conversations to a temporary XLSX file, and return the file, open for reading.

    The file has one row per message of the selected branch; texts that are longer than a cell are split.
    """
    return await tables.xlsx_file(COLUMNS, _tables(batches, in_pieces=True))


async def _tables(batches: Batches, *, in_pieces: bool) -> AsyncIterator[Iterator[Row]]:
    async for batch in batches:
        yield _rows(batch, in_pieces=in_pieces)


def _rows(batch: Sequence[FullConversation], *, in_pieces: bool) -> Iterator[Row]:
    """Yield the rows of a batch; a generator, so that a thread makes them while it writes the file."""
    for conversation, messages in batch:
        for each in branch(by_id(messages), conversation.leaf):
            yield _row(conversation, each, in_pieces=in_pieces)


def _row(conversation: Conversation, message: Message, *, in_pieces: bool) -> Row:
    settings, usage = message.settings or ModelSettings(), message.usage
    text, *continued = tables.split_for_cells(message.text) if in_pieces else [message.text]
    return (
        datetime.fromtimestamp(message.created, UTC),
        conversation.id,
        conversation.title,
        message.role.value,
        settings.model,
        settings.temperature,
        settings.top_p,
        settings.repetition_penalty,
        settings.max_tokens,
        settings.system,
        text,
        ", ".join([*(each.name for each in message.attachments), *(each.name for each in message.images)]),
        message.state.value,
        *_tokens(usage),
        None if message.cost is None else Decimal(message.cost) / NANO,
        message.seconds,
        *continued,
    )


def _tokens(usage: TokenUsage | None) -> Sequence[int | None]:
    if usage is None:
        return (None, None, None)
    return (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
