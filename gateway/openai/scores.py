"""Request and response models of `/v1/score` and `/v1/rerank`.

Source: vLLM's `ScoreRequest` and `RerankRequest`; `messages`, `candidates`, `separator` and `step_scores` are
extensions for reward models. Bodies of Jina's and Cohere's rerank are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Ignored, OmitIfNone, Refused, RequestBody, conflict, missing
from gateway.openai.messages import AssistantMessage, InstructionMessage, ToolMessage, UserMessage, text_of, to_wire
from gateway.openai.sampling import INT32_MAX
from router.messages import ScorePrompt

MAX_CANDIDATES = 2048
MAX_STEPS = 1024
MAX_MESSAGES = 2048
SEPARATOR = "\n\n"

Text = Annotated[str, StringConstraints(min_length=1)]
Texts = Text | Annotated[list[Text], Field(min_length=1, max_length=MAX_CANDIDATES)]
Steps = Annotated[list[Text], Field(min_length=1, max_length=MAX_STEPS)]


def _truncation(value: Any) -> Any:
    if type(value) is int and value == 0:
        raise PydanticCustomError("invalid_value", "it must be positive, or -1 for the model's context length")
    return value


Truncation = Annotated[int, Field(ge=-1, le=INT32_MAX), BeforeValidator(_truncation)]

_NOT_OFFERED = {
    "activation": Refused("use 'use_activation'"),
    "softmax": Refused("use 'use_activation'"),
    "mm_processor_kwargs": Refused("models score text"),
}


class AnswerMessage(AssistantMessage):
    """An assistant's message; the last one may have `steps` instead of `content`."""

    steps: Steps | None = None

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.steps is None:
            AssistantMessage._is_not_empty(self)  # type: ignore[operator]
        elif self.content is not None:
            raise PydanticCustomError("invalid_value", "a message has either 'steps' or 'content'")
        return self


ScoredMessage = Annotated[InstructionMessage | UserMessage | AnswerMessage | ToolMessage, Field(discriminator="role")]


class ScoringRequest(RequestBody):
    """Fields of all requests for scores."""

    not_offered: ClassVar[Mapping[str, Refused]] = _NOT_OFFERED

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Name of the model, as `/v1/models` lists it (`task`: `score`)."""
    truncate_prompt_tokens: Truncation | None = None
    """Tokens to which a pair of texts is cut, the longer text first, at its end; -1: the model's context length.

    Without it a pair that is too long is an error, as are answers, which are not cut.
    """
    use_activation: bool | None = None
    """Whether the model's activation function (mostly the sigmoid) is applied (default), or scores are logits."""
    user: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """Callers are identified by their API key."""

    @property
    def prompt(self) -> ScorePrompt:
        """Candidates of this request with their contexts, as the prompt of a score job; defined by subclasses."""
        raise NotImplementedError


