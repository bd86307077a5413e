"""The job message: a gateway's request that a worker answers one prompt, with sampling and text options.

Token ids are indexes into the model's vocabulary.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from router.messages.base import Count, Message, Probability, ServiceClass
from router.messages.search import Search
from router.messages.steps import Step


class ToolMode(StrEnum):
    """Whether the model may, must or must not call tools."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


class ToolChoice(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which tools the model may call, and whether it must call one.

    A named tool is `REQUIRED` with one name. Empty `names` allow all tools. The chat template always gets all tools.
    """

    mode: ToolMode = ToolMode.AUTO
    names: list[str] = []
    parallel: bool = True
    """Whether an answer may have more than one call."""


class OwnToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of one of an assistant's own tools, chosen by the client: the answer is the tool's result."""

    name: str
    arguments: dict[str, Any] = {}


class ChatPrompt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="chat"):
    """A conversation in OpenAI's message format, to be rendered by the model's chat template.

    `tools` are OpenAI's `{"type": "function", "function": {...}}`. Content is a string, or in a message with images a
    list of `{"type": "text", "text": ...}` and `{"type": "image"}`.
    """

    messages: list[dict[str, Any]]
    images: list[bytes] = []
    """Files (PNG, JPEG, WebP or GIF) of the parts `{"type": "image"}`, in order; only for models that read images."""
    tools: list[dict[str, Any]] | None = None
    tool_choice: ToolChoice = ToolChoice()
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    template_kwargs: dict[str, str | int | float | bool | None] = {}
    reasoning_effort: str = ""
    """Passed to templates that read it; "none" also has the model answer without reasoning."""
    thinking_token_budget: Count | None = None
    """Number of reasoning tokens after which the model must answer; 0: as "none"; `None`: no limit."""
    tools_off: list[str] = []
    """Names of an assistant's own tools that it must not call for this answer; `*`: none of them. Others ignore it."""
    tools_allowed: list[str] = []
    """Names of tools of an assistant that need the person's consent and have it for this answer. Others ignore it."""
    own_tools: list[str] = []
    """Names of an assistant's own tools that are offered beside `tools`, beside which it calls none of its others."""
    own_tool_call: OwnToolCall | None = None
    """The only step of the answer: an assistant that lists the tool calls it, without any model to choose or phrase."""


class TextPrompt(msgspec.Struct, frozen=True, omit_defaults=True, tag="text"):
    """Plain text, tokenised without a template; control tokens in it are ordinary text."""

    text: str
    suffix: str = ""
    """Text after the gap to be filled in (fill-in-the-middle); only for models that support it."""


class TokenPrompt(msgspec.Struct, frozen=True, tag="tokens"):
    """Token ids; the worker validates them against its vocabulary."""

    token_ids: list[int]


class EmbeddingPrompt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="embedding"):
    """Texts or token ids to embed, one vector each; only for workers with `Task.EMBED`."""

    inputs: list[str | list[int]]
    dimensions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Number of leading dimensions to keep, then normalised again; `None` keeps all."""


class ImagePrompt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="image"):
    """A description of `Job.n` images to draw, one per choice; only for workers with `Task.IMAGE`.

    The noise of an image depends only on (`SamplingParams.seed`, its index), so that any worker draws it again.
    """

    prompt: str
    size: Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}$")]
    """Width and height in pixels: `1024x768`."""


class ScorePrompt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="score"):
    """Candidates to score, each in its context; only for workers with `Task.SCORE`.

    A cross-encoder scores a document (the candidate) for a query (the context), a reward model an answer (the
    candidate) to a question or conversation (the context).
    """

    contexts: list[str | list[dict[str, Any]]]
    """Texts, or conversations in OpenAI's message format: one for each candidate, or one for all of them."""
    candidates: list[str | list[str]]
    """Texts, or the steps of each answer in order; there is at least one candidate, and each has a step."""
    separator: str = "\n\n"
    """Text between the steps of an answer; a process reward model splits candidates that are one text at it."""
    raw: bool = False
    """Whether scores are the model's logits, without its activation function."""
    max_tokens: Count | None = None
    """Most tokens of all candidates with their contexts; a job with more fails as `TOO_MANY_TOKENS` before any is
    scored. `None`: the worker's own limit."""
    param: str = "text_2"
    """Request field that the candidates come from, for error messages."""

    def context(self, index: int) -> str | list[dict[str, Any]]:
        """Return the context (text or chat messages) in which candidate number `index` is scored."""
        return self.contexts[0 if len(self.contexts) == 1 else index]

    def steps(self, index: int) -> list[str]:
        """Return the texts of the steps of candidate `index`.

        A text is split at separators, blank parts are left out.
        """
        candidate = self.candidates[index]
        if isinstance(candidate, list):
            return candidate
        return [part for part in candidate.split(self.separator) if part.strip()]

    def text(self, index: int) -> str:
        """Return candidate number `index` as one text, its steps joined."""
        candidate = self.candidates[index]
        return candidate if isinstance(candidate, str) else self.separator.join(candidate)


