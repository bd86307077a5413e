"""Builds grammars of free text in which every tool call is valid: for `tool_choice: "auto"` with `strict` functions.

Text is free until it opens a call: with the markup's opener or, for markups without one, with the beginning of a call
at the beginning of the message. From there on the grammar enforces the call as the model's own markup writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inference_worker.worker.text.tool_calls.call_rules import SPACE, arguments_rules, call_rule, escaped
from inference_worker.worker.text.tool_calls.markup import Markup
from router.messages import Grammar, GrammarKind

_TEXT = r"(?s:.*)"
_BARE_OPENING = r'[ \t\r\n]*(?:\[[ \t\r\n]*)?\{[ \t\r\n]*"(?:(?:name|arguments|parameters|id|type)"|[^"\\]*\\)'
"""Beginning of a message that is a call: its first key. An escape in the key counts, because it may spell one."""


def strict_calls_grammar(
    tools: Sequence[Mapping[str, Any]], markup: Markup, controls: Mapping[str, int], *, parallel: bool
) -> Grammar:
    """Build the grammar of free text in which every tool call in the model's `markup` names one of `tools`.

    The arguments of a call match the schema of its tool if that is strict.

    Args:
        controls: ids of the markup's strings that are control tokens of the vocabulary.
        parallel: whether several calls are allowed; otherwise the output ends with the first one.
    """
    source = "\n".join(_Rules(tools, markup, controls, parallel=parallel).lines())
    return Grammar(kind=GrammarKind.LARK, source=source, param="tools")


class _Rules:
    """Writer of the grammar's rules in llguidance's Lark notation."""

    def __init__(
        self, tools: Sequence[Mapping[str, Any]], markup: Markup, controls: Mapping[str, int], *, parallel: bool
    ) -> None:
        self._functions = [tool["function"] for tool in tools]
        self._markup = markup
        self._controls = controls
        self._parallel = parallel

    def lines(self) -> Iterator[str]:
        """Yield the rules of the grammar in Lark notation, one per line."""
        more = " opened* TEXT" if self._parallel else ""
        first = ["opened* TEXT"] if self._parallel else ["opened", "TEXT"]
        if self._markup.bare:
            first = [f"first_opened{more}", "FIRST_TEXT", f"bare{more}"]
            not_bare = f" & ~/{_BARE_OPENING}{_TEXT}/"
            yield f"FIRST_TEXT: /{_TEXT}/{not_bare}"
            yield from self._opened("first_", not_bare)
            yield from self._calls("bare")
        yield "start: " + " | ".join(first)
        yield f"TEXT: /{_TEXT}/"
        yield from self._opened("", "")
        yield from self._calls("calls")
        yield from arguments_rules(self._functions)

    def _opened(self, prefix: str, condition: str) -> Iterator[str]:
        """Yield the rules of text up to and including the opener, as text or control token, and the calls after it."""
        opener = self._markup.opener
        closer = f" {self._closer()}" if self._markup.closer else ""
        heads = [f"{prefix}text_opener"]
        yield f"{prefix}text_opener[lazy]: {prefix.upper()}OPENER"
        yield f"{prefix.upper()}OPENER: /{_TEXT}{escaped(opener)}/{condition}"
        if opener in self._controls:
            heads.append(f"{prefix.upper()}TEXT <[{self._controls[opener]}]>")
        yield f"{prefix}opened: ({' | '.join(heads)}) calls{closer}"

    def _closer(self) -> str:
        closer = self._markup.closer
        written = [f"/{SPACE}{escaped(closer)}/"]
        if closer in self._controls:
            written.append(f"/{SPACE}/ <[{self._controls[closer]}]>")
        return f"({' | '.join(written)})"

    def _calls(self, rule: str) -> Iterator[str]:
        """Yield the rules of the calls after an opener: objects, a list of objects, or names with arguments."""
        call, item, listed = f"{rule}_call", f"{rule}_item", f"{rule}_list"
        separator = self._markup.separator
        repeated = f" (/{SPACE}{escaped(separator)}/ {call})*" if separator and self._parallel else ""
        kinds = [call + repeated, f"{listed} /{SPACE}\\]/"]
        if self._markup.named:
            kinds.append(f"{rule}_named")
            yield f"{rule}_named: " + " | ".join(self._named(number) for number in self._numbers())
        yield f"{rule}: " + " | ".join(kinds)
        yield f"{call}: " + " | ".join(self._object(number, SPACE) for number in self._numbers())
        more = f" (/{SPACE},/ {item})*" if self._parallel else ""
        opening = rf"{SPACE}\[{SPACE}"
        yield f"{listed}: ({' | '.join(self._object(number, opening) for number in self._numbers())}){more}"
        if more:
            yield f"{item}: " + " | ".join(self._object(number, SPACE) for number in self._numbers())

    def _numbers(self) -> range:
        return range(len(self._functions))

    def _object(self, number: int, before: str) -> str:
        return call_rule(number, self._functions[number], before)

    def _named(self, number: int) -> str:
        name = f"/{SPACE}{escaped(self._functions[number]['name'])}/"
        call_id = f"({self._marker('[CALL_ID]')} /[a-zA-Z0-9]{{1,32}}/)?"
        return f"{name} {call_id} {self._marker('[ARGS]')} /{SPACE}/ arguments{number}"

    def _marker(self, text: str) -> str:
        return f"<[{self._controls[text]}]>" if text in self._controls else json.dumps(text)
