"""A job: what a gateway asks of a worker. Token ids are vocabulary indexes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from router.messages.base import Count, Message, Probability, ServiceClass


class ToolMode(StrEnum):
    """Whether the model calls tools."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


class ToolChoice(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which of the tools may be called, and whether one must be.

    A named tool is `REQUIRED` with one name. `names` empty: all of them. The template sees all tools, whatever
    is allowed.
    """

    mode: ToolMode = ToolMode.AUTO
    names: list[str] = []
    parallel: bool = True
    """More than one call in an answer."""


class ChatPrompt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="chat"):
    """A conversation, in OpenAI's message shape, still to be put through the model's chat template.

    `tools` are OpenAI's `{"type": "function", "function": {...}}`.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    tool_choice: ToolChoice = ToolChoice()
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    template_kwargs: dict[str, str | int | float | bool | None] = {}
    reasoning_effort: str = ""
    """For templates that read it; others ignore it. "none" also where thinking can only be switched off."""


class TextPrompt(msgspec.Struct, frozen=True, omit_defaults=True, tag="text"):
    """Plain text, tokenised as it stands: no template, control tokens in it are ordinary text."""

    text: str
    suffix: str = ""
    """What follows the text that is to be filled in; not every model can."""


class TokenPrompt(msgspec.Struct, frozen=True, tag="tokens"):
    """Token ids, checked by the worker against its vocabulary."""

    token_ids: list[int]


class EmbeddingPrompt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="embedding"):
    """Texts or token ids to be embedded, one vector each; only for workers whose task that is."""

    inputs: list[str | list[int]]
    dimensions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Keep so many leading ones and normalise again; `None`: all."""


Prompt = ChatPrompt | TextPrompt | TokenPrompt | EmbeddingPrompt


class GrammarKind(StrEnum):
    """What the source of a grammar is."""

    JSON_OBJECT = "json_object"
    """Nothing: any JSON object will do."""
    JSON_SCHEMA = "json_schema"
    """A JSON schema, as JSON."""
    REGEX = "regex"
    CHOICE = "choice"
    """A JSON list of strings, of which the output is one."""
    LARK = "lark"
    """A context-free grammar in Lark's notation."""


class Grammar(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the whole output of a choice must match, enforced token by token."""

    kind: GrammarKind
    source: str = ""
    param: str = "response_format"
    """The field of the request that it comes from, for errors."""


class SamplingParams(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How the engine picks tokens. Knows token ids, never text (for that: `TextOptions`).

    The draw at a position depends on (`seed`, choice, position) only, so a sequence resumed elsewhere
    goes on as if nothing had happened; the gateway therefore always sets `seed`.
    """

    seed: int
    max_tokens: int | None = None
    """Generate at most this many; `None`: whatever the context has left."""
    default_max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The operator's limit where `max_tokens` is `None`, as far as the context has room for it."""
    min_tokens: Count = 0
    temperature: float = 1.0
    """0 is greedy."""
    top_p: Probability = 1.0
    top_k: Count = 0
    """0 is off."""
    min_p: Probability = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    """How many alternatives to report at each position; `None`: no logprobs at all."""
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    allowed_token_ids: list[int] | None = None
    """Only these may be generated; `None`: all."""
    prompt_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    """How many alternatives to report at each position of the prompt; `None`: no logprobs of it at all."""


class TextOptions(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the worker's text layer does with the prompt on its way in and with tokens on their way out."""

    stop: list[str] = []
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    bad_words: list[str] = []
    """What must not be generated, alone or after a space."""
    truncate_prompt_tokens: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    """Keep so many of the prompt's last tokens; -1: as many as fit."""
    echo: bool = False
    """Tell the gateway what the prompt was (`PromptEcho`)."""


class Job(Message, frozen=True, kw_only=True, tag="job"):
    """One prompt to be answered with `n` choices.

    `delivered`, `ended`, `embedded` and `cached_tokens` say what the client already has: a resumed job goes on after
    it. `reply_to` is the gateway id that every window about this job goes to.
    """

    id: str
    model: str
    tenant: str
    reply_to: str
    created: float
    deadline: float
    begin_by: float = 0.0
    """After this nobody begins with it any more, but goes on with it if somebody has; 0: as long as the deadline."""
    prompt: Prompt
    sampling: SamplingParams
    """Says nothing to a worker that embeds."""
    text: TextOptions = TextOptions()
    grammar: Grammar | None = None
    n: Annotated[int, msgspec.Meta(ge=1)] = 1
    service_class: ServiceClass = ServiceClass.DEFAULT
    cache_salt: str = ""
    """Separates prefix caches: tenants with different salts can't see or time each other's prompts."""
    attempt: int = 0
    """Which copy of the job it is: a gateway may publish one again."""
    delivered: list[list[int]] = msgspec.field(default_factory=list)
    """Per choice, token ids; empty: none of any."""
    ended: list[int] = msgspec.field(default_factory=list)
    """Choices that have had their last token."""
    embedded: list[int] = msgspec.field(default_factory=list)
    """Inputs whose vectors are there."""
    cached_tokens: Count = 0
    """Prompt tokens that the attempt which read the prompt first found in a prefix cache."""

    @property
    def begun(self) -> bool:
        """Whether the client already has a part of the answer."""
        return any(self.delivered) or bool(self.ended) or bool(self.embedded)
