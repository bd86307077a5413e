"""Queue positions and waiting times, from this gateway's jobs and the other gateways' reports."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import msgspec
import pytest

from gateway.admission import queue_estimator
from gateway.admission.active_requesters import ActiveRequesters
from gateway.admission.queue_estimator import QueueEstimate, QueueEstimator
from router.messages import (
    ActiveRequester,
    EmbeddingPrompt,
    GatewayLoad,
    ImagePrompt,
    Job,
    QueuedWork,
    RequesterWork,
    SamplingParams,
    Search,
    SearchMethod,
    ServiceClass,
)
from router.model_registry import ModelInfo, ModelRegistry
from router.tenant_fair_queue import FLEX_FLOOR
from tests.contract.examples import JOB
from tests.fakes.accounts import FakeClock
from tests.fakes.scripted_worker import status

about: Any = pytest.approx
"""Stands for a float inside a larger value that is compared."""


MODEL = JOB.model


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queues(clock: FakeClock) -> QueueEstimator:
    return QueueEstimator("gateway-1", clock)


def job(max_tokens: int | None = 10, **changes: Any) -> Job:
    return msgspec.structs.replace(JOB, sampling=SamplingParams(seed=1, max_tokens=max_tokens), **changes)


def model(*, full: bool = True, running: int = 8, rate: float = 100.0, workers: int = 1) -> ModelInfo:
    """A model of workers with 8 slots each."""
    registry = ModelRegistry(lambda: 0.0)
    for number in range(workers):
        beat = msgspec.structs.replace(status(MODEL, f"w-{number}"), running=running, tokens_per_second=rate)
        for waiting in (int(full), int(full)):
            registry.observe(msgspec.structs.replace(beat, waiting=waiting))
    found = registry.find(MODEL)
    assert found is not None
    return found


def test_an_empty_queue_with_free_slots(queues: QueueEstimator) -> None:
    assert queues.estimate(model(full=False), ServiceClass.DEFAULT) == QueueEstimate(0, 0.0)


def test_requests_up_to_the_number_of_slots_start_at_once(queues: QueueEstimator) -> None:
    free = model(full=False, running=0)
    for number in range(8):
        assert queues.estimate(free, ServiceClass.DEFAULT).position == 0
        queues.enter([job(id=str(number))])
    ninth = queues.estimate(free, ServiceClass.DEFAULT)
    assert ninth == QueueEstimate(1, None)  # throughput was not measured yet


def test_the_wait_is_the_queued_tokens_by_the_throughput(queues: QueueEstimator) -> None:
    full = model()
    for number in range(8):
        queues.enter([job(id=f"running-{number}")]).begun(f"running-{number}")
    lines = [queues.enter([job(id=str(number), max_tokens=50)]) for number in range(4)]
    for number, line in enumerate(lines, 1):
        assert queues.estimate(full, ServiceClass.DEFAULT, line) == QueueEstimate(number, about(0.5 * number))
    assert queues.estimate(full, ServiceClass.DEFAULT) == QueueEstimate(5, about(2.5))
    lines[0].begun("0")
    lines[1].leave()
    lines[1].leave()
    assert queues.estimate(full, ServiceClass.DEFAULT, lines[3]) == QueueEstimate(2, about(1.0))
    for line in lines:
        line.leave()
    assert queues.report({}).queues[0].running == 8


def test_a_worker_with_waiting_jobs_has_no_free_slots(queues: QueueEstimator) -> None:
    """A full KV cache: three sequences run although there are eight slots."""
    for number in range(3):
        queues.enter([job(id=f"running-{number}")]).begun(f"running-{number}")
    assert queues.estimate(model(running=3), ServiceClass.DEFAULT).position == 1


def test_a_search_has_the_tokens_of_all_its_paths_within_its_budget(queues: QueueEstimator) -> None:
    search = Search(method=SearchMethod.BEAM_SEARCH, n=2, expansions=3, budget_tokens=100, verifier="prm")
    queues.enter([job(search=search, max_tokens=5)])
    queues.enter([job(id="2", search=search, max_tokens=50)])
    (work,) = queues.report({}).queues
    assert (work.waiting, work.tokens) == (2, 2 * 3 * 5 + 100)


def test_choices_are_counted(queues: QueueEstimator) -> None:
    queues.enter([job(n=4, max_tokens=5)])
    assert queues.report({}) == GatewayLoad(
        gateway="gateway-1",
        queues=[
            QueuedWork(
                model=MODEL,
                service_class=ServiceClass.DEFAULT,
                waiting=4,
                tokens=20,
                requesters=[RequesterWork(tenant=JOB.tenant, waiting=4, tokens=20)],
            )
        ],
    )


def test_classes_wait_for_higher_classes(queues: QueueEstimator) -> None:
    full = model(running=0)
    queues.enter([job(id="d", max_tokens=100)])
    queues.enter([job(id="f", max_tokens=100, service_class=ServiceClass.FLEX)])
    positions = {each: queues.estimate(full, each).position for each in ServiceClass}
    assert positions == {ServiceClass.PRIORITY: 1, ServiceClass.DEFAULT: 2, ServiceClass.FLEX: 3}
    # Flex has its floor: the others get what is left of the rate.
    assert queues.estimate(full, ServiceClass.DEFAULT).seconds == pytest.approx(2 / (1 - FLEX_FLOOR))
    assert queues.estimate(full, ServiceClass.FLEX).seconds == pytest.approx(3.0)


def test_running_flex_beyond_an_eighth_of_the_slots_is_not_waited_for(queues: QueueEstimator) -> None:
    for number in range(8):
        queues.enter([job(id=str(number), service_class=ServiceClass.FLEX)]).begun(str(number))
    assert queues.estimate(model(), ServiceClass.DEFAULT) == QueueEstimate(0, 0.0)
    assert queues.estimate(model(), ServiceClass.FLEX).position == 1


def test_other_gateways_jobs_are_spread_over_the_queue(queues: QueueEstimator, clock: FakeClock) -> None:
    full = model(running=0)
    work = QueuedWork(model=MODEL, service_class=ServiceClass.DEFAULT, waiting=10, tokens=1000, running=2)
    queues.observe(GatewayLoad(gateway="gateway-2", queues=[work]))
    queues.observe(GatewayLoad(gateway="gateway-1", queues=[work]))  # that is us
    mine = [queues.enter([job(id=str(number), max_tokens=100)]) for number in range(2)]
    # Of ten, 2.5 are before my first and 7.5 before my second.
    assert [queues.estimate(full, ServiceClass.DEFAULT, line).position for line in mine] == [4, 10]
    assert queues.estimate(full, ServiceClass.DEFAULT) == QueueEstimate(13, about(13.0))
    clock.now += 3.1
    assert queues.estimate(full, ServiceClass.DEFAULT).position == 3  # a gateway that is silent has gone


def test_without_throughput_the_wait_is_infinite(queues: QueueEstimator) -> None:
    assert queues.estimate(model(running=0, rate=0.0), ServiceClass.DEFAULT).seconds == math.inf


def test_answer_lengths_are_estimated_from_recent_answers(queues: QueueEstimator) -> None:
    for _ in range(100):
        queues.record_answer(MODEL, 20)
    queues.enter([job(id="a", max_tokens=1000)])
    queues.enter([job(id="b", max_tokens=5)])
    queues.enter([job(id="c", max_tokens=None)])
    assert queues.report({}).queues[0].tokens == 20 + 5 + 20


def test_images_are_estimated_by_their_number(queues: QueueEstimator) -> None:
    drawing = job(prompt=ImagePrompt(prompt="a" * 1000, size="512x512"), n=3)
    queues.enter([drawing])
    assert [queue.tokens for queue in queues.report({}).queues] == [3]


def test_embeddings_are_estimated_from_their_inputs(queues: QueueEstimator) -> None:
    prompt = EmbeddingPrompt(inputs=["x" * 40, [1, 2, 3]])
    queues.enter([job(prompt=prompt)])
    assert queues.report({}).queues[0].tokens == 13


def test_another_tenants_flood_is_not_ahead_of_a_quiet_tenant(queues: QueueEstimator) -> None:
    full = model()
    for number in range(8):
        queues.enter([job(id=f"running-{number}")]).begun(f"running-{number}")
    noisy = [queues.enter([job(id=str(number), max_tokens=50, tenant="noisy")]) for number in range(100)]
    assert queues.estimate(full, ServiceClass.DEFAULT, tenant="noisy").position == 101
    for _ in range(100):
        queues.record_answer(MODEL, 50)
    assert queues.estimate(full, ServiceClass.DEFAULT, tenant="quiet").position == 2
    mine = [queues.enter([job(id=f"q{number}", max_tokens=50, tenant="quiet")]) for number in range(2)]
    assert [queues.estimate(full, ServiceClass.DEFAULT, line).position for line in mine] == [2, 4]
    assert queues.estimate(full, ServiceClass.DEFAULT, noisy[1]).position == 4
    for line in (*noisy, *mine):
        line.leave()
    assert queues.estimate(full, ServiceClass.DEFAULT, tenant="quiet").position == 1


def test_another_persons_flood_is_not_ahead_of_a_quiet_person(queues: QueueEstimator) -> None:
    full = model()
    tenant = "organisation"
    for number in range(8):
        queues.enter([job(id=f"running-{number}")]).begun(f"running-{number}")
    for _ in range(100):
        queues.record_answer(MODEL, 50)
    noisy = [
        queues.enter([job(id=str(number), max_tokens=50, tenant=tenant, requester="noisy")]) for number in range(100)
    ]
    estimate = partial(queues.estimate, full, ServiceClass.DEFAULT, tenant=tenant)
    assert estimate(requester="noisy").position == 101
    assert estimate(requester="quiet").position == 2
    mine = [
        queues.enter([job(id=f"q{number}", max_tokens=50, tenant=tenant, requester="quiet")]) for number in range(2)
    ]
    assert [queues.estimate(full, ServiceClass.DEFAULT, line).position for line in mine] == [2, 4]
    assert queues.estimate(full, ServiceClass.DEFAULT, noisy[1]).position == 4
    # Another organisation has at most as much ahead from this one as it has itself.
    assert queues.estimate(full, ServiceClass.DEFAULT, tenant="another", requester="any").position == 2


def test_a_flood_at_another_gateway_is_not_ahead_of_a_quiet_person(queues: QueueEstimator) -> None:
    full = model()
    for _ in range(100):
        queues.record_answer(MODEL, 50)
    theirs = RequesterWork(tenant="organisation", requester="noisy", waiting=1000, tokens=50_000)
    work = QueuedWork(
        model=MODEL, service_class=ServiceClass.DEFAULT, waiting=1010, tokens=50_500, running=8, requesters=[theirs]
    )
    queues.observe(GatewayLoad(gateway="gateway-2", queues=[work]))
    estimate = partial(queues.estimate, full, ServiceClass.DEFAULT)
    assert estimate(tenant="organisation", requester="noisy").position == 1011
    assert estimate(tenant="organisation", requester="quiet").position == 12  # ten are of unknown requesters
    assert estimate(tenant="another", requester="quiet").position == 12


def test_the_report_names_the_requesters_with_the_most_work_and_the_latest(
    queues: QueueEstimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_estimator, "REPORTED_REQUESTERS", 2)
    active = ActiveRequesters()
    for number in range(4):
        queues.enter([job(id=str(number), max_tokens=5 + number, tenant="t", requester=f"r{number}")])
        active.note_request("t", f"r{number}")
    report = queues.report({MODEL: active})
    assert report.queues[0].tokens == 5 + 6 + 7 + 8
    assert report.queues[0].requesters == [
        RequesterWork(tenant="t", requester="r3", waiting=1, tokens=8),
        RequesterWork(tenant="t", requester="r2", waiting=1, tokens=7),
    ]
    assert report.active == [
        ActiveRequester(model=MODEL, tenant="t", requester="r3"),
        ActiveRequester(model=MODEL, tenant="t", requester="r2"),
    ]


def test_other_gateways_load(queues: QueueEstimator) -> None:
    work = QueuedWork(model=MODEL, service_class=ServiceClass.DEFAULT, waiting=10, tokens=1000, running=2)
    queues.observe(GatewayLoad(gateway="gateway-2", queues=[work]))
    queues.observe(GatewayLoad(gateway="gateway-3", queues=[]))
    assert queues.other_gateways(MODEL)[:3] == (1, 12, {})
    assert queues.other_gateways("another")[:3] == (0, 0, {})
