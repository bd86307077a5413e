"""Bills a request with an `Idempotency-Key`: withholds its receipts until its answer is stored.

The stored answer decides which of several runs of a request is billed: receipts are published only by the run that
holds the record, and they are stored with the answer, so that they survive the gateway (docs/design/money.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from router.messages import Receipt

SCOPE_KEY = "headrace.keyed_billing"
"""Key of the `KeyedBilling` in the ASGI scope of a run."""


class WithheldReceipts(Protocol):
    """Interface of an ended generation's billing, whose receipts are not submitted yet."""

    @property
    def receipts(self) -> Sequence[Receipt]:
        """Receipts of the ended generation's jobs."""

    async def wait_for_jobs(self) -> None:
        """Wait until holds and documents of the receipts' jobs are stored, so that the sweeper can settle them.

        Raises:
            StoreUnavailable: some may be unwritten; repeat the call.
        """

    def submit(self, *, pays: bool) -> None:
        """Submit the ended generation's receipts to be published; unless the tenant `pays`, they state no usage."""

    async def wait_for_receipts(self, seconds: float) -> None:
        """Wait at most `seconds` until the broker has confirmed the generation's receipts."""


class KeyedBilling:
    """Receipts of one run of a request with an idempotency key, whose record is `record_id`."""

    def __init__(self, record_id: str) -> None:
        self.record_id = record_id
        self._withheld: list[WithheldReceipts] = []

    def withhold(self, billing: WithheldReceipts) -> None:
        """Take over the receipts of one ended generation of the run, until `settle`."""
        self._withheld.append(billing)

    def pass_on(self, other: KeyedBilling) -> None:
        """Have `other` withhold all receipts instead."""
        for billing in self._withheld:
            other.withhold(billing)
        self._withheld.clear()

    @property
    def receipts(self) -> list[Receipt]:
        """Receipts of all jobs of the run, which are stored with its answer."""
        return [receipt for billing in self._withheld for receipt in billing.receipts]

    async def wait_for_jobs(self) -> None:
        """Wait until the jobs of all receipts are stored, before the answer is: a stored answer is always billed.

        Raises:
            StoreUnavailable: some may be unwritten; repeat the call.
        """
        for billing in self._withheld:
            await billing.wait_for_jobs()

    def submit(self, *, pays: bool) -> None:
        """Submit all receipts of the run, without usage unless the tenant `pays`."""
        for billing in self._withheld:
            billing.submit(pays=pays)

    async def wait_for_receipts(self, seconds: float) -> None:
        """Wait at most `seconds` for the confirm of each submitted receipt."""
        for billing in self._withheld:
            await billing.wait_for_receipts(seconds)

    async def settle(self, seconds: float, *, pays: bool) -> None:
        """Submit all receipts of the run, without usage unless the tenant `pays`.

        Wait at most `seconds` for confirms.
        """
        self.submit(pays=pays)
        await self.wait_for_receipts(seconds)
