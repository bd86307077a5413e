"""Builds RabbitMQ's definitions file for Headrace: virtual host, users, permissions, exchanges and queues.

Permissions are RabbitMQ's three regular expressions on names (configure, write, read). Gateways and billing declare the
platform's topology at start-up: on RabbitMQ even an idempotent declare needs `configure` on the name, and a bind needs
`write` on the queue and `read` on the exchange; these rights allow neither consuming nor publishing. A worker may run
on a machine that is trusted less, so it has none of them:

- a worker consumes jobs, and declares (so may delete) only job queues;
- a worker publishes windows, heartbeats, usage records and dead jobs; neither receipts, which decide what a job costs,
  nor jobs, control messages or parked messages;
- a worker binds to the control messages of workers and models only: those between gateways carry answers;
- only `billing` consumes usage records, receipts, dead letters, parked and diagnosed messages;
- a gateway can't consume jobs, and can't publish windows;
- an assistant has a worker's rights, and like a gateway publishes jobs (child jobs) and control messages, those of
  child jobs alone: to one worker and to the workers of a model. It binds a reply inbox and a queue of heartbeats. It
  can't publish receipts, and can neither bind to messages between gateways nor publish them;
- a searcher is a worker that runs searches (`HEADRACE_SEARCH`), whose paths are scored by child jobs: it has the rights
  of an assistant, all of which child jobs need, and a password of its own. Other workers keep to the user `worker`.

Not separated: workers of different models; reply inboxes, since a gateway or assistant can bind its own to any id; and
private queues, which share one name pattern but are exclusive to their connection: gateways and billing may bind theirs
to any exchange. RabbitMQ has no right for binds between exchanges: a worker can have jobs and workers' control messages
copied to an exchange that it publishes to, where they are malformed messages. Look for such bindings (`rabbitmqctl
list_bindings`) when a worker's password is replaced because it was stolen.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from router import control_targets, topology

VIRTUAL_HOST = "headrace"
ADMIN = "admin"

_PRIVATE = r"amq\.gen.*"


@dataclass(frozen=True)
class Permissions:
    """Regular expressions of the queues and exchanges that a RabbitMQ user may configure, write to and read from."""

    configure: str
    write: str
    read: str
    routing_keys: str = ".*"
    """Regular expression of the routing keys with which the user may publish dead letters."""
    control_keys: str = ".*"
    """Regular expression of the routing keys with which the user may bind to control messages."""
    control_targets: str = ".*"
    """Regular expression of the routing keys with which the user may publish control messages."""


def permissions() -> dict[str, Permissions]:
    """Return the permissions of each RabbitMQ user of the platform, such as `gateway` and `worker`, by user name."""
    granted = {
        "gateway": _permissions(
            publishes=[topology.JOBS_EXCHANGE, topology.CONTROL_EXCHANGE, topology.RECEIPTS_EXCHANGE]
        ),
        "worker": _worker_permissions(),
        "assistant": _worker_permissions(
            also_publishes=[topology.JOBS_EXCHANGE, topology.CONTROL_EXCHANGE],
            also_binds_to=[topology.REPLY_EXCHANGE, topology.STATUS_EXCHANGE],
        ),
        "billing": _permissions(
            publishes=[
                topology.REPLY_EXCHANGE,
                topology.CONTROL_EXCHANGE,
                topology.SETTLE_EXCHANGE,
                topology.DEAD_LETTERS_EXCHANGE,
            ],
            consumes=[topology.SETTLE_QUEUE, topology.DEAD_QUEUE, topology.PARKED_QUEUE, topology.DIAGNOSED_QUEUE],
        ),
        ADMIN: Permissions(".*", ".*", ".*"),
    }
    # A proxy consumes jobs, as a worker does, and a searcher opens child jobs, as an assistant does.
    return {**granted, "proxy": granted["worker"], "searcher": granted["assistant"]}


def render(passwords: Mapping[str, str]) -> dict[str, Any]:
    """Return RabbitMQ's definitions file for the platform as JSON values: virtual host, users, permissions, topology.

    Args:
        passwords: one for each user of `permissions()`; only salted hashes are written.
    """
    granted = permissions()
    return {
        "vhosts": [{"name": VIRTUAL_HOST}],
        "users": [_user(name, passwords[name]) for name in granted],
        "permissions": [
            {
                "user": name,
                "vhost": VIRTUAL_HOST,
                "configure": regex.configure,
                "write": regex.write,
                "read": regex.read,
            }
            for name, regex in granted.items()
        ],
        "topic_permissions": [
            {
                "user": name,
                "vhost": VIRTUAL_HOST,
                "exchange": topology.DEAD_LETTERS_EXCHANGE,
                "write": regex.routing_keys,
                "read": ".*",
            }
            for name, regex in granted.items()
        ]
        + [
            {
                "user": name,
                "vhost": VIRTUAL_HOST,
                "exchange": topology.CONTROL_EXCHANGE,
                "write": regex.control_targets,
                "read": regex.control_keys,
            }
            for name, regex in granted.items()
        ],
        **_topology(topology.platform()),
    }


def hash_password(password: str, salt: bytes) -> str:
    """Return the hash that RabbitMQ stores of a password: base64 of a 4-byte salt and SHA-256(salt + password)."""
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _permissions(publishes: list[str], consumes: list[str] | None = None) -> Permissions:
    """Return the permissions of a process that declares the platform's topology."""
    platform = topology.platform()
    exchanges = [_literal(exchange.name) for exchange in platform.exchanges]
    queues = [_literal(queue.name) for queue in platform.queues]
    return Permissions(
        configure=_any_of([*exchanges, *queues, _PRIVATE]),
        write=_any_of([*map(_literal, publishes), *queues, _PRIVATE]),
        read=_any_of([*exchanges, *map(_literal, consumes or []), _PRIVATE]),
    )


