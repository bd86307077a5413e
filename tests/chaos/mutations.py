"""Five injected bugs that the checker must find: `python -m tests.chaos.mutations NAME MODULE [ARGUMENT ...]`.

Runs a program as `python -m MODULE` would, with one function replaced. The product has no switch for any of them.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

EVERY = 10
"""One message in so many is treated wrongly."""


@dataclass(frozen=True)
class Mutation:
    """A bug: in which processes it is, how to put it there, and the invariants by which it must be found."""

    role: str
    """`gateway` or `worker`."""
    install: Callable[[], None]
    found_as: frozenset[str]


def _double_delivery() -> None:
    """Some pieces of text are given out twice."""
    from router.producer.unread_replies import UnreadReplies

    right, numbers = UnreadReplies.take_all, count(1)

    def take_all(self: UnreadReplies) -> list[Any]:
        arrivals = right(self)
        return arrivals + arrivals[-1:] if _is_text(arrivals) and not next(numbers) % EVERY else arrivals

    UnreadReplies.take_all = take_all  # type: ignore[method-assign]


def _lost_token() -> None:
    """Some pieces of text are taken in and not given out."""
    from router.producer.unread_replies import UnreadReplies

    right, numbers = UnreadReplies.take_all, count(1)

    def take_all(self: UnreadReplies) -> list[Any]:
        arrivals = right(self)
        return arrivals[:-1] if _is_text(arrivals) and not next(numbers) % EVERY else arrivals

    UnreadReplies.take_all = take_all  # type: ignore[method-assign]


def _is_text(arrivals: list[Any]) -> bool:
    """Whether the last arrival is text in the middle of an answer."""
    from router.messages import Delta

    return bool(arrivals) and isinstance(arrivals[-1].reply, Delta) and arrivals[-1].reply.finish_reason is None


def _early_ack() -> None:
    """A worker acknowledges a job on receipt: if the worker dies, the job is lost."""
    from router.consumer.job_consumer import JobConsumer

    right = JobConsumer._receive

    def take(self: JobConsumer[Any], envelope: Any) -> None:
        envelope.delivery.ack()
        right(self, envelope)

    JobConsumer._receive = take  # type: ignore[method-assign]


def _unsettled_hold() -> None:
    """Some receipts are never handed in."""
    from gateway.jobs.gateway_billing import GatewayBilling

    right, numbers = GatewayBilling.submit_receipt, count(1)

    def submit_receipt(self: GatewayBilling, receipt: Any) -> Any:
        if next(numbers) % 3:
            return right(self, receipt)
        confirmed = asyncio.Event()
        confirmed.set()
        return confirmed

    GatewayBilling.submit_receipt = submit_receipt  # type: ignore[method-assign]


def _ghost_job() -> None:
    """A gateway does not cancel the job of a client that has left: the work is wasted."""
    from router.bus import Bus
    from router.messages import Cancel

    right = Bus.send_control

    def send_control(self: Bus, target: str, control: Any, **options: Any) -> None:
        if not isinstance(control, Cancel):
            right(self, target, control, **options)

    Bus.send_control = send_control  # type: ignore[method-assign, assignment]


MUTATIONS: Mapping[str, Mutation] = {
    "double-delivery": Mutation("gateway", _double_delivery, frozenset({"I2"})),
    "lost-token": Mutation("gateway", _lost_token, frozenset({"I2"})),
    "early-ack": Mutation("worker", _early_ack, frozenset({"pause", "lost", "I1"})),
    "unsettled-hold": Mutation("gateway", _unsettled_hold, frozenset({"I5"})),
    "ghost-job": Mutation("gateway", _ghost_job, frozenset({"ghost"})),
}


def main() -> None:
    """Put the bug in and run the program."""
    _, name, module, *arguments = sys.argv
    MUTATIONS[name].install()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
