"""Interface of what computes the answers to the jobs of a `JobConsumer`."""

from __future__ import annotations

from typing import Protocol, TypeVar

from router.consumer.attempts import Attempt
from router.messages import FailureCode, Job
from router.transport.base import Delivery

T = TypeVar("T", bound=Attempt)


class JobHandler(Protocol[T]):
    """Interface that computes the answers to jobs. Called on the event loop; replies through the consumer's outbox."""

    def open(self, job: Job, delivery: Delivery) -> T:
        """Create an attempt at `job`, which `delivery` brought, without starting it."""

    async def begin(self, attempt: T) -> None:
        """Queue an attempt for a slot; end it as failed if its job can't be answered."""

    def fail(self, attempt: T, code: FailureCode, message: str) -> None:
        """Stop and end an attempt as failed; `message` is for the client. No effect if it has ended."""

    def cancel(self, attempt: T) -> None:
        """Stop and end an attempt as cancelled: on request, or because its gateway died. No effect if it has ended."""

    def abandon(self, attempt: T) -> None:
        """Stop an attempt without a terminal reply: another worker will answer the job."""

    def admit(self) -> None:
        """Start waiting jobs while slots are free."""
