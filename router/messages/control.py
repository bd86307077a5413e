"""Control messages to workers and gateways (cancel, ping, drain, ...), gateways' load reports, workers' heartbeats."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from router.messages.base import Count, Message, Probability, ServiceClass, UsagePart
from router.messages.steps import Step


class Cancel(Message, frozen=True, kw_only=True, tag="cancel"):
    """Control message that cancels a running or queued job at the workers. Idempotent, best effort."""

    job: str
    attempt: str = ""
    """If set, stop only this attempt, without a terminal reply: another one answers the job."""
    reply_to: str = ""
    """If set, cancel only the job whose replies go there: a repeated child job has the id of the one before it."""


class ResumeDecision(StrEnum):
    """How a worker must handle a redelivered job."""

    START = "start"
    """Run it, after what was delivered; the gateway accepts replies of this attempt now."""
    WAIT = "wait"
    """Wait and request again: another live worker may be running it."""
    GONE = "gone"
    """Only acknowledge it: the job has ended, or its client is gone."""
    RETURN = "return"
    """Return it to its queue after a delay: another worker has to continue it."""
    FAIL = "fail"
    """Fail it without running it: it has crashed too many workers."""


class Resume(Message, frozen=True, kw_only=True, tag="resume"):
    """A gateway's response to `ResumeRequest`: how the attempt must continue, and what was delivered before."""

    job: str
    attempt: str
    decision: ResumeDecision = msgspec.field(name="verdict")
    solo: bool = False
    """Whether to run it solo: until it makes progress, only beside jobs that have. Workers have crashed with it."""
    crashes: Count = 0
    """Number of consecutive workers that crashed with it."""
    delivered: list[list[int]] = msgspec.field(default_factory=list)
    ended: list[int] = msgspec.field(default_factory=list)
    embedded: list[int] = msgspec.field(default_factory=list)
    cached_tokens: Count = 0
    texts: list[str] = msgspec.field(default_factory=list)
    text_positions: list[int] = msgspec.field(default_factory=list)
    steps: list[Step] = msgspec.field(default_factory=list)
    """These seven fields are what was delivered, as in `Job`."""


class Ping(Message, frozen=True, kw_only=True, tag="ping"):
    """Asks the worker for an `AttemptReport` of `attempt`, and for the replies after those `received`.

    A worker that does not answer counts as dead. `reply_to`: id of the gateway to answer.
    """

    job: str
    attempt: str
    reply_to: str
    received: list[int] = msgspec.field(name="have", default_factory=list)
    """Number of tokens received of each choice; an image counts as one."""


class Drain(Message, frozen=True, kw_only=True, tag="drain"):
    """Drains a worker: it takes no new jobs, finishes the running ones, and exits."""