class ScoreRequest(ScoringRequest):
    """Body of `POST /v1/score`: `text_1` and `text_2`, or `messages` for a reward model."""

    text_1: Texts | None = None
    """Query, question, or a list of them: one for all of `text_2`, or as many."""
    text_2: Texts | None = None
    """Document, answer, or a list of up to 2,048 of them; a process reward model splits answers at `separator`."""
    messages: Annotated[list[ScoredMessage], Field(min_length=1, max_length=MAX_MESSAGES)] | None = None
    """Conversation whose last message, the assistant's, is scored: its `content`, or its `steps` (a list of texts)."""
    candidates: Annotated[list[Text | Steps], Field(min_length=1, max_length=MAX_CANDIDATES)] | None = None
    """Answers to `messages` (whose last message is then no assistant's): up to 2,048 texts, or lists of steps."""
    separator: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """Text between the steps of an answer; default two line feeds."""

    @model_validator(mode="after")
    def _is_one_form(self) -> Self:
        if self.messages is None:
            self._check_texts()
        elif self.text_1 is not None or self.text_2 is not None:
            raise conflict("messages", "'messages' can't be combined with 'text_1' and 'text_2'")
        else:
            self._check_messages(self.messages)
        return self

    def _check_texts(self) -> None:
        if self.candidates is not None:
            raise conflict("candidates", "'candidates' are answers to 'messages', which are missing")
        for name, value in (("text_1", self.text_1), ("text_2", self.text_2)):
            if value is None:
                raise missing(name, f"'{name}' is required, unless there are 'messages'")
        queries = _listed(self.text_1)
        if len(queries) not in (1, len(_listed(self.text_2))):
            raise conflict("text_1", "it must be one text, or as many as 'text_2'")

    def _check_messages(self, messages: Sequence[ScoredMessage]) -> None:
        *before, last = messages
        if any(isinstance(each, AnswerMessage) and each.steps is not None for each in before):
            raise conflict("messages", "only the last message may have 'steps'")
        if self.candidates is not None:
            if isinstance(last, AnswerMessage):
                raise conflict("candidates", "the last of 'messages' is an answer already")
        elif not isinstance(last, AnswerMessage) or not (last.steps or text_of(last.content)):
            raise conflict("messages", "the last message must be the assistant's, with text, or there are 'candidates'")
        elif not before:
            raise conflict("messages", "there must be a message before the assistant's")

    @property
    def prompt(self) -> ScorePrompt:
        """Texts or answers of this request with their contexts, as the prompt of a score job."""
        raw, separator = self.use_activation is False, self.separator or SEPARATOR
        if self.messages is None:
            documents: list[str | list[str]] = [*_listed(self.text_2)]
            return ScorePrompt(contexts=list(_listed(self.text_1)), candidates=documents, separator=separator, raw=raw)
        messages, candidates, param = list(self.messages), self.candidates, "candidates"
        if candidates is None:
            last, param = messages.pop(), "messages"
            candidates = [_answer(last)]
        context = [to_wire(each) for each in messages]
        return ScorePrompt(contexts=[context], candidates=list(candidates), separator=separator, raw=raw, param=param)


class Document(ApiModel):
    """A document of a rerank request or answer."""

    text: Text


class RerankRequest(ScoringRequest):
    """Body of `POST /v1/rerank`."""

    not_offered: ClassVar[Mapping[str, Refused]] = _NOT_OFFERED | {
        "rank_fields": Refused("documents are texts"),
        "max_chunks_per_doc": Refused("documents are not split"),
        "max_tokens_per_doc": Refused("use 'truncate_prompt_tokens'"),
    }

    query: Text
    """Text that the documents are compared with."""
    documents: Annotated[list[Text | Document], Field(min_length=1, max_length=MAX_CANDIDATES)]
    """Up to 2,048 documents: texts, or objects with a `text`."""
    top_n: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = None
    """Number of the most relevant documents to return; default, and 0: all."""
    return_documents: bool | None = None
    """Whether results have the documents' texts; default true."""

    @property
    def texts(self) -> list[str]:
        """Texts of the request's documents, in order."""
        return [each if isinstance(each, str) else each.text for each in self.documents]

    @property
    def prompt(self) -> ScorePrompt:
        """Documents of this request with the query as their context, as the prompt of a score job."""
        raw = self.use_activation is False
        return ScorePrompt(contexts=[self.query], candidates=list(self.texts), raw=raw, param="documents")


class Score(ApiModel):
    """The score of one candidate: of a process reward model that of its last step, beside those of all steps."""

    index: int
    object: Literal["score"] = "score"
    score: float
    step_scores: OmitIfNone[list[float]] = None


class ScoreUsage(ApiModel):
    """Number of tokens of all candidates with their contexts, which is also the total."""

    prompt_tokens: int
    total_tokens: int


class ScoreList(ApiModel):
    """The response: one score per candidate, in order of the candidates."""

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[Score]
    usage: ScoreUsage


class RankedDocument(ApiModel):
    """A document with its relevance; `index` is its place in the request."""

    index: int
    document: OmitIfNone[Document] = None
    relevance_score: float


class Ranking(ApiModel):
    """The response: the most relevant documents first; equally relevant ones in order of the request."""

    id: str
    model: str
    usage: ScoreUsage
    results: list[RankedDocument]


def _listed(texts: Texts | None) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else texts or []


def _answer(message: ScoredMessage) -> str | list[str]:
    steps = message.steps if isinstance(message, AnswerMessage) else None
    return steps or text_of(message.content) or ""
