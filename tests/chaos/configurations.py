"""The sixteen configurations: the processes, the faults, and what clients may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.checker import Limits
from tests.chaos.client import ASSISTED, EVERYBODY, Mix
from tests.chaos.schedule import Plan
from tests.chaos.stack import Size

NO_BROKER = frozenset({"service_unavailable", "model_unavailable"})
"""A broker that is away, or a fleet that is cut off from it: new requests are refused at once."""
NO_STORE = frozenset({"billing_unavailable"})
POISONED: Mapping[str, int] = {**EVERYBODY, "poison": 1}


@dataclass(frozen=True)
class Configuration:
    """One row."""

    name: str
    about: str
    plans: Sequence[Plan]
    size: Size = field(default_factory=Size)
    clients: int = 16
    mix: Mix = field(default_factory=lambda: Mix(EVERYBODY))
    limits: Limits = field(default_factory=Limits)
    rest: float = 180.0
    """Seconds that the books may take to come to rest: jobs of a killed gateway wait for its lease to run out."""


def _plan(nemesis: str, every: float, least: float = 0.0, most: float = 0.0) -> Plan:
    return Plan(nemesis, every, (least, most or least))


SMOKE = Configuration(
    "smoke",
    "one of each kind, in half a minute; in all runs of the tests",
    [
        Plan("worker_kill", 60, first=2),
        Plan("store_kill", 60, first=5),
        Plan("engine_kill", 60, first=8),
        Plan("broker_memory", 60, (2, 3), first=10),
        Plan("worker_restart", 60, first=14),
    ],
    clients=12,
    # A machine that is busy with other tests may take half a minute to start a worker: what waits is given up then.
    limits=Limits(refusals=NO_BROKER | NO_STORE | {"overloaded", "deadline_exceeded"}, pause=60),
)
SMOKE_SECONDS = 20.0

MUTATED = Configuration(
    "mutated",
    "one worker is killed, some clients leave: enough for each of the five bugs to show",
    [Plan("worker_kill", 60, first=3)],
    clients=12,
    mix=Mix({"stream": 1, "leave": 1}, tokens=(150, 250)),
    # A worker that comes back is asked after a job that it had lost after 5 s of silence: by an early ack it is lost.
    limits=Limits(pause=4, ghost=3),
    rest=25,
)
MUTATED_SECONDS = 8.0

CONFIGURATIONS: Sequence[Configuration] = (
    Configuration(
        "kill-storm",
        "`kill -9` of one of three workers every 3 s, 32 clients",
        [_plan("worker_kill", 3)],
        Size(workers=3, capacity=32),
        clients=32,
        limits=Limits(pause=15),
    ),
    Configuration(
        "worker-hang",
        "a worker stands still (SIGSTOP) for 3 to 20 s, then goes on as if nothing had been",
        [_plan("worker_freeze", 8, 3, 20)],
        Size(workers=3),
        limits=Limits(pause=30),
    ),
    Configuration(
        "rolling-restart",
        "all workers, then both gateways, restarted in turn by SIGTERM",
        [_plan("workers_roll", 45), _plan("gateways_roll", 45)],
        Size(gateways=2, workers=2),
        limits=Limits(pause=15),
    ),
    Configuration(
        "engine-death",
        "the engine inside a living worker is killed, or stands still for up to 6 s",
        [_plan("engine_kill", 10), _plan("engine_freeze", 15, 2, 6)],
        Size(workers=3),
        limits=Limits(pause=30),
    ),
    Configuration(
        "poison",
        "some requests bring down the engine that takes them",
        [],
        Size(workers=3),
        mix=Mix(POISONED),
        limits=Limits(
            refusals=frozenset({"overloaded"}), pause=30
        ),  # while all engines restart, the estimated wait is long
    ),
    Configuration(
        "gateway-kill",
        "`kill -9` of one of two gateways; who has an idempotency key tries again at the other, and pays once",
        [_plan("gateway_kill", 12)],
        Size(gateways=2),
        limits=Limits(pause=15),
    ),
    Configuration(
        "overflow",
        "`kill -9` of one of two workers every 12 s and of the overflow proxy, which takes what they have no room for",
        [_plan("worker_kill", 12), _plan("proxy_kill", 15)],
        Size(workers=2, capacity=6, proxies=1),
        clients=24,
        limits=Limits(pause=30),
    ),
    Configuration(
        "assistant",
        "`kill -9` of assistants, of the processes of their tools, of workers that write their answers, of gateways",
        [
            _plan("assistant_kill", 9),
            _plan("tool_kill", 9),
            _plan("worker_kill", 9),
            _plan("gateway_kill", 30),
        ],
        Size(gateways=2, workers=2, assistants=2),
        clients=12,
        mix=Mix(ASSISTED),
        limits=Limits(pause=30),
    ),
    Configuration(
        "broker-restart",
        "RabbitMQ stops in order and comes back after 1 to 4 s",
        [_plan("broker_restart", 15, 1, 4)],
        limits=Limits(refusals=NO_BROKER, pause=45),
    ),
    Configuration(
        "broker-kill",
        "`kill -9` of RabbitMQ",
        [_plan("broker_kill", 30)],
        limits=Limits(refusals=NO_BROKER, pause=45),
    ),
    Configuration(
        "broker-alarms",
        "RabbitMQ runs out of memory, or of disk, for 3 to 15 s and takes no messages",
        [_plan("broker_memory", 18, 3, 15), _plan("broker_disk", 25, 3, 10)],
        limits=Limits(refusals=NO_BROKER | {"overloaded"}, pause=45),
    ),
    Configuration(
        "worker-partition",
        "a worker is cut off from RabbitMQ for 2 to 20 s, or its connections are reset",
        [_plan("worker_partition", 10, 2, 20), _plan("worker_reset", 12, 0, 1)],
        Size(workers=3),
        limits=Limits(pause=45),
    ),
    Configuration(
        "gateway-partition",
        "a gateway is cut off from RabbitMQ for 2 to 20 s, or its connections are reset",
        [_plan("gateway_partition", 14, 2, 20), _plan("gateway_reset", 16, 0, 1)],
        Size(gateways=2),
        limits=Limits(refusals=NO_BROKER, pause=45),
    ),
    Configuration(
        "store-down",
        "the store is killed with -9, or stands still for 2 to 15 s",
        [_plan("store_kill", 15), _plan("store_freeze", 18, 2, 15)],
        limits=Limits(refusals=NO_STORE, pause=15),
    ),
    Configuration(
        "store-slow",
        "every message to and from the store takes half a second longer, or none arrives; billing is killed meanwhile",
        [_plan("store_slow", 12, 5, 15), _plan("store_partition", 25, 2, 10), _plan("billing_kill", 15)],
        limits=Limits(refusals=NO_STORE, pause=15),
    ),
    Configuration(
        "everything",
        "all of it, at any time, with two gateways and three workers",
        [
            _plan("worker_kill", 14),
            _plan("worker_freeze", 30, 3, 10),
            _plan("worker_restart", 25),
            _plan("engine_kill", 30),
            _plan("gateway_kill", 35),
            _plan("broker_restart", 60, 1, 3),
            _plan("broker_memory", 50, 2, 6),
            _plan("worker_partition", 35, 2, 10),
            _plan("gateway_reset", 30, 0, 1),
            _plan("store_kill", 50),
            _plan("store_slow", 40, 3, 8),
        ],
        Size(gateways=2, workers=3),
        mix=Mix(POISONED),
        limits=Limits(refusals=NO_BROKER | NO_STORE | {"overloaded"}, pause=60),
    ),
)