class KeySet(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Selects API keys by ids; an empty field matches all keys. Never contains a key itself."""

    key: str = ""
    organisation: str = ""
    project: str = ""
    user: str = ""
    admin_only: bool = False
    """Whether to select only the organisation's own keys, which belong to no project."""


class KeysChanged(Message, frozen=True, kw_only=True, tag="keys_changed"):
    """Makes gateways read these API keys from the store again; a false message does no harm."""

    keys: KeySet


class RequesterWork(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One requester's part of the waiting work of a `QueuedWork`."""

    tenant: str
    requester: str = ""
    waiting: Count = 0
    tokens: Count = 0


class QueuedWork(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Sequences and tokens of one gateway's jobs in one job queue. A job of `n` choices counts as `n` sequences."""

    model: str
    service_class: ServiceClass
    waiting: Count = 0
    """Sequences of jobs without a first token, queued or at a worker."""
    tokens: Count = 0
    """Expected output tokens of the waiting sequences."""
    running: Count = 0
    """Sequences of jobs that have a first token."""
    requesters: list[RequesterWork] = msgspec.field(default_factory=list)
    """The requesters with the most waiting tokens, at most 64; the work of the others is in the totals only."""


class ActiveRequester(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A requester from whom a gateway had a request for a model within the last minute."""

    model: str
    tenant: str
    requester: str = ""


class GatewayLoad(Message, frozen=True, kw_only=True, tag="gateway_load"):
    """A gateway's queued and running work, sent to all gateways once a second for fairness and estimated waits."""

    gateway: str
    queues: list[QueuedWork] = msgspec.field(default_factory=list)
    active: list[ActiveRequester] = msgspec.field(default_factory=list)
    """At most 64 requesters of each model, latest first."""


class FollowAnswer(Message, frozen=True, kw_only=True, tag="follow_answer"):
    """Asks a gateway process for the next part of the answer of one of its runs, which another gateway follows.

    It is answered by an `AnswerPart`, as soon as there is more than the follower has, and within seconds in any case,
    unless the follower `leaves`.
    """

    run: str
    """Id of the run of a request with an idempotency key."""
    reply_to: str
    """Id of the following gateway process."""
    received: Count = 0
    """Bytes of the body that the follower has."""
    started: bool = False
    """Whether the follower has the status and the headers."""
    leaves: bool = False
    """Whether the follower's clients have left: it gets no part, and does not count as a reader any more."""


class AnswerState(StrEnum):
    """State of an answer after a part of it."""

    RUNNING = "running"
    ENDED = "ended"
    """The part is the last one."""
    FAILED = "failed"
    """The answer ended without its end: the follower's client has to repeat the request."""
    DROPPED = "dropped"
    """The next part is no longer in the buffer."""
    UNKNOWN = "unknown"
    """The gateway has no such run."""


class AnswerPart(Message, frozen=True, kw_only=True, tag="answer_part"):
    """A part of a run's answer, in reply to `FollowAnswer`; `body` follows the first `start` bytes."""

    run: str
    state: AnswerState
    start: Count = 0
    body: bytes = b""
    status: Count = 0
    """HTTP status; 0 if there is none yet."""
    headers: dict[str, str] = msgspec.field(default_factory=dict)


Control = Cancel | Drain | Ping | Resume | KeysChanged | GatewayLoad | FollowAnswer | AnswerPart


class WorkerState(StrEnum):
    """State of a worker in its heartbeat."""

    STARTING = "starting"
    """It loads the model. Its limits are not known yet, and it takes no jobs."""
    READY = "ready"
    DRAINING = "draining"


class Task(StrEnum):
    """Kind of answer that a worker computes."""

    GENERATE = "generate"
    EMBED = "embed"
    IMAGE = "image"
    SCORE = "score"


class PromptBounds(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Upper bounds on a prompt's tokens, usable without a tokenizer (`router/usage_bound.py`)."""

    per_byte: Count = 0
    """Most tokens per UTF-8 byte of text in normal form; 0: no bound is known, and the other fields are meaningless."""
    normal_form: str = ""
    """Unicode normal form that the tokenizer applies to a text; "": none."""
    per_text: Count = 0
    """Tokens added to a text (beginning of sequence, ...)."""
    per_conversation: Count = 0
    """Tokens that the chat template adds to a conversation."""
    per_message: Count = 0
    """Tokens that the chat template adds to each message."""
    tools: Count = 0
    """Tokens that the chat template adds to a list of tools."""
    per_image: Count = 0
    """Most tokens of an image of a conversation; 0 where the model reads no images."""


class OwnTool(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A tool of an assistant that a client may call by its name (`ChatPrompt.own_tool_call`)."""

    name: str
    description: str
    """What it does and when to call it, in English, for models."""
    parameters: dict[str, Any]
    """JSON schema of its arguments."""
    parts: list[UsagePart] = []
    """Upper bounds on what one call uses."""


class WorkerStatus(Message, frozen=True, kw_only=True, tag="status"):
    """A worker's heartbeat, once a second, from which gateways know the models and their load."""

    worker: str
    model: str
    state: WorkerState
    device: str
    max_model_len: Count
    max_num_seqs: Count
    running: Count
    waiting: Count
    kv_cache_usage: Probability
    tokens_per_second: float
    max_token_bytes: Count = 0
    """UTF-8 length of the vocabulary's longest token: a text's bytes divided by it bound its tokens from below."""
    prompt_bounds: PromptBounds = PromptBounds()
    task: Task = Task.GENERATE
    dimensions: Count = 0
    """Vector length of an embedding worker; 0 if it makes no vectors or it is unknown."""
    image_sizes: list[str] = msgspec.field(default_factory=list)
    """Sizes of the images that it draws, as `1024x768`, the default size first; empty if it draws none."""
    reads_images: bool = False
    """Whether its prompts can have images (`ChatPrompt.images`)."""
    searches: bool = False
    """Whether it runs jobs with a `Search`."""
    tokenises: bool = False
    """Whether it runs jobs with a `TokenisationPrompt`."""
    scores_pairs: bool = False
    """Whether it scores pairs of texts alone: it can't be the verifier of a search, which reads conversations."""
    labels: list[str] = msgspec.field(default_factory=list)
    """Labels that a text classifier scores, in order of the scores; empty for other models."""
    continues: bool = True
    """Whether it can continue an answer that another worker has begun; most upstream providers can't."""
    parts: list[UsagePart] = msgspec.field(default_factory=list)
    """Upper bounds on what the steps of one job use, in addition to the job's own prompt and answer."""
    tools: list[OwnTool] = msgspec.field(default_factory=list)
    """Tools of an assistant that are on and may be called by their names; empty for other models."""
    unnamed_models: list[str] = msgspec.field(default_factory=list)
    """Models that an assistant uses because they are served, and not because its operator's catalogue names them."""
    answers_with: str = ""
    """Model that writes an assistant's answers; "" for other models."""
    sees_with: str = ""
    """Model that writes an assistant's answers to prompts with images; "" if none reads them."""
    started: float = 0.0
    at: float = 0.0
