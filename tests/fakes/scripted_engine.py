"""A chat engine that writes what a test scripts, when the test lets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from auth_billing.access.principal import Principal
from chat_ui.generations.model_client import (
    AnswerEnd,
    AnswerRequest,
    ModelEvent,
    Price,
    SearchOffer,
    ServedModel,
    StepUpdate,
    TextDelta,
    Verifier,
)
from chat_ui.history.records import QueueStatus, TokenUsage
from chat_ui.history.steps import Step

MODEL = "org/counting-model"


@dataclass
class ScriptedEngine:
    """Answers every question by `words`, steps among them; errors are raised where they stand."""

    words: list[str | Step | Exception] = field(default_factory=lambda: ["Hello ", "you."])
    asked: list[tuple[Principal, AnswerRequest]] = field(default_factory=list)
    closed: int = 0
    """Answers that were not heard to their end."""
    line: list[QueueStatus] = field(default_factory=lambda: [QueueStatus(0, None)])
    """What is said before the first word."""
    patient: bool = False
    """Wait for `go` before every word."""
    go: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def answer(self, principal: Principal, request: AnswerRequest) -> AsyncIterator[ModelEvent]:
        self.asked.append((principal, request))
        words = ["A title"] if request.turns[-1].text.startswith("Write a title") else self.words
        ended = False
        try:
            for place in self.line:
                yield place
            for number, word in enumerate(words, 1):
                if self.patient and words is self.words:
                    await self.go.acquire()
                if isinstance(word, Exception):
                    ended = True
                    raise word
                if isinstance(word, Step):
                    yield StepUpdate(word, TokenUsage(), number)
                    continue
                yield TextDelta(word, TokenUsage(5, 2, number), 10 + number)
            ended = True
            yield AnswerEnd("stop", TokenUsage(5, 2, len(words)), 10 + len(words))
        finally:
            self.closed += not ended

    async def models(self, _principal: Principal) -> list[ServedModel]:
        return [ServedModel(MODEL, 128, Price(3, 2, 6), True)]

    async def search_offer(self, _principal: Principal) -> SearchOffer:
        return SearchOffer([Verifier("judge", Price(1, 1, 0), True)], 1000, 64)
