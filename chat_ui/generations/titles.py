"""Titles of conversations, made by the model that answered; if it can't, the first words of the question.

A short job of its own, at the cost of whoever asked. Never in the way of an answer, and never kept waiting for long.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import structlog

from auth_billing.errors import AccountError
from auth_billing.service import Principal
from chat_ui.generations.engine import Ask, AskFailed, Engine, Text, Turn
from chat_ui.history.records import ConversationStore, Message, MessageStore, ModelSettings, Owner, Role, State
from chat_ui.history.terms import terms_of

TOKENS = 24
SECONDS = 30.0
LONGEST = 80
"""Characters of a title that nobody has written."""
SHOWN = 1_000
"""Characters of question and answer that the model sees."""
_ASKED = "Write a title of two to six words for this conversation, in its language. Answer with the title only."
_ITEM = re.compile(r"^\s*(?:\d{1,2}[.)]|[-•])\s+")
"""Of a list: what a model begins that was asked for a title."""
_DECORATION = re.compile(r"^[\s\"'“”„«»*#`_]+|[\s\"'“”„«»*#`_.:]+$")

_log = structlog.get_logger(__name__)


class Titles:
    """Gives titles to conversations that have none."""

    def __init__(self, engine: Engine, conversations: ConversationStore, messages: MessageStore) -> None:
        self._engine = engine
        self._conversations = conversations
        self._messages = messages
        self._making: set[str] = set()
        """Conversations that are being given one."""

    async def after(self, owner: Owner, answer: Message, principal: Callable[[], Awaitable[Principal]]) -> str:
        """An answer has ended: see that its conversation can be found by it, and has a title; empty: it had one."""
        await self._conversations.add_terms(owner, answer.conversation, terms_of([answer.text]))
        conversation = await self._conversations.find(owner, answer.conversation)
        if conversation is None or conversation.title or answer.conversation in self._making:
            return ""
        question = await self._messages.find(owner, answer.conversation, answer.parent or "")
        if question is None:
            return ""
        self._making.add(answer.conversation)
        try:
            return await self._give(owner, question, answer, principal)
        finally:
            self._making.discard(answer.conversation)

    async def _give(
        self, owner: Owner, question: Message, answer: Message, principal: Callable[[], Awaitable[Principal]]
    ) -> str:
        title = ""
        if answer.state is State.DONE and answer.text.strip():
            try:
                async with asyncio.timeout(SECONDS):
                    title = await self._made(await principal(), question, answer)
            except (AskFailed, AccountError, TimeoutError) as error:
                _log.info("the model makes no title", reason=str(error))
        title = title or cleaned(question.text)
        given = await self._conversations.set_first_title(owner, answer.conversation, title)
        await self._conversations.add_terms(owner, answer.conversation, terms_of([title]))
        return title if given else ""

    async def _made(self, principal: Principal, question: Message, answer: Message) -> str:
        shown = f"{_ASKED}\n\nQuestion: {question.text[:SHOWN]}\n\nAnswer: {answer.text[:SHOWN]}"
        settings = ModelSettings(model=answer.model or "", temperature=0.0, max_tokens=TOKENS)
        saying_title = self._engine.answer(principal, Ask(settings, [Turn(Role.USER, shown)]))
        async with aclosing(saying_title) as saying:  # type: ignore[type-var]
            said = [each.text async for each in saying if isinstance(each, Text)]
        return cleaned("".join(said))


def cleaned(text: str) -> str:
    """The first line of a text, without decoration, cut at a word."""
    line = next((each for each in text.splitlines() if each.strip()), "")
    line = " ".join("".join(each if each.isprintable() else " " for each in line).split())
    line = _DECORATION.sub("", _ITEM.sub("", line))
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST - 1].rsplit(' ', 1)[0]}…"
