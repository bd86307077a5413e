"""Reads the conversation of an assistant's job, and builds the answering model's prompt, cut to its context.

Models get the texts of earlier turns, never their steps. A tool's result is in the prompt of the turn that called it
only, in a delimited block of the last message. What no longer fits into the answering model's context is left out from
the oldest turn on, and a `summary` step says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assistant.routing.language import language_of
from assistant.turn import Turn

BYTES_PER_TOKEN = 3
"""Bytes of UTF-8 that a token stands for in an estimate which rather leaves out a turn too many."""
ANSWER_SHARE = 4
"""At least a fourth of the context is left to the answer, if the client sets no limit."""
MESSAGE_TOKENS = 8
"""Tokens that a chat template adds to a message, estimated."""
_SYSTEM = ("system", "developer")


@dataclass(frozen=True)
class Conversation:
    """Messages in OpenAI's format, ending with the person's question."""

    messages: Sequence[dict[str, Any]]

    @property
    def question(self) -> str:
        """Text of the last message, which the assistant answers; "" if it has none."""
        return str(self.messages[-1].get("content") or "") if self.messages else ""

    @property
    def is_question(self) -> bool:
        """Whether the last message is a person's and has text, so that a tool may be needed."""
        return bool(self.messages) and self.messages[-1].get("role") == "user" and bool(self.question.strip())

    @property
    def history(self) -> list[Turn]:
        """The turns before the question that have text, oldest first, as routing reads them."""
        turns = []
        for message in self.messages[:-1]:
            text = str(message.get("content") or "")
            if text and (role := message.get("role")) in ("user", "assistant"):
                turns.append(Turn("user" if role == "user" else "assistant", text))
        return turns

    @property
    def language(self) -> str:
        """Language of the question as a BCP 47 tag: "en" or "pl"."""
        return language_of(self.question, self.history)

    def prompt(self, *, system: str, tool_result: str = "", dropped: int = 0) -> list[dict[str, Any]]:
        """Return the messages of the answering model's prompt, made from this conversation.

        Args:
            system: text before the client's system message; may be empty.
            tool_result: text about the tool's result, put before the question; empty without a tool.
            dropped: number of the oldest messages, system messages not counted, that are left out.
        """
        first = [each for each in self.messages if each.get("role") in _SYSTEM]
        rest = [each for each in self.messages if each.get("role") not in _SYSTEM][dropped:]
        if tool_result and rest:
            rest[-1] = {**rest[-1], "content": f"{tool_result}\n\n{rest[-1].get('content') or ''}"}
        if system:
            own = str(first[0].get("content") or "") if first else ""
            first = [{"role": "system", "content": f"{system}\n\n{own}".strip()}, *first[1:]]
        return [*first, *rest]

    def turns_to_drop(self, *, limit: int, extra: int) -> int:
        """Return how many of the oldest messages to leave out so that the prompt fits, by an estimate of its tokens.

        Args:
            limit: tokens that the prompt may have.
            extra: bytes of system prompt and tool result.

        System messages are not counted, and the last message always stays. Answers without their question go with it.
        """
        fixed = [each for each in self.messages if each.get("role") in _SYSTEM]
        rest = [each for each in self.messages if each.get("role") not in _SYSTEM]
        size = sum(map(_tokens, (*fixed, *rest))) + extra // BYTES_PER_TOKEN
        dropped = 0
        while size > limit and dropped < len(rest) - 1:
            size -= _tokens(rest[dropped])
            dropped += 1
        return self.whole_turns(dropped)

    def whole_turns(self, dropped: int) -> int:
        """Return how many oldest messages to leave out, at least `dropped`, to keep no answer without its question.

        What is kept then begins with a person's message, or is the last message alone.
        """
        rest = [each for each in self.messages if each.get("role") not in _SYSTEM]
        while 0 < dropped < len(rest) - 1 and rest[dropped].get("role") != "user":
            dropped += 1
        return dropped

    def images_before(self, dropped: int) -> int:
        """Return how many images the oldest `dropped` messages have, system messages not counted."""
        rest = [each for each in self.messages if each.get("role") not in _SYSTEM]
        parts = [part for message in rest[:dropped] for part in _parts(message)]
        return sum(part.get("type") == "image" for part in parts)

    @property
    def droppable(self) -> int:
        """Number of messages that may be left out of the prompt: all but system messages and the last one."""
        return max(0, sum(each.get("role") not in _SYSTEM for each in self.messages) - 1)


def prompt_limit(context: int, max_tokens: int | None) -> int:
    """Return how many tokens a prompt may have in a context of `context` tokens, so that an answer has room.

    The answer gets `max_tokens`, but at most three fourths of the context; `None`: a fourth.
    """
    share = context // ANSWER_SHARE
    return max(1, context - (share if max_tokens is None else min(max_tokens, context - share)))


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the texts and images of a message with images; [] for one whose content is a string."""
    content = message.get("content")
    return content if isinstance(content, list) else []


def _tokens(message: dict[str, Any]) -> int:
    return len(str(message.get("content") or "").encode()) // BYTES_PER_TOKEN + MESSAGE_TOKENS
