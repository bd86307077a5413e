"""The port to whatever answers: what is asked of it, and what it says. Knows no gateway, no queue and no store.

A generation is closed by closing its iterator; the engine is stopped then, at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from auth_billing.service import Principal
from chat_ui.history.records import ModelSettings, Role, TokenUsage, Waiting


@dataclass(frozen=True)
class Turn:
    """What somebody said."""

    role: Role
    text: str


@dataclass(frozen=True)
class Ask:
    """What is asked of a model. `continues`: the last turn is the beginning of the answer, to be gone on with."""

    settings: ModelSettings
    turns: Sequence[Turn]
    continues: bool = False


@dataclass(frozen=True)
class Text:
    """What comes next, and what all until now has used and cost (nano-USD)."""

    text: str
    usage: TokenUsage
    cost: int


@dataclass(frozen=True)
class Ended:
    """Nothing follows. `cost` is nano-USD."""

    finish_reason: str
    usage: TokenUsage
    cost: int


Said = Waiting | Text | Ended


class AskFailed(Exception):
    """There is no (whole) answer; the message is for people."""

    def __init__(self, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


class CannotContinue(AskFailed):
    """The model can't go on with a begun answer: it is to be asked from the start."""


class EngineStopping(AskFailed):
    """This process stops: somebody else may go on."""


@dataclass(frozen=True)
class Price:
    """Nano-USD per token."""

    input: int
    cached_input: int
    output: int


@dataclass(frozen=True)
class ServedModel:
    """A model that can be asked. `price`: `None`, nobody has said."""

    id: str
    context: int
    price: Price | None
    ready: bool


class Engine(Protocol):
    """Whatever answers."""

    def answer(self, principal: Principal, ask: Ask) -> AsyncIterator[Said]:
        """Ask, for and at the cost of `principal`. Raises `AskFailed`; what was said before counts."""
        ...

    async def models(self, principal: Principal) -> list[ServedModel]:
        """The models that may be asked, by name."""
        ...
