"""Every message that crosses the queue, as frozen, versioned structs encoded as JSON.

JSON, so that an administrator can read a message in the RabbitMQ console; `msgspec`, so that it is fast
and strict. Golden files in `tests/contract/golden/` pin the encoding: changing a field's name or meaning needs a
new `WIRE_VERSION`.

This module does not know queues, sockets, HTTP, torch or money. Times are Unix seconds (float), token
ids are vocabulary indexes, positions count generated tokens of one choice from 0.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from router.errors import UndecodableMessage

WIRE_VERSION = 1

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
T = TypeVar("T")


class ServiceClass(StrEnum):
    """The queue class of a job: OpenAI's `service_tier`. Batches run as `FLEX`."""

    PRIORITY = "priority"
    DEFAULT = "default"
    FLEX = "flex"


class FailureCode(StrEnum):
    """Why a job failed. `gateway/errors.py` holds the one table from these to HTTP."""

    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    INVALID_PROMPT = "invalid_prompt"
    INVALID_PARAMETER = "invalid_parameter"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    ENGINE_ERROR = "engine_error"
    WORKER_LOST = "worker_lost"
    WORKER_SHUTDOWN = "worker_shutdown"
    FAILED_REPEATEDLY = "job_failed_repeatedly"
    UNDECODABLE = "undecodable_job"


