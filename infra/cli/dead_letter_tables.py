"""Formats dead letters as terminal tables and as JSON values; prompts and answers are hidden by default.

See docs/design/reliability-contract.md#I9.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.markup import escape
from rich.table import Table

from infra.cli.process_table import duration
from router.dead_letters import DeadLetter, Kind

HIDDEN = frozenset({"prompt", "delivered", "grammar", "text", "cache_salt"})
"""Job fields that contain prompts or answers."""
COLUMNS = ("id", "kind", "queue", "model", "reason")


def table(letters: Sequence[DeadLetter]) -> Table:
    """Return a terminal table with one row per dead letter, without bodies."""
    result = Table(box=None, pad_edge=False, header_style="bold")
    for title in COLUMNS:
        result.add_column(title.upper(), overflow="fold", no_wrap=title == "id")  # ids must not wrap, to be copied
    for title in ("deaths", "age", "size"):
        result.add_column(title.upper(), justify="right", no_wrap=True)
    for each in letters:
        values = metadata(each)
        age = "?" if values["age_seconds"] is None else duration(values["age_seconds"])
        shown = (*(str(values[name]) for name in COLUMNS), str(values["deaths"] or "?"), age, _size(values["bytes"]))
        result.add_row(*map(escape, shown))  # names and reasons are those of other processes
    return result


def metadata(letter: DeadLetter) -> dict[str, Any]:
    """Return one dead letter's metadata as JSON values, without its body."""
    return {
        "id": letter.id,
        "kind": letter.kind.value,
        "queue": letter.queue,
        "model": letter.model,
        "reason": letter.reason,
        "code": letter.code,
        "by": letter.closed_by,
        "deaths": letter.deaths,
        "at": letter.at,
        "age_seconds": None if letter.at is None else max(0, round(time.time() - letter.at)),
        "bytes": len(letter.delivery.body),
    }


def full_view(letter: DeadLetter, *, prompt: bool) -> dict[str, Any]:
    """Return one dead letter with headers and body as JSON values; prompts and answers only if `prompt` is true."""
    return metadata(letter) | {"headers": letter.headers, "body": _body(letter, prompt=prompt)}


def _body(letter: DeadLetter, *, prompt: bool) -> Any:
    if letter.kind is Kind.UNREADABLE:
        body = letter.delivery.body
        return body.decode(errors="replace") if prompt else _hidden(len(body))
    fields: dict[str, Any] = msgspec.json.decode(letter.delivery.body)
    if prompt:
        return fields
    return {name: _hidden(_length(value)) if name in HIDDEN else value for name, value in fields.items()}


def _hidden(size: int) -> str:
    return f"({size} bytes, shown by --prompt)"


def _length(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _size(count: int) -> str:
    return f"{count} B" if count < 1024 else f"{count / 1024:.1f} KiB"
