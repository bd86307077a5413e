"""A request with an idempotency key at a second gateway: it joins the run of the first, or takes it over once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from auth_billing.access.model_access import ALL_MODELS
from gateway.answers import remote_answers
from gateway.http.gateway import Gateway
from router.messages import AnswerPart, AnswerState, FollowAnswer, Job, Outcome
from tests.fakes.scripted_worker import ScriptedWorker, count
from tests.gateway.answers.test_idempotency import CHAT, REPLAYED, Held, ask
from tests.gateway.conftest import HI, KEY, MODEL, OTHER_KEY, SetStage, Stage, eventually, gateway_beside


@dataclass
class Pair:
    """Two gateways with one broker, worker and store; the first runs a request as far as `held` lets it."""

    first: Stage
    held: Held
    second: Gateway
    client: httpx.AsyncClient
    """Client of the second gateway."""

    async def ask(self, *, key: str = KEY, **fields: Any) -> httpx.Response:
        """Send the request to the second gateway."""
        headers = {"idempotency-key": "key-1", "authorization": f"Bearer {key}"}
        body = {"model": MODEL, "messages": HI, "prompt": "hi", **fields}
        return await self.client.post(CHAT, json=body, headers=headers)

    async def start(self, **fields: Any) -> asyncio.Task[httpx.Response]:
        """Send the request to the first gateway; return when its job runs."""
        asking = asyncio.create_task(ask(self.first, **fields))
        await self.first.worker.received.wait()
        return asking

    async def join(self, **fields: Any) -> asyncio.Task[httpx.Response]:
        """Send the request to the second gateway; return when it follows the run of the first."""
        asking = asyncio.create_task(self.ask(**fields))
        await eventually(lambda: bool(self.second.idempotent.remote._expected))
        return asking

    def kill_first(self) -> None:
        """Make the first gateway deaf and dumb for the second, and its lease expired."""
        remote = self.first.gateway.idempotent.remote
        remote.send_next = lambda request: None  # type: ignore[method-assign]
        ((id_, record),) = self.first.idempotency.records.items()
        self.first.idempotency.records[id_] = replace(record, lease=0.5)


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_answers, "MORE_TIMEOUT", 0.2)
    monkeypatch.setattr(remote_answers, "REPLY_TIMEOUT", 0.5)
    monkeypatch.setattr("gateway.answers.idempotency.CLAIM_INTERVAL", 0.02)


@pytest.fixture
async def pair(set_stage: SetStage) -> AsyncIterator[Pair]:
    held = Held()
    first = await set_stage(held)
    async with AsyncExitStack() as stack:
        second, client = await stack.enter_async_context(gateway_beside(first))
        yield Pair(first, held, second, client)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_second_gateway_joins_the_running_request(pair: Pair, stream: bool) -> None:
    asking = await pair.start(stream=stream)
    joined = await pair.join(stream=stream)
    same = asyncio.create_task(pair.ask(stream=stream))  # joins the copy
    await asyncio.sleep(0.5)  # longer than a part waits
    pair.held.go.set()
    answer = await asking
    for response in (await joined, await same):
        assert (response.status_code, response.content) == (200, answer.content)
        assert response.headers[REPLAYED] == "true"
        assert response.headers["content-type"] == answer.headers["content-type"]
    assert len(pair.first.worker.jobs) == 1
    assert (await pair.first.receipt()).usage.completion_tokens == 3


async def test_a_run_is_forgotten_after_its_followers_got_its_end(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_answers, "FOLLOWED_RETENTION", 0.2)
    asking, joined = await pair.start(stream=True), await pair.join(stream=True)
    remote, (run,) = pair.first.gateway.idempotent.remote, pair.first.idempotency.records.values()
    pair.held.go.set()
    await asyncio.gather(asking, joined)
    await eventually(lambda: not pair.first.gateway.idempotent._running)
    remote.send_next(FollowAnswer(run=run.run_id, reply_to=pair.second.idempotent.remote.process_id))
    await eventually(lambda: not (remote._runs or remote._followed or remote._followers))


async def test_output_is_copied_while_it_is_generated(pair: Pair) -> None:
    asking = await pair.start(stream=True)
    await pair.join(stream=True)
    (copy,) = pair.second.idempotent._running.values()
    await eventually(lambda: b'"content":"0 1 "' in copy.body)
    assert not asking.done()
    pair.held.go.set()
    await asking


@pytest.mark.parametrize("size", [1, 100])
async def test_a_response_larger_than_a_part_is_copied_whole(
    pair: Pair, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_answers, "PART_BYTES", size)
    asking, joined = await pair.start(), await pair.join()
    pair.held.go.set()
    assert (await joined).content == (await asking).content


async def test_another_body_or_another_tenant_never_joins(pair: Pair) -> None:
    """H72."""
    asking = await pair.start()
    reused = await pair.ask(temperature=0.5)
    assert (reused.status_code, reused.json()["error"]["code"]) == (400, "idempotency_key_reused")
    pair.first.worker.script = count
    theirs = await pair.ask(key=OTHER_KEY)
    assert REPLAYED not in theirs.headers
    pair.held.go.set()
    assert (await asking).json()["id"] != theirs.json()["id"]


async def test_a_key_that_may_not_use_the_model_never_joins(pair: Pair) -> None:
    """H72."""
    asking = await pair.start()
    pair.first.accounts.added["hr_live_other_models"] = replace(
        await pair.first.accounts.authenticate(KEY),
        key_id="key-3",
        models=ALL_MODELS.restricted_to(frozenset({"another-model"})),
    )
    assert (await pair.ask(key="hr_live_other_models")).status_code == 404
    pair.held.go.set()
    await asking


async def test_a_run_without_clients_at_any_gateway_is_cancelled(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.answers.shared_response.LINGER_TIMEOUT", 0.3)
    asking, joined = await pair.start(stream=True), await pair.join(stream=True)
    asking.cancel()
    await asyncio.sleep(0.6)
    cancelled = pair.first.worker.cancel_of(pair.first.worker.jobs[0].id)
    assert not cancelled.is_set(), "the client of the second gateway reads it"
    joined.cancel()
    async with asyncio.timeout(5):
        await cancelled.wait()
    await eventually(lambda: not pair.second.idempotent._running)


@pytest.mark.parametrize("returns", [True, False])
async def test_a_follower_is_waited_for_while_the_broker_is_away(
    pair: Pair, returns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.answers.shared_response.LINGER_TIMEOUT", 0.1)
    monkeypatch.setattr(remote_answers, "FOLLOWER_TIMEOUT", 30.0 if returns else 0.5)
    asking, joined = await pair.start(stream=True), await pair.join(stream=True)
    (copy,) = pair.second.idempotent._running.values()
    await eventually(lambda: copy.received > 0)
    request = pair.second.idempotent.remote._request
    monkeypatch.setattr(pair.second.idempotent.remote, "_request", lambda *_args, **_options: None)
    asking.cancel()
    cancelled = pair.first.worker.cancel_of(pair.first.worker.jobs[0].id)
    if returns:
        await asyncio.sleep(1.0)
        assert not cancelled.is_set()
        monkeypatch.setattr(pair.second.idempotent.remote, "_request", request)
        pair.held.go.set()
        assert (await joined).text.endswith("data: [DONE]\n\n")
    else:
        async with asyncio.timeout(5):
            await cancelled.wait()
        assert '"code":"server_shutdown"' in (await joined).text


async def test_a_failed_run_is_run_again_by_the_second_gateway(pair: Pair) -> None:
    asking, joined = await pair.start(), await pair.join()
    (answer,) = pair.first.gateway.idempotent._running.values()
    pair.first.worker.script = count
    answer.abandoned.set()  # as when the gateway stops
    response = await joined
    assert response.status_code == 200
    assert REPLAYED not in response.headers
    asking.cancel()
    await eventually(lambda: len(pair.first.worker.jobs) == 2)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_dead_gateways_run_is_taken_over_and_only_one_is_billed(
    set_stage: SetStage, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway was only slow: what it has delivered has no end, and costs nothing."""
    released = asyncio.Event()

    async def before_output(worker: ScriptedWorker, job: Job) -> None:
        await released.wait()
        await count(worker, job)

    first = await set_stage(before_output, header_delay=60.0)
    async with gateway_beside(first) as (second, client):
        pair = Pair(first, Held(), second, client)
        asking, joined = await pair.start(stream=stream), await pair.join(stream=stream)
        pair.kill_first()
        await eventually(lambda: len(first.worker.jobs) == 2)
        released.set()
        other, late = await joined, await asking
        assert other.status_code == 200
        assert REPLAYED not in other.headers
        await eventually(lambda: len(first.receipts) == 2)
        usage = {receipt.job: receipt for receipt in first.receipts}
        slow, taken_over = (usage[job.id] for job in first.worker.jobs)
        assert taken_over.usage.completion_tokens == 5
        assert (slow.usage.prompt_tokens, slow.usage.completion_tokens) == (0, 0)
        assert slow.outcome is Outcome.CANCELLED
        assert "idempotency_key_in_use" in late.text
        assert "[DONE]" not in late.text
        again = await ask(first, stream=stream)
        assert (again.content, again.headers[REPLAYED]) == (other.content, "true")


