"""Runs the assistant's tools: checks arguments, limits time and size, caches results, makes failures a `ToolError`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from assistant.tools import sentences
from assistant.tools.argument_schema import ArgumentSchema
from assistant.tools.sentences import Sentence
from assistant.tools.tool import (
    InvalidArguments,
    NotFound,
    Tool,
    TooLarge,
    ToolContext,
    ToolError,
    ToolOff,
    Unavailable,
)
from auth_billing.ttl_cache import TtlCache

MAX_ARGUMENT_BYTES = 16 * 1024
MAX_RESULT_BYTES = 256 * 1024
"""Most bytes of a result as JSON; it is a part of a message."""
MAX_CACHED_BYTES = 64 * 1024
"""Larger results are not cached."""
CACHED_RESULTS = 128
"""Results in the cache of one tool, so that it holds at most 8 MiB."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ToolOutcome:
    """Result of a tool call."""

    result: dict[str, Any]
    cached: bool
    seconds: float
    """Wall-clock time of the call."""


class Toolbox:
    """The tools of an installation or an organisation, by name, and those that are off with the reason."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        off: Mapping[str, Sentence] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a toolbox. `off` names tools that the installation lacks or has switched off, and says why.

        Raises:
            SchemaRefused: the schema of a tool is invalid or too large.
            ValueError: two tools have the same name.
        """
        self._entries: dict[str, _Entry] = {}
        self._off = dict(off or {})
        self._clock = clock
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        """Add a tool to the toolbox.

        Raises:
            SchemaRefused: the tool's schema is invalid or too large.
            ValueError: another tool has its name.
        """
        if tool.name in self._entries:
            raise ValueError(f"two tools are named {tool.name!r}")
        self._entries[tool.name] = _Entry(tool, self._clock)

    def switch_off(self, name: str, reason: Sentence) -> None:
        """Switch the tool `name` off until `switch_on`; its calls fail with `reason`, where `{tool}` is the name."""
        self._off[name] = reason

    def switch_on(self, name: str) -> None:
        """Switch the tool `name` on again; does nothing if it is on."""
        self._off.pop(name, None)

    def available(self, off: Collection[str] = ()) -> list[Tool]:
        """Return the tools that are switched on, without those named in `off`, sorted by name."""
        return [
            entry.tool for name, entry in sorted(self._entries.items()) if name not in off and name not in self._off
        ]

    def known(self, names: Collection[str]) -> list[Tool]:
        """Return the tools of the toolbox that `names` lists, sorted by name, also those that are switched off.

        A call of such a tool fails with the reason why it is off.
        """
        return [entry.tool for name, entry in sorted(self._entries.items()) if name in names]

    def find(self, name: str) -> Tool | None:
        """Return the tool named `name`, even if it is switched off; `None` if there is none."""
        entry = self._entries.get(name)
        return None if entry is None else entry.tool

    def reasons(self, language: str) -> dict[str, str]:
        """Return why each switched-off tool of the installation is off: sentences in `language`, by tool name."""
        return {name: reason.text(language, tool=name) for name, reason in sorted(self._off.items())}

    async def run(
        self, name: str, arguments: dict[str, Any], context: ToolContext, off: Collection[str] = ()
    ) -> ToolOutcome:
        """Run the tool named `name` within its limits and return the outcome, or its cached result for equal arguments.

        `off` names tools that the conversation has switched off.

        Raises:
            ToolError: the call failed in any way.
        """
        entry = self._entry(name, off)
        began = self._clock()
        key = _key(name, arguments, context)
        entry.schema.check(name, arguments)
        found = entry.cache.get(key)
        if found is not None:
            return ToolOutcome(msgspec.json.decode(found), cached=True, seconds=self._clock() - began)
        encoded = _encoded(await _limited(entry.tool, arguments, context), name)
        if entry.tool.cache_seconds > 0 and len(encoded) <= MAX_CACHED_BYTES:
            entry.cache.put(key, encoded)
        return ToolOutcome(msgspec.json.decode(encoded), cached=False, seconds=self._clock() - began)

    def check(self, name: str, arguments: dict[str, Any]) -> None:
        """Check the arguments of a call of the tool named `name` by its schema, without running the tool.

        Does nothing if there is no such tool.

        Raises:
            InvalidArguments: the arguments do not match.
        """
        if (entry := self._entries.get(name)) is not None:
            _key(name, arguments)
            entry.schema.check(name, arguments)

    def _entry(self, name: str, off: Collection[str]) -> _Entry:
        reason = self._off.get(name)
        if reason is not None or name in off:
            raise ToolOff(reason, tool=name)
        entry = self._entries.get(name)
        if entry is None:
            raise NotFound(sentences.UNKNOWN_TOOL, tool=name)
        return entry


class _Entry:
    """A tool with the validator of its arguments and the cache of its results."""

    def __init__(self, tool: Tool, clock: Callable[[], float]) -> None:
        self.tool = tool
        self.schema = ArgumentSchema(tool.parameters)
        self.cache: TtlCache[bytes, bytes] = TtlCache(tool.cache_seconds, CACHED_RESULTS, clock)


def _key(name: str, arguments: dict[str, Any], context: ToolContext | None = None) -> bytes:
    """Return the key of a result in the cache. Organisations share none: it would tell what others asked."""
    shared = (context.tenant, context.language) if context is not None else ()
    try:
        key = msgspec.json.encode([arguments, *shared], order="sorted")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments(sentences.WRONG_ARGUMENTS, tool=name, problem=str(error)) from error
    if len(key) > MAX_ARGUMENT_BYTES:
        raise InvalidArguments(sentences.WRONG_ARGUMENTS, tool=name, problem=f"> {MAX_ARGUMENT_BYTES} B")
    return key


async def _limited(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    try:
        async with asyncio.timeout(tool.time_limit) as deadline:
            return await tool.run(arguments, context)
    except ToolError:
        raise
    except Exception as error:
        if isinstance(error, TimeoutError) and deadline.expired():
            raise Unavailable(sentences.TIMED_OUT, tool=tool.name, seconds=f"{tool.time_limit:g}") from error
        _log.exception("tool failed", tool=tool.name)
        raise Unavailable from error


def _encoded(result: dict[str, Any], name: str) -> bytes:
    try:
        encoded = msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        _log.exception("tool result is not JSON", tool=name)
        raise Unavailable from error
    if len(encoded) > MAX_RESULT_BYTES:
        raise TooLarge
    return encoded
