"""The port through which the chat calls models; `infra` implements it with the gateway.

Closing the iterator of an answer cancels its generation at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from auth_billing.access.principal import Principal
from chat_ui.history.records import ModelSettings, Role, TokenUsage, Waiting


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation as the model gets it."""

    role: Role
    text: str


@dataclass(frozen=True)
class Ask:
    """A request to a model. `continues`: the last turn is the beginning of the answer, which the model continues."""

    settings: ModelSettings
    turns: Sequence[Turn]
    continues: bool = False


@dataclass(frozen=True)
class Text:
    """The next piece of text, with the usage and the cost (nano-USD) of the request so far."""

    text: str
    usage: TokenUsage
    cost: int


@dataclass(frozen=True)
class Ended:
    """The end of an answer, with its total usage and cost (nano-USD)."""

    finish_reason: str
    usage: TokenUsage
    cost: int


Said = Waiting | Text | Ended


class AskFailed(Exception):
    """The answer failed or is incomplete; the message is shown to people."""

    def __init__(self, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


class CannotContinue(AskFailed):
    """The model can't continue a partial answer; request it from the start."""


class EngineStopping(AskFailed):
    """This process is shutting down; another process may continue the answer."""


@dataclass(frozen=True)
class Price:
    """Nano-USD per token."""

    input: int
    cached_input: int
    output: int


@dataclass(frozen=True)
class ServedModel:
    """A model that can be called. `context` is in tokens; a `price` of `None` is not set."""

    id: str
    context: int
    price: Price | None
    ready: bool


class Engine(Protocol):
    """Calls models on behalf of signed-in users."""

    def answer(self, principal: Principal, ask: Ask) -> AsyncIterator[Said]:
        """Yield an answer, billed to `principal`. Raises `AskFailed`; text that came before it counts and is billed."""
        ...

    async def models(self, principal: Principal) -> list[ServedModel]:
        """Return the models that `principal` may call, sorted by name."""
        ...
