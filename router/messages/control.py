"""What reaches workers beside their queues, and what they say of themselves."""

from __future__ import annotations

from enum import StrEnum

from router.messages.base import Count, Message, Probability


class Cancel(Message, frozen=True, kw_only=True, tag="cancel"):
    """Stop a job wherever it is, queued jobs included. Idempotent, best effort."""

    job: str


class Drain(Message, frozen=True, kw_only=True, tag="drain"):
    """Take no new jobs, finish the running ones, exit."""


Control = Cancel | Drain


class WorkerState(StrEnum):
    """What a worker says of itself in its heartbeat."""

    READY = "ready"
    DRAINING = "draining"


class Task(StrEnum):
    """What a worker does with a prompt."""

    GENERATE = "generate"
    EMBED = "embed"


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
    task: Task = Task.GENERATE
    dimensions: Count = 0
    """Length of the vectors that it makes; 0 if it makes none, or does not know."""
    started: float = 0.0
    at: float = 0.0
