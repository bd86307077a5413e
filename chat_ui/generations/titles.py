"""Gives conversations titles, by the answering model or from the question's first words, and indexes answers.

A title is a separate short request, billed to the conversation's owner. It starts after the answer and has a timeout.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import structlog

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountError
from chat_ui.generations.model_client import AnswerFailed, AnswerRequest, ModelClient, TextDelta, Turn
from chat_ui.history.records import ConversationStore, Message, MessageStore, ModelSettings, Owner, Role, State
from chat_ui.history.search_terms import search_terms

MAX_TOKENS = 24
TITLE_TIMEOUT = 30.0
"""Timeout of generating a title."""
MAX_CHARS = 80
"""Characters of a generated title, at most."""
EXCERPT_CHARS = 1_000
"""Characters of the question and of the answer that the model gets."""
_PROMPT = "Write a title of two to six words for this conversation, in its language. Answer with the title only."
_LIST_MARKER = re.compile(r"^\s*(?:\d{1,2}[.)]|[-•])\s+")
"""The marker of a list item: models like to answer with a list of titles."""
_DECORATION = re.compile(r"^[\s\"'“”„«»*#`_]+|[\s\"'“”„«»*#`_.:]+$")

_log = structlog.get_logger(__name__)


class TitleGenerator:
    """Generates titles for conversations that have none, and indexes answers for search."""

    def __init__(self, model_client: ModelClient, conversations: ConversationStore, messages: MessageStore) -> None:
        self._model_client = model_client
        self._conversations = conversations
        self._messages = messages
        self._in_progress: set[str] = set()
        """Ids of conversations for which a title is being generated."""

    async def after_answer(self, owner: Owner, answer: Message, principal: Callable[[], Awaitable[Principal]]) -> str:
        """Index an ended answer's words for search, and have the model title the conversation if it has no title.

        Return the title that the conversation got, an empty text if it got none.
        """
        await self._conversations.add_terms(owner, answer.conversation, search_terms([answer.text]))
        conversation = await self._conversations.find(owner, answer.conversation)
        if conversation is None or conversation.title or answer.conversation in self._in_progress:
            return ""
        question = await self._messages.find(owner, answer.conversation, answer.parent or "")
        if question is None:
            return ""
        self._in_progress.add(answer.conversation)
        try:
            return await self._set_title(owner, question, answer, principal)
        finally:
            self._in_progress.discard(answer.conversation)

    async def _set_title(
        self, owner: Owner, question: Message, answer: Message, principal: Callable[[], Awaitable[Principal]]
    ) -> str:
        title = ""
        if answer.state is State.DONE and answer.text.strip():
            try:
                async with asyncio.timeout(TITLE_TIMEOUT):
                    title = await self._generate(await principal(), question, answer)
            except (AnswerFailed, AccountError, TimeoutError) as error:
                _log.info("the model generated no title", reason=str(error))
        title = title or clean_title(question.text)
        given = await self._conversations.set_initial_title(owner, answer.conversation, title)
        await self._conversations.add_terms(owner, answer.conversation, search_terms([title]))
        return title if given else ""

    async def _generate(self, principal: Principal, question: Message, answer: Message) -> str:
        shown = f"{_PROMPT}\n\nQuestion: {question.text[:EXCERPT_CHARS]}\n\nAnswer: {answer.text[:EXCERPT_CHARS]}"
        settings = ModelSettings(model=answer.model or "", temperature=0.0, max_tokens=MAX_TOKENS, tools_off=("*",))
        request = AnswerRequest(settings, [Turn(Role.USER, shown)], reasons=False)
        answer_events = self._model_client.answer(principal, request)
        async with aclosing(answer_events) as events:  # type: ignore[type-var]
            texts = [each.text async for each in events if isinstance(each, TextDelta)]
        return clean_title("".join(texts))


def clean_title(text: str) -> str:
    """Return a text's first line as a title: no quotes or Markdown, cut to `MAX_CHARS` at a word boundary."""
    line = next((each for each in text.splitlines() if each.strip()), "")
    line = " ".join("".join(each if each.isprintable() else " " for each in line).split())
    line = _DECORATION.sub("", _LIST_MARKER.sub("", line))
    if len(line) <= MAX_CHARS:
        return line
    return f"{line[: MAX_CHARS - 1].rsplit(' ', 1)[0]}…"