async def test_a_stream_that_was_copied_in_part_ends_with_an_error_and_is_run_by_its_repetition(pair: Pair) -> None:
    asking, joined = await pair.start(stream=True), await pair.join(stream=True)
    (copy,) = pair.second.idempotent._running.values()
    await eventually(lambda: copy.received > 0)
    pair.kill_first()
    response = await joined
    assert '"code":"server_shutdown"' in response.text
    assert "[DONE]" not in response.text
    pair.first.worker.script = count
    again = await pair.ask(stream=True)
    assert again.text.endswith("data: [DONE]\n\n")
    pair.held.go.set()
    assert "[DONE]" not in (await asking).text
    await eventually(lambda: len(pair.first.receipts) == 2)
    assert sorted(receipt.usage.completion_tokens for receipt in pair.first.receipts) == [0, 5]


async def test_a_copy_gets_its_end_from_the_store_if_the_gateway_dies_after_storing(pair: Pair) -> None:
    asking, joined = await pair.start(stream=True), await pair.join(stream=True)
    (copy,) = pair.second.idempotent._running.values()
    await eventually(lambda: copy.received > 0)
    pair.first.gateway.idempotent.remote.send_next = lambda request: None  # type: ignore[method-assign]
    pair.held.go.set()
    answer = await asking
    assert (await joined).content == answer.content
    assert len(pair.first.worker.jobs) == 1