def _worker_permissions(also_publishes: Sequence[str] = (), also_binds_to: Sequence[str] = ()) -> Permissions:
    """Return the permissions of a job consumer, which declares no exchange and only job queues."""
    own = [_PRIVATE, r"hr\.job\..*"]
    publishes = [
        topology.REPLY_EXCHANGE,
        topology.STATUS_EXCHANGE,
        topology.SETTLE_EXCHANGE,
        topology.DEAD_LETTERS_EXCHANGE,  # also to declare job queues, whose dead letters go there
        *also_publishes,
    ]
    workers = [_literal(to("")) + ".*" for to in (control_targets.worker, control_targets.model)]
    binds_to = [topology.JOBS_EXCHANGE, topology.CONTROL_EXCHANGE, *also_binds_to]
    return Permissions(
        configure=_any_of(own),
        write=_any_of([*map(_literal, publishes), *own]),
        read=_any_of([*map(_literal, binds_to), *own]),
        routing_keys=_any_of([_literal(topology.dead_job_routing_key("")) + ".*", topology.DIAGNOSED_ROUTING_KEY]),
        control_keys=_any_of([control_targets.ALL, *workers]),
        control_targets=_any_of(workers),
    )


def _any_of(patterns: list[str]) -> str:
    return f"^({'|'.join(patterns)})$"


def _literal(name: str) -> str:
    return name.replace(".", r"\.")


def _user(name: str, password: str) -> dict[str, Any]:
    return {
        "name": name,
        "password_hash": hash_password(password, secrets.token_bytes(4)),
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": ["administrator"] if name == ADMIN else [],
    }


def _topology(objects: topology.Topology) -> dict[str, Any]:
    return {
        "exchanges": [
            {
                "name": exchange.name,
                "vhost": VIRTUAL_HOST,
                "type": exchange.type,
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {},
            }
            for exchange in objects.exchanges
        ],
        "queues": [
            {
                "name": queue.name,
                "vhost": VIRTUAL_HOST,
                "durable": True,
                "auto_delete": False,
                "arguments": dict(queue.arguments),
            }
            for queue in objects.queues
        ],
        "bindings": [
            {
                "source": binding.exchange,
                "vhost": VIRTUAL_HOST,
                "destination": binding.queue,
                "destination_type": "queue",
                "routing_key": binding.routing_key,
                "arguments": {},
            }
            for binding in objects.bindings
        ],
    }
