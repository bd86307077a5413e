"""A background response of a provider whose gateway died: asked again, or failed once text is out; billed once at most.

A provider can't continue an answer. Its text goes on only at a worker of the same model, if there is one
(`tests/proxy/test_overflow.py`).
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.messages import Delta, Outcome
from tests.fakes.project_documents import DictResponseRuns
from tests.fakes.scripted_upstream import answer, usage
from tests.gateway.answers.responses.client import ID, deltas
from tests.gateway.answers.responses.runs import abandon
from tests.gateway.http.routes.test_background_responses import until
from tests.proxy.conftest import MODEL, ProxySetup, StartProxy


def from_provider(*fields: dict[str, Any]) -> list[Delta]:
    """Deltas as a proxy sends them: without token ids."""
    plain = deltas(*fields, finish=None)
    return [msgspec.structs.replace(each, token_ids=[], untokenised_positions=1) for each in plain]


def receipts(setup: ProxySetup) -> list[Any]:
    found = setup.gateway.background.runs
    assert isinstance(found, DictResponseRuns)
    return found.receipts[ID]


async def test_a_provider_that_had_sent_nothing_is_asked_again(start_proxy: StartProxy) -> None:
    setup = await start_proxy(answer("Hello", end=(usage(7, 3), "[DONE]")))
    await abandon(setup.gateway, [], model=MODEL)
    ended = await until(setup.client, ID, "completed")
    assert ended["output"][0]["content"][0]["text"] == "Hello"
    assert setup.request_counts == [1]
    (receipt,) = receipts(setup)
    assert (receipt.outcome, receipt.usage.completion_tokens) == (Outcome.FINISHED, ended["usage"]["output_tokens"])


@pytest.mark.parametrize(
    ("sent", "receipts_stored"),
    [({"text": "Hel"}, 1), ({"reasoning": "Hm"}, 0)],
)
async def test_an_answer_that_had_begun_fails_and_is_not_asked_again(
    start_proxy: StartProxy, sent: dict[str, Any], receipts_stored: int
) -> None:
    setup = await start_proxy(answer("Hello"), no_worker_timeout=0.5)
    await abandon(setup.gateway, from_provider(sent), model=MODEL)
    ended = await until(setup.client, ID, "failed")
    assert ended["error"]["code"] == "server_error"
    assert ended["output"][0]["status"] == "incomplete"
    assert setup.request_counts == [0]
    assert len(receipts(setup)) == receipts_stored
    # What clients have read of the answer is billed once at most, by the gateway that ended it.
    assert sum(each.usage.completion_tokens for each in receipts(setup)) <= 1