class TokenisationPrompt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="tokenisation"):
    """A prompt to tokenise, or token ids to decode; only for workers that say so (`WorkerStatus.tokenises`).

    Such a job takes no slot, computes nothing in the engine, and uses no tokens.
    """

    source: ChatPrompt | TextPrompt | TokenPrompt
    """The prompt whose token ids are requested; of a `TokenPrompt` the text is."""
    add_special_tokens: bool = True
    """Whether a text gets the tokens that the tokenizer adds to a whole prompt; a chat template writes its own."""
    count_only: bool = False
    """Whether only the number of tokens is requested."""
    names: bool = False
    """Whether the name of each token in the vocabulary is requested too."""


Prompt = ChatPrompt | TextPrompt | TokenPrompt | EmbeddingPrompt | ImagePrompt | ScorePrompt | TokenisationPrompt


LARK_KEYWORD = "x-lark"
"""Keyword of the schema of a tool's only argument, a string, with the grammar in Lark's notation that it matches."""


class GrammarKind(StrEnum):
    """Language of a grammar's source."""

    JSON_OBJECT = "json_object"
    """Any JSON object; the source is empty."""
    JSON_SCHEMA = "json_schema"
    """A JSON schema."""
    REGEX = "regex"
    CHOICE = "choice"
    """A JSON list of strings; the output must be one of them."""
    LARK = "lark"
    """A context-free grammar in Lark's notation."""


