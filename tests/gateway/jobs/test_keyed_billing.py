"""Receipts of a request with an idempotency key: withheld until its answer is stored, and without usage if it lost."""

from __future__ import annotations

import pytest

from gateway.jobs.keyed_billing import KeyedBilling
from router.messages import Receipt
from tests.contract.examples import RECEIPT


class Withheld:
    def __init__(self, receipt: Receipt, order: list[str]) -> None:
        self.receipts = [receipt]
        self.order = order

    async def wait_for_jobs(self) -> None:
        self.order.append("jobs")

    def submit(self, *, pays: bool) -> None:
        self.order.append(f"submit {pays}")

    async def wait_for_receipts(self, seconds: float) -> None:
        self.order.append(f"wait {seconds}")


@pytest.mark.parametrize("pays", [True, False])
async def test_all_receipts_are_submitted_before_a_confirm_is_awaited(pays: bool) -> None:
    order: list[str] = []
    keyed = KeyedBilling("record")
    for _ in range(2):
        keyed.withhold(Withheld(RECEIPT, order))
    assert keyed.receipts == [RECEIPT, RECEIPT]
    assert order == []
    await keyed.wait_for_jobs()
    assert order == ["jobs"] * 2
    order.clear()
    await keyed.settle(3.0, pays=pays)
    assert order == [f"submit {pays}"] * 2 + ["wait 3.0"] * 2