async def test_receipts_are_stored_with_the_answer_before_they_are_published(pair: Pair) -> None:
    asking = await pair.start()
    pair.held.go.set()
    await asking
    (record,) = pair.first.idempotency.records.values()
    assert record.answer is not None
    (stored,) = record.answer.receipts
    assert stored == await pair.first.receipt()
    assert pair.first.billing.held[stored.job].idempotency == record.id


async def test_a_gateway_that_joins_after_the_beginning_was_dropped_is_refused(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = await pair.start(stream=True)
    (answer,) = pair.first.gateway.idempotent._running.values()
    await eventually(lambda: answer.received > 0)
    monkeypatch.setattr("gateway.answers.shared_response.MAX_BYTES", 10)
    answer.append(b"data: x\n\n" * 2)  # the first chunks do not fit any more
    refused = await pair.ask(stream=True)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "idempotent_answer_not_kept")
    assert refused.headers["x-should-retry"] == "false"
    pair.held.go.set()
    await asking


async def test_parts_that_were_not_requested_are_ignored(pair: Pair) -> None:
    """Of another run, of another position, twice."""
    asking, joined = await pair.start(stream=True), await pair.join(stream=True)
    (copy,) = pair.second.idempotent._running.values()
    await eventually(lambda: copy.received > 0)
    (record,) = pair.first.idempotency.records.values()
    for run, start in ((record.run_id, 0), (record.run_id, 10**6), ("another", copy.received)):
        forged = AnswerPart(run=run, state=AnswerState.ENDED, start=start, body=b"data: forged\n\n", status=200)
        pair.second.idempotent.remote.receive(forged)
        await asyncio.sleep(0.05)
    pair.held.go.set()
    answer = await asking
    assert (await joined).content == answer.content
