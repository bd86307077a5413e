"""Defines names and arguments of all exchanges, queues and bindings; checks model names and worker ids for them.

Plain data, declared by `Transport.declare` at start-up, never per request: a quorum queue declared less than about a
second before a broker crash can be lost. Arguments are never changed in place (the broker answers 406): a queue whose
arguments change gets a new suffix.

Runs unchanged on RabbitMQ 3.10 to 4.x: explicit positive delivery limits (-1 destroys messages on 3.10), no AMQP
priorities, every shared queue durable, exclusive queues server-named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from router.messages import ServiceClass

_MODEL_NAME = re.compile(r"[A-Za-z0-9._\-/:]{1,200}")
_WORKER_ID = re.compile(r"[A-Za-z0-9_\-]{1,100}")

JOBS_EXCHANGE = "hr.jobs"
REPLY_EXCHANGE = "hr.reply"
CONTROL_EXCHANGE = "hr.ctl"
STATUS_EXCHANGE = "hr.status"
SETTLE_EXCHANGE = "hr.settle"
RECEIPTS_EXCHANGE = "hr.receipts"
"""Exchange of receipts: workers, which publish usage records to `hr.settle`, have no right to publish to it."""
DEAD_LETTERS_EXCHANGE = "hr.dlx"

SETTLE_QUEUE = "hr.settle.v1"
DEAD_QUEUE = "hr.dead.v1"
PARKED_QUEUE = "hr.parked.v1"
DIAGNOSED_QUEUE = "hr.diagnosed.v1"

SETTLE_ROUTING_KEY = "settle"
"""Routing key of usage records and receipts; dead-lettered with it they reach the parked queue."""

DIAGNOSED_ROUTING_KEY = "diagnosed"
"""Routing key of jobs that failed for good, with their diagnosis."""

JOB_DELIVERY_LIMIT = 8
JOB_QUEUE_LENGTH = 4096
JOB_QUEUE_BYTES = 256 * 1024 * 1024
UNLIMITED_DELIVERIES = 1_000_000
DIAGNOSED_QUEUE_LENGTH = 1_000
DIAGNOSED_QUEUE_BYTES = 64 * 1024 * 1024
DIAGNOSED_TTL_MS = 14 * 24 * 3600 * 1000
"""Time to live of diagnosed jobs: they contain prompts, so they expire."""

REPLY_QUEUE_ARGUMENTS: Mapping[str, str | int] = {
    "x-max-length-bytes": 64 * 1024 * 1024,
    "x-overflow": "drop-head",
}
CONTROL_QUEUE_ARGUMENTS: Mapping[str, str | int] = {"x-message-ttl": 60_000, "x-max-length": 10_000}
STATUS_QUEUE_ARGUMENTS: Mapping[str, str | int] = {
    "x-max-length": 1_000,
    "x-overflow": "drop-head",
    "x-message-ttl": 10_000,
}


@dataclass(frozen=True)
class Exchange:
    """A durable exchange."""

    name: str
    type: Literal["direct", "topic", "fanout"]


@dataclass(frozen=True)
class Queue:
    """A durable quorum queue with its arguments."""

    name: str
    arguments: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Binding:
    """A rule that routes messages of `exchange` with `routing_key` (a pattern, for topics) to `queue`."""

    exchange: str
    routing_key: str
    queue: str


@dataclass(frozen=True)
class Topology:
    """Durable exchanges, queues and bindings, declared at the broker together."""

    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    bindings: tuple[Binding, ...] = ()


def check_model_name(name: str) -> str:
    """Return `name` unchanged if it is a valid model name, as part of queue names: letters, digits and `. _ - / :`.

    Raises:
        ValueError: the name has another character (`*` and `#` are wildcards of AMQP topics).
    """
    if not _MODEL_NAME.fullmatch(name):
        raise ValueError(f"model name {name!r}: only letters, digits and . _ - / : are allowed, at most 200")
    return name


def check_worker_id(name: str) -> str:
    """Return `name` unchanged if it is a valid worker id, one word of a routing key: letters, digits, `_` and `-`.

    Raises:
        ValueError: the id has another character.
    """
    if not _WORKER_ID.fullmatch(name):
        raise ValueError(f"worker id {name!r}: only letters, digits, _ and - are allowed, at most 100")
    return name


def job_queue(model: str, service_class: ServiceClass) -> str:
    """Return the name of the job queue of a model and class, e.g. `hr.job.smollm2-135m-instruct.default.v1`."""
    return f"hr.job.{model}.{service_class}.v1"


def job_routing_key(model: str, service_class: ServiceClass) -> str:
    """Return the routing key with which jobs of a model and class are published, so that they reach their queue."""
    return f"{model}.{service_class}"


def dead_job_routing_key(model: str) -> str:
    """Return the routing key with which dead-lettered jobs of a model are routed."""
    return f"job.{model}"


def platform() -> Topology:
    """Return the exchanges, queues and bindings that every installation has, for a declaration; declares nothing."""
    return Topology(
        exchanges=(
            Exchange(JOBS_EXCHANGE, "direct"),
            Exchange(REPLY_EXCHANGE, "direct"),
            Exchange(CONTROL_EXCHANGE, "topic"),
            Exchange(STATUS_EXCHANGE, "fanout"),
            Exchange(SETTLE_EXCHANGE, "direct"),
            Exchange(RECEIPTS_EXCHANGE, "direct"),
            Exchange(DEAD_LETTERS_EXCHANGE, "topic"),
        ),
        queues=(
            Queue(
                SETTLE_QUEUE,
                {
                    "x-queue-type": "quorum",
                    "x-delivery-limit": UNLIMITED_DELIVERIES,
                    "x-dead-letter-exchange": DEAD_LETTERS_EXCHANGE,
                    "x-dead-letter-routing-key": SETTLE_ROUTING_KEY,
                },
            ),
            Queue(DEAD_QUEUE, {"x-queue-type": "quorum", "x-delivery-limit": UNLIMITED_DELIVERIES}),
            Queue(PARKED_QUEUE, {"x-queue-type": "quorum", "x-delivery-limit": UNLIMITED_DELIVERIES}),
            Queue(
                DIAGNOSED_QUEUE,
                {
                    "x-queue-type": "quorum",
                    "x-delivery-limit": UNLIMITED_DELIVERIES,
                    "x-overflow": "drop-head",
                    "x-max-length": DIAGNOSED_QUEUE_LENGTH,
                    "x-max-length-bytes": DIAGNOSED_QUEUE_BYTES,
                    "x-message-ttl": DIAGNOSED_TTL_MS,
                },
            ),
        ),
        bindings=(
            Binding(SETTLE_EXCHANGE, SETTLE_ROUTING_KEY, SETTLE_QUEUE),
            Binding(RECEIPTS_EXCHANGE, SETTLE_ROUTING_KEY, SETTLE_QUEUE),
            Binding(DEAD_LETTERS_EXCHANGE, "job.#", DEAD_QUEUE),
            Binding(DEAD_LETTERS_EXCHANGE, SETTLE_ROUTING_KEY, PARKED_QUEUE),
            Binding(DEAD_LETTERS_EXCHANGE, DIAGNOSED_ROUTING_KEY, DIAGNOSED_QUEUE),
        ),
    )


def model(name: str) -> Topology:
    """Return the queues (one per service class) and bindings of the model `name`, for a declaration.

    Declares nothing.
    """
    return Topology(
        queues=tuple(
            Queue(
                job_queue(name, service_class),
                {
                    "x-queue-type": "quorum",
                    "x-delivery-limit": JOB_DELIVERY_LIMIT,
                    "x-overflow": "reject-publish",
                    "x-max-length": JOB_QUEUE_LENGTH,
                    "x-max-length-bytes": JOB_QUEUE_BYTES,
                    "x-dead-letter-exchange": DEAD_LETTERS_EXCHANGE,
                    "x-dead-letter-routing-key": dead_job_routing_key(name),
                    "x-dead-letter-strategy": "at-least-once",
                },
            )
            for service_class in ServiceClass
        ),
        bindings=tuple(
            Binding(JOBS_EXCHANGE, job_routing_key(name, service_class), job_queue(name, service_class))
            for service_class in ServiceClass
        ),
    )
