"""Interface of the part of a worker that computes answers to the jobs that a `JobConsumer` delivers."""

from __future__ import annotations

from typing import Protocol, TypeVar

from router.consumer.attempts import Attempt
from router.messages import FailureCode, Job
from router.transport.base import Delivery

T = TypeVar("T", bound=Attempt)


class JobHandler(Protocol[T]):
    """Interface of what computes the answers to jobs. A `JobConsumer` calls it on the event loop.

    Replies go to its outbox.
    """

    def open(self, job: Job, delivery: Delivery) -> T:
        """Create and return the handler's attempt at one delivered `job`, without starting it."""

    async def begin(self, attempt: T) -> None:
        """Put one opened attempt into the queue for a slot, or end it as failed if its job can't be answered."""

    def fail(self, attempt: T, code: FailureCode, message: str) -> None:
        """Stop one attempt and end its job as failed with `code`; the client gets `message`.

        No effect if it has ended.
        """

    def cancel(self, attempt: T) -> None:
        """Stop one attempt and end its job as cancelled, on request or because its gateway died.

        No effect if it has ended.
        """

    def abandon(self, attempt: T) -> None:
        """Stop one attempt and send no terminal reply, because another worker will answer its job."""

    def admit(self) -> None:
        """Start waiting attempts while slots are free; the consumer calls it whenever a slot may have become free."""
