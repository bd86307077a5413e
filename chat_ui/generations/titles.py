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
_DECORATION = re.compile(r"^[\s\"'“”„«»*#`_]+|[\s\"'“”„«»*#`_.:]+$")

_log = structlog.get_logger(__name__)


class Titles:
    """Gives titles to conversations that have none."""

    def __init__(self, engine: Engine, conversations: ConversationStore, messages: MessageStore) -> None:
        self._engine = engine
        self._conversations = conversations
        self._messages = messages
        self._making: dict[str, asyncio.Task[str]] = {}

    async def after(self, owner: Owner, answer: Message, principal: Callable[[], Awaitable[Principal]]) -> None:
        """An answer has ended: see that its conversation has a title, and can be found by what was said."""
        await self._conversations.add_terms(owner, answer.conversation, terms_of([answer.text]))
        conversation = await self._conversations.find(owner, answer.conversation)
        if conversation is None or conversation.title or answer.conversation in self._making:
            return
        question = await self._messages.find(owner, answer.conversation, answer.parent or "")
        if question is not None:
            task = asyncio.create_task(self._give(owner, question, answer, principal))
            self._making[answer.conversation] = task
            task.add_done_callback(lambda _: self._making.pop(answer.conversation, None))

    async def awaited(self, conversation_id: str) -> str:
        """The title that is being made for a conversation; empty: none is."""
        task = self._making.get(conversation_id)
        return "" if task is None else await asyncio.shield(task)

    async def close(self) -> None:
        """Stop; conversations without a title get one after their next answer."""
        for task in list(self._making.values()):
            task.cancel()
        await asyncio.gather(*self._making.values(), return_exceptions=True)

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
        try:
            given = await self._conversations.set_first_title(owner, answer.conversation, title)
            await self._conversations.add_terms(owner, answer.conversation, terms_of([title]))
        except AccountError as error:
            _log.warning("a title is not written", reason=str(error))
            return ""
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
    line = _DECORATION.sub("", line)
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST - 1].rsplit(' ', 1)[0]}…"