class _Message(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A top-level message; carries the version it was written in."""

    v: int = msgspec.field(default_factory=lambda: WIRE_VERSION)


# --- A job: what a gateway asks of a worker ------------------------------------------------------


class ChatPrompt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="chat"):
    """A conversation, in OpenAI's message shape, still to be put through the model's chat template."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    template_kwargs: dict[str, str | int | float | bool | None] = {}


class TextPrompt(msgspec.Struct, frozen=True, tag="text"):
    """Plain text, tokenised as it stands: no template, control tokens in it are ordinary text."""

    text: str


class TokenPrompt(msgspec.Struct, frozen=True, tag="tokens"):
    """Token ids, checked by the worker against its vocabulary."""

    token_ids: list[int]


Prompt = ChatPrompt | TextPrompt | TokenPrompt


class SamplingParams(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How the engine picks tokens. Knows token ids, never text (for that: `TextOptions`).

    The draw at a position depends on (`seed`, choice, position) only, so a sequence resumed elsewhere
    goes on as if nothing had happened; the gateway therefore always sets `seed`.
    """

    seed: int
    max_tokens: int | None = None
    """Generate at most this many; `None`: whatever the context has left."""
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


class TextOptions(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the worker's text layer does with tokens on their way out."""

    stop: list[str] = []
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True


class Job(_Message, frozen=True, kw_only=True, tag="job"):
    """One prompt to be answered with `n` choices.

    `delivered` holds, per choice, the token ids a client already has: a resumed job goes on after them.
    `reply_to` is the gateway id that every window about this job goes to.
    """

    id: str
    model: str
    tenant: str
    reply_to: str
    created: float
    deadline: float
    prompt: Prompt
    sampling: SamplingParams
    text: TextOptions = TextOptions()
    n: Annotated[int, msgspec.Meta(ge=1)] = 1
    service_class: ServiceClass = ServiceClass.DEFAULT
    cache_salt: str = ""
    """Separates prefix caches: tenants with different salts can't see or time each other's prompts."""
    attempt: int = 0
    delivered: list[list[int]] = []


# --- Replies: what a worker tells a gateway, in windows ----------------------------------------


class TokenAlternative(msgspec.Struct, frozen=True, array_like=True):
    """One candidate token at a position: id, its text alone, and natural-log probability."""

    id: int
    text: str
    logprob: float


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """The chosen token's log probability and the most likely alternatives, best first."""

    chosen: TokenAlternative
    top: list[TokenAlternative]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Tokens of one job over all its choices. `cached_tokens` are part of `prompt_tokens`."""

    prompt_tokens: Count
    completion_tokens: Count = 0
    cached_tokens: Count = 0


class _Reply(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="k"):
    """One entry of a window. Short names: these are the only messages sent per token window."""

    j: str
    """Job id."""
    a: str
    """Attempt id (uuid4, one per time a worker takes the job): the fence against zombies."""


class Started(_Reply, frozen=True, kw_only=True, tag="start"):
    """The worker has taken the job and will generate; first message of an attempt."""

    w: str
    """Worker id."""
    prompt_tokens: Count
    delivery_count: Count = 0


class Delta(_Reply, frozen=True, kw_only=True, tag="delta"):
    """Tokens `s .. s+len(ids)-1` of choice `c`, with the text that is now safe to show.

    Text is whole characters only, and never a part of a possible stop string.
    """

    c: Count = 0
    s: Count
    ids: list[int]
    t: str = ""
    lp: list[TokenLogprob] | None = None
    f: FinishReason | None = None
    """Set on the last delta of this choice."""
    stop: str | int | None = None
    """The stop string or token id that ended the choice, if one did."""


class Finished(_Reply, frozen=True, kw_only=True, tag="finished"):
    """Terminal: all choices ended."""

    usage: Usage


class Failed(_Reply, frozen=True, kw_only=True, tag="failed"):
    """Terminal: the job failed. `message` is for the client; it has no internals in it."""

    code: FailureCode
    message: str
    param: str | None = None
    usage: Usage | None = None


class Cancelled(_Reply, frozen=True, kw_only=True, tag="cancelled"):
    """Terminal: stopped because the gateway asked for it."""

    usage: Usage


REAPER = "reaper"
"""The `w` of windows that close jobs dead in their queue: whoever was running one is not any more."""

Reply = Started | Delta | Finished | Failed | Cancelled
Terminal = Finished | Failed | Cancelled


class Window(_Message, frozen=True, kw_only=True, tag="window"):
    """Everything that one worker has for one gateway since the last window (about 10 ms)."""

    w: str
    b: list[Reply]


# --- Usage: what is settled ---------------------------------------------------------------------


class Outcome(StrEnum):
    """How a job ended."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class UsageRecord(_Message, frozen=True, kw_only=True, tag="usage"):
    """A worker's word on what an attempt cost; published confirmed, before the job is acknowledged.

    `digest` is the SHA-256 (hex) of the generated ids, so that it can be checked against what was delivered.
    """

    job: str
    attempt: str
    tenant: str
    model: str
    worker: str
    outcome: Outcome
    usage: Usage
    at: float
    digest: str = ""
    error: FailureCode | None = None


# --- Control and status -------------------------------------------------------------------------


class Cancel(_Message, frozen=True, kw_only=True, tag="cancel"):
    """Stop a job wherever it is, queued jobs included. Idempotent, best effort."""

    job: str


class Drain(_Message, frozen=True, kw_only=True, tag="drain"):
    """Take no new jobs, finish the running ones, exit."""


Control = Cancel | Drain


class WorkerState(StrEnum):
    """What a worker says of itself in its heartbeat."""

    READY = "ready"
    DRAINING = "draining"


class WorkerStatus(_Message, frozen=True, kw_only=True, tag="status"):
    """A worker's heartbeat, once a second: how gateways know which models exist and how busy they are."""

    worker: str
    model: str
    state: WorkerState
    device: str
    max_model_len: int
    max_num_seqs: int
    running: Count
    waiting: Count
    kv_cache_usage: Probability
    tokens_per_second: float
    max_token_bytes: Count = 0
    """UTF-8 length of the vocabulary's longest token: bytes / this is a lower bound on a prompt's tokens."""
    started: float = 0.0
    at: float = 0.0


# --- Encoding -----------------------------------------------------------------------------------

_encoder = msgspec.json.Encoder()


def encode(message: msgspec.Struct) -> bytes:
    """Encode one message as JSON (UTF-8)."""
    return _encoder.encode(message)


class Codec(Generic[T]):
    """Decodes the messages of one queue; anything else is an `UndecodableMessage`."""

    def __init__(self, expected: Any) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(expected)

    def decode(self, body: bytes) -> T:
        """Decode `body`.

        Raises:
            UndecodableMessage: not JSON, not of the expected shape, or of another wire version.
        """
        try:
            message = self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UndecodableMessage(str(error)) from error
        version = getattr(message, "v", None)
        if version != WIRE_VERSION:
            raise UndecodableMessage(f"wire version {version!r}, expected {WIRE_VERSION}")
        return message


JOBS: Codec[Job] = Codec(Job)
WINDOWS: Codec[Window] = Codec(Window)
USAGE_RECORDS: Codec[UsageRecord] = Codec(UsageRecord)
CONTROLS: Codec[Control] = Codec(Control)
STATUSES: Codec[WorkerStatus] = Codec(WorkerStatus)