class Grammar(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A grammar that the whole output of a choice must match, enforced token by token."""

    kind: GrammarKind
    source: str = ""
    param: str = "response_format"
    """Request field that it comes from, for error messages."""


class SamplingParams(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Sampling parameters of the engine, in token ids; options on text are `TextOptions`.

    The random draw at a position depends only on (`seed`, choice, position), so that another worker resumes a sequence
    identically; the gateway therefore always sets `seed`.
    """

    seed: int
    max_tokens: int | None = None
    """Most tokens to generate; `None`: until the context is full."""
    default_max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The operator's limit if `max_tokens` is `None`; capped by the rest of the context."""
    min_tokens: Count = 0
    temperature: float = 1.0
    """0 means greedy decoding."""
    top_p: Probability = 1.0
    top_k: Count = 0
    """0 turns it off."""
    min_p: Probability = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    """Number of alternatives to report at each position; `None`: no logprobs."""
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    allowed_token_ids: list[int] | None = None
    """Token ids that may be generated; `None`: all."""
    prompt_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    """Number of alternatives to report at each position of the prompt; `None`: no logprobs of the prompt."""


class TextOptions(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Options of the worker's text layer: truncating the prompt, and turning tokens into text."""

    stop: list[str] = []
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    bad_words: list[str] = []
    """Strings that must not be generated, alone or after a space."""
    truncate_prompt_tokens: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    """Number of the prompt's last tokens to keep; -1: as many as fit."""
    drop_turns: bool = False
    """Whether the oldest turns of a conversation without images that does not fit are left out, before its tokens are
    truncated."""
    echo: bool = False
    """Whether the worker sends the prompt back (`PromptEcho`)."""


MAX_DEPTH = 3
"""Largest `Job.depth`: an assistant's answer may use models that are assistants too, but not without end."""


class Job(Message, frozen=True, kw_only=True, tag="job"):
    """One prompt to be answered with `n` choices.

    `delivered`, `ended`, `embedded`, `cached_tokens`, `texts`, `text_positions` and `steps` are what the client already
    has: a resumed job continues after it. `reply_to` is the id of the process that gets all windows of this
    job: a gateway, or the assistant that opened the child job.
    """

    id: str
    model: str
    tenant: str
    requester: str = ""
    """Id of the user, service account or API key that the job is for: the unit of fairness within the tenant."""
    parent: str = ""
    """Id of the job for whose answer this child job was opened; "" if it is a request's own job."""
    depth: Annotated[int, msgspec.Meta(ge=0, le=MAX_DEPTH)] = 0
    """Number of the job's ancestors."""
    reply_to: str
    created: float
    deadline: float
    begin_by: float = 0.0
    """Unix time after which no worker starts the job; a started one continues. 0: same as `deadline`."""
    prompt: Prompt
    sampling: SamplingParams
    """Ignored by workers that embed or score."""
    text: TextOptions = TextOptions()
    grammar: Grammar | None = None
    n: Annotated[int, msgspec.Meta(ge=1)] = 1
    search: Search | None = None
    """How the answer is searched for; `None`: it is generated once. Only of workers whose heartbeats say that they
    search, and for jobs with one choice unless the search is by likelihood."""
    service_class: ServiceClass = ServiceClass.DEFAULT
    cache_salt: str = ""
    """Separates prefix caches: tenants with different salts can't detect each other's prompts by timing."""
    copy_number: Count = msgspec.field(name="attempt", default=0)
    """How often the gateway has republished the job."""
    delivered: list[list[int]] = msgspec.field(default_factory=list)
    """Delivered token ids of each choice; empty if none."""
    ended: list[int] = msgspec.field(default_factory=list)
    """Indexes of the choices that are complete, and of the images that were delivered."""
    embedded: list[int] = msgspec.field(default_factory=list)
    """Indexes of the inputs whose vectors or scores were delivered; [0] if the tokens of a prompt were."""
    cached_tokens: Count = 0
    """Prompt tokens that the first attempt found in a prefix cache."""
    texts: list[str] = msgspec.field(default_factory=list)
    """Delivered text of each choice that an upstream provider sent without token ids, before `delivered`."""
    text_positions: list[int] = msgspec.field(default_factory=list)
    """Number of positions that each of `texts` takes; empty if there are none."""
    steps: list[Step] = msgspec.field(default_factory=list)
    """Delivered steps, all ended; each takes one position of choice 0, before `texts`."""

    @property
    def begun(self) -> bool:
        """Whether an earlier attempt delivered a part of the answer to the client."""
        answered = any(self.delivered) or bool(self.ended) or bool(self.embedded) or any(self.text_positions)
        return answered or bool(self.steps)

    @property
    def slots(self) -> int:
        """Number of slots that the job takes at its worker: one for each choice; none if it only tokenises."""
        return 0 if isinstance(self.prompt, TokenisationPrompt) else self.n

    def delivered_ids(self, choice: int) -> list[int]:
        """Return the token ids of choice number `choice` that earlier attempts delivered to the client.

        Empty if none.
        """
        return self.delivered[choice] if choice < len(self.delivered) else []

    def delivered_positions(self, choice: int) -> int:
        """Return the number of positions of choice number `choice` already delivered, where its next delta starts."""
        text = self.text_positions[choice] if choice < len(self.text_positions) else 0
        steps = len(self.steps) if choice == 0 else 0
        return steps + text + len(self.delivered_ids(choice))
