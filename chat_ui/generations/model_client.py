"""Defines the interface through which the chat calls models; `infra` implements it with the gateway.

Closing the iterator of an answer cancels its generation at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from auth_billing.access.principal import Principal
from chat_ui.history.records import ModelSettings, QueueStatus, Role, TokenUsage
from chat_ui.history.steps import Step


@dataclass(frozen=True)
class Turn:
    """One turn of a prompt: a role and its text, as the model gets them."""

    role: Role
    text: str
    images: tuple[str, ...] = ()
    """Blob ids of the images before the text, in order."""


@dataclass(frozen=True)
class AnswerRequest:
    """A request to a model. If `continues`, the last turn is the beginning of the answer, which the model continues.

    Unless it `reasons`, the model answers at once.
    """

    settings: ModelSettings
    turns: Sequence[Turn]
    continues: bool = False
    reasons: bool = True


@dataclass(frozen=True)
class TextDelta:
    """The next piece of an answer's text, with the usage and the cost (nano-USD) of the request so far."""

    text: str
    usage: TokenUsage
    cost: int


@dataclass(frozen=True)
class StepUpdate:
    """A step that began or ended before the answer's text, with usage and cost (nano-USD) of the request so far."""

    step: Step
    usage: TokenUsage
    cost: int


@dataclass(frozen=True)
class AnswerEnd:
    """The end of an answer, with its total usage and cost (nano-USD)."""

    finish_reason: str
    usage: TokenUsage
    cost: int


ModelEvent = QueueStatus | StepUpdate | TextDelta | AnswerEnd


class AnswerFailed(Exception):
    """The answer failed or is incomplete; the message is shown to people."""

    def __init__(self, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


class ContinuationUnsupported(AnswerFailed):
    """The model can't continue a partial answer; request it from the start."""


class ShuttingDown(AnswerFailed):
    """This process is shutting down; another process may continue the answer."""


@dataclass(frozen=True)
class Price:
    """Prices of a model, in nano-USD per token."""

    input: int
    cached_input: int
    output: int


@dataclass(frozen=True)
class ServedModel:
    """A model that can be called. `context` is in tokens; a `price` of `None` is not set; `tools` are its own tools."""

    id: str
    context: int
    price: Price | None
    ready: bool
    tools: Sequence[str] = ()
    reads_images: bool = False
    searches: bool = False


@dataclass(frozen=True)
class Verifier:
    """A model that can score the paths of a search; a `price` of `None` is not set."""

    id: str
    price: Price | None
    ready: bool
    own_names: Sequence[str] = ()
    """Names of a chat model, which grades the paths of other models only; empty for models that score."""


@dataclass(frozen=True)
class SearchOffer:
    """What searches can use: verifiers, and the largest numbers of tokens of a search and of one of its answers."""

    verifiers: Sequence[Verifier]
    max_tokens: int
    """Most tokens that all paths together generate, and most that the verifier reads."""
    answer_tokens: int
    """Most tokens of an answer whose settings set none."""


class ModelClient(Protocol):
    """Calls models on behalf of signed-in users."""

    def answer(self, principal: Principal, request: AnswerRequest) -> AsyncIterator[ModelEvent]:
        """Call a model, billed to `principal`, and yield its answer's events: queue positions, steps, text, end.

        Raises:
            AnswerFailed: the answer failed or is incomplete; the text before is billed.
            ContinuationUnsupported: the model can't continue a partial answer.
            ShuttingDown: this process is shutting down; another one may continue the answer.
        """
        ...

    async def models(self, principal: Principal) -> list[ServedModel]:
        """Return the models that `principal` may call, sorted by name."""
        ...

    async def search_offer(self, principal: Principal) -> SearchOffer:
        """Return what `principal` can use in searches for answers: the verifiers, and the largest numbers of tokens."""
        ...
