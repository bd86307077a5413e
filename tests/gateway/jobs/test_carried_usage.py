"""What jobs of a gateway that died have used is held and billed with the job that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from auth_billing.access.principal import Principal
from auth_billing.money.holds import HoldRequest
from gateway.jobs.job_billing import RequestBilling
from router.messages import Finished, Outcome, Usage, UsagePart
from tests.gateway.jobs.test_job_billing import HOLD, NOTHING, PAYER, RecordingPort, by_model

CARRIED = [
    UsagePart(model="org/other", usage=Usage(prompt_tokens=50, completion_tokens=6)),
    UsagePart(model="embedder", usage=Usage(prompt_tokens=3)),
]


class HoldingPort(RecordingPort):
    """Billing that keeps holds and receipts."""

    def __init__(self) -> None:
        super().__init__()
        self.holds: list[HoldRequest] = []

    async def reserve(self, principal: Principal, holds: Sequence[HoldRequest]) -> None:
        self.holds += holds


USED = Usage(prompt_tokens=7, completion_tokens=2)


def billed(*, finishes: bool, streamed: bool = True) -> tuple[HoldingPort, RequestBilling]:
    port = HoldingPort()
    billing = RequestBilling(port, PAYER, [HOLD], streamed=streamed)
    billing.carry(CARRIED)
    asyncio.run(billing.reserve())
    billing.queued(0)
    if finishes:
        billing.take(0, Finished(job_id="job-1", attempt_id="a", usage=USED))
    billing.close(RuntimeError())
    return port, billing


def test_it_is_in_the_hold_and_in_the_receipt_and_not_in_what_the_job_reports() -> None:
    port, billing = billed(finishes=True)
    held = by_model(port.holds[0].max_parts)
    assert {each.model: held[each.model] for each in CARRIED} == by_model(CARRIED)
    (receipt,) = port.receipts
    assert (receipt.usage, by_model(receipt.parts)) == (USED, by_model(CARRIED))
    assert receipt.reported is not None
    assert by_model(receipt.reported.checks) == by_model(CARRIED), "the audit finds no usage record of these jobs"
    assert (billing.usage, billing.parts) == (USED, ())


def test_it_is_billed_though_the_job_fails_before_its_first_token() -> None:
    port, _ = billed(finishes=False)
    (receipt,) = port.receipts
    assert (receipt.outcome, receipt.usage, by_model(receipt.parts)) == (Outcome.FAILED, NOTHING, by_model(CARRIED))


def test_it_is_free_with_an_answer_that_is_not_paid() -> None:
    port, _ = billed(finishes=False, streamed=False)
    assert port.receipts[0].parts == []
