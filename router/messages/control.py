"""What reaches workers and gateways beside their queues, and what workers say of themselves."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from router.messages.base import Count, Message, Probability, ServiceClass


class Cancel(Message, frozen=True, kw_only=True, tag="cancel"):
    """Stop a job wherever it is, queued jobs included. Idempotent, best effort."""

    job: str
    attempt: str = ""
    """Stop only this attempt, silently: another one answers the job."""


class Verdict(StrEnum):
    """How a job that was delivered again goes on."""

    START = "start"
    """Go on after what was delivered; this attempt is the one that is heard now."""
    WAIT = "wait"
    """Another worker is at it and alive: ask again."""
    GONE = "gone"
    """It has ended, or nobody waits for it: acknowledge it, and nothing else."""
    FAIL = "fail"
    """It has brought too many workers down: say so, and do not run it."""


class Resume(Message, frozen=True, kw_only=True, tag="resume"):
    """The answer to `MayResume`: the gateway of a job decides which attempt at it is heard, and which tokens exist."""

    job: str
    attempt: str
    verdict: Verdict
    solo: bool = False
    """Until it gets further, run only jobs beside it that have: workers have gone with it."""
    crashes: Count = 0
    """How many workers in a row have."""
    delivered: list[list[int]] = msgspec.field(default_factory=list)
    ended: list[int] = msgspec.field(default_factory=list)
    embedded: list[int] = msgspec.field(default_factory=list)
    cached_tokens: Count = 0
    """These four: what has been delivered, as in `Job`."""


class Ping(Message, frozen=True, kw_only=True, tag="ping"):
    """Say whether this attempt at a job is alive (`AttemptReport`), and say again what was missed.

    Silence is an answer too. `reply_to` as in `Job`.
    """

    job: str
    attempt: str
    reply_to: str
    have: list[int] = msgspec.field(default_factory=list)
    """Per choice, how many tokens have come."""


class Drain(Message, frozen=True, kw_only=True, tag="drain"):
    """Take no new jobs, finish the running ones, exit."""


class KeySet(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """API keys by what they have in common; "": whatever it is. Ids, never a key."""

    key: str = ""
    organisation: str = ""
    project: str = ""
    user: str = ""
    admin_only: bool = False
    """Only those of an organisation itself, of no project."""


class KeysChanged(Message, frozen=True, kw_only=True, tag="keys_changed"):
    """To gateways: ask the store about these keys again. Says nothing of what it will answer, so it is harmless."""

    keys: KeySet


class QueuedWork(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one gateway has in one queue. Sequences: a job of `n` choices is `n` of them."""

    model: str
    service_class: ServiceClass
    waiting: Count = 0
    """Sequences of jobs without a token yet, wherever they are."""
    tokens: Count = 0
    """That those will probably have."""
    running: Count = 0
    """Sequences of jobs that have one."""


class GatewayLoad(Message, frozen=True, kw_only=True, tag="gateway_load"):
    """To gateways, once a second: what waits and what runs for one of them, so that each knows how long the line is."""

    gateway: str
    queues: list[QueuedWork] = msgspec.field(default_factory=list)


Control = Cancel | Drain | Ping | Resume | KeysChanged | GatewayLoad


class WorkerState(StrEnum):
    """What a worker says of itself in its heartbeat."""

    READY = "ready"
    DRAINING = "draining"


class Task(StrEnum):
    """What a worker does with a prompt."""

    GENERATE = "generate"
    EMBED = "embed"


class PromptBounds(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What bounds a prompt's tokens from above for whoever has no tokenizer (`router/usage_bound.py`)."""

    per_byte: Count = 0
    """Tokens at most for each byte (UTF-8) of text in its normal form; 0: nothing is known, and all else says nothing.
    """
    normal_form: str = ""
    """The Unicode normal form that the tokenizer brings a text into; "": none."""
    per_text: Count = 0
    """What a text gets beside its own tokens (beginning of sequence, ...)."""
    per_conversation: Count = 0
    """What the chat template writes around a conversation, and beside each of its messages."""
    per_message: Count = 0
    tools: Count = 0
    """What it writes around a list of tools."""


class WorkerStatus(Message, frozen=True, kw_only=True, tag="status"):
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
    prompt_bounds: PromptBounds = PromptBounds()
    task: Task = Task.GENERATE
    dimensions: Count = 0
    """Length of the vectors that it makes; 0 if it makes none, or does not know."""
    started: float = 0.0
    at: float = 0.0
