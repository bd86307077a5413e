"""Searches in workers: answers, steps and bills, also when workers or engines die, and when they are cancelled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any

import msgspec
import pytest

from inference_worker.engine_protocol import TokenEvent
from inference_worker.search.driver import SearchDriver
from inference_worker.search.events import Compare, Compared
from inference_worker.search.results import extract_results
from inference_worker.worker.search import handler
from inference_worker.worker.search.attempt import SearchAttempt
from inference_worker.worker.search.result_sandbox import ResultSandbox
from router import control_targets
from router.consumer.gateway_clocks import GatewayClocks
from router.messages import (
    MAX_DEPTH,
    Cancel,
    Cancelled,
    ChatPrompt,
    Delta,
    Extraction,
    ExtractionKind,
    Failed,
    FailureCode,
    Finished,
    SamplingParams,
    Search,
    SearchMethod,
    Step,
    TextOptions,
    TextPrompt,
    UsageRecord,
    WorkerState,
)
from tests.fakes.fleet import Answer, Fleet, until
from tests.fakes.search_workers import (
    BEAM,
    LIKELY,
    VERIFIER,
    VOTE,
    BranchingEngine,
    PairWorker,
    SearchWorker,
    VerifierWorker,
)

TOKENS = 60
METHODS = [
    BEAM,
    msgspec.structs.replace(BEAM, method=SearchMethod.DVTS),
    Search(method=SearchMethod.BEST_OF_N, n=3, budget_tokens=50_000, separator="7 ", verifier=VERIFIER),
    VOTE,
    LIKELY,
]

BY_MODEL = msgspec.structs.replace(VOTE, extract=Extraction(kind=ExtractionKind.MODEL))


def steps(answer: Answer) -> list[Step]:
    """The ended steps that the client has."""
    every = [reply.step for reply in answer.replies if isinstance(reply, Delta) and reply.step is not None]
    return [step for step in every if step.state.ended]


def check(answer: Answer) -> None:
    """The answer has finished, and each generated token is billed once."""
    assert isinstance(answer.terminal, Finished)
    ended = steps(answer)
    parts = [part for step in ended for part in step.parts]
    search = answer.job.search
    assert search is not None
    generated = sum(part.usage.completion_tokens for part in parts) + answer.terminal.usage.completion_tokens
    assert generated == ended[-1].data["generated"]
    assert sum(part.usage.prompt_tokens for part in parts) == ended[-1].data["scored"]
    assert {part.model for part in parts} <= {answer.job.model, search.verifier}
    assert answer.terminal.usage.completion_tokens == len(answer.ids[0])


async def record_of(fleet: Fleet, answer: Answer) -> UsageRecord:
    """The only usage record of a job."""
    await until(lambda: any(record.job == answer.job.id for record in fleet.records))
    [record] = [record for record in fleet.records if record.job == answer.job.id]
    return record


async def undisturbed(fleet: Fleet, search: Search) -> Answer:
    """The answer of a worker that nothing happens to."""
    answer = await fleet.ask("undisturbed", TOKENS, search=search)
    await answer.read()
    check(answer)
    return answer


@pytest.mark.parametrize("search", METHODS, ids=lambda search: search.method.value)
async def test_a_search_answers_after_its_steps(fleet: Fleet, search: Search) -> None:
    verifier = await fleet.start_one(VerifierWorker, "verifier-1")
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    answer = await undisturbed(fleet, search)
    ended = steps(answer)
    assert [step.number for step in ended] == list(range(len(ended)))
    assert len(ended) > 1 or not search.method.stepwise
    assert ended[-1].data["generated"] <= worker.engine.counted.total()
    chosen = [path for path in ended[-1].data["paths"] if path["path"] == ended[-1].data["chosen"]]
    assert not chosen or answer.texts[0].strip().endswith(chosen[0]["text"].strip())
    at_limit = len(answer.ids[0]) == TOKENS or len(ended) == search.max_steps
    assert answer.ends == ["length" if at_limit else "stop"]
    assert bool(verifier.engine.submitted) == bool(search.verifier)
    record = await record_of(fleet, answer)
    assert record.usage == answer.terminal.usage  # type: ignore[union-attr]
    assert record.parts == [part for step in ended for part in step.parts]


async def test_continuations_follow_the_shared_prefix_of_their_path(fleet: Fleet) -> None:
    await fleet.start_one(VerifierWorker, "verifier-1")
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    answer = await undisturbed(fleet, BEAM)
    requests = worker.engine.kept
    prompt = requests[0].prompt_ids
    assert requests[0].n == BEAM.n * BEAM.expansions
    assert all(each.n == BEAM.expansions and each.prompt_ids[: len(prompt)] == prompt for each in requests[1:])
    assert all(each.tenant == "t" and (each.sampling.max_tokens or 0) <= BEAM.step_tokens for each in requests)
    prefixes = [each.prompt_ids[len(prompt) :] for each in requests[1:]]
    assert all(prefixes)
    assert any(answer.ids[0][: len(prefix)] == prefix for prefix in prefixes)
    assert len({each.id for each in requests}) == len(requests)


def attempt_at(worker: SearchWorker) -> SearchAttempt:
    """The only attempt of a worker."""
    [attempt] = worker.worker._consumer.attempts
    assert isinstance(attempt, SearchAttempt)
    return attempt


async def generate(worker: SearchWorker, reached: Callable[[], object]) -> None:
    """Let the engine step until something is reached."""
    async with asyncio.timeout(20):
        while not reached():
            worker.engine.step()
            await asyncio.sleep(0.001)


async def begin_step(worker: SearchWorker, answer: Answer, number: int) -> None:
    """Let the engine generate two tokens of each continuation of a step."""
    await until(lambda: worker.engine.requests)
    attempt = attempt_at(worker)
    await generate(worker, lambda: len(attempt.steps) == number and worker.engine.requests)
    await answer.read(tokens=number)
    before = worker.worker._handler.tokens
    worker.engine.step(2)
    await until(lambda: worker.worker._handler.tokens > before)


@pytest.mark.parametrize("moment", ["generates", "waits for scores"])
@pytest.mark.parametrize("how", ["killed", "drained", "engine crashes"])
async def test_a_search_that_is_interrupted_in_any_step_gives_the_same_answer(
    fleet: Fleet, moment: str, how: str
) -> None:
    verifier = await fleet.start_one(VerifierWorker, "verifier-1")
    await fleet.start_one(SearchWorker, "worker-0", step_time=0.001)
    expected = await undisturbed(fleet, BEAM)
    await fleet.workers["worker-0"].end()
    for number in range(len(steps(expected))):
        answer = await interrupted(fleet, verifier, number, moment, how)
        check(answer)
        assert (answer.ids, answer.texts, answer.ends) == (expected.ids, expected.texts, expected.ends)
        assert [step.data for step in steps(answer)] == [step.data for step in steps(expected)]


async def interrupted(fleet: Fleet, verifier: VerifierWorker, number: int, moment: str, how: str) -> Answer:
    """The answer of a search that is interrupted in its step `number`."""
    first = await fleet.start_one(SearchWorker, f"first-{number}", step_time=None)
    answer = await fleet.ask(f"job-{number}", TOKENS, search=BEAM)
    await begin_step(first, answer, number)
    attempt = attempt_at(first)
    if moment == "waits for scores":
        verifier.engine.held = True
        await generate(first, lambda: verifier.engine.scoring)
    if how == "engine crashes":
        first.engine.die()
        await until(lambda: first.engine.starts == 2)
        assert attempt.crashes == int(moment == "generates")
        verifier.engine.release()
        await generate(first, lambda: attempt.ended)
    else:
        await fleet.start_one(SearchWorker, f"second-{number}", step_time=0.001)
        await (first.kill() if how == "killed" else first.end())
        verifier.engine.release()
    await answer.read()
    for worker in (first, fleet.workers.get(f"second-{number}", first)):
        await worker.end()
    return answer


@pytest.mark.parametrize("delivered", [0, 5])
async def test_a_search_goes_on_after_any_of_its_steps(fleet: Fleet, delivered: int) -> None:
    await fleet.start_one(VerifierWorker, "verifier-1")
    await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    expected = await undisturbed(fleet, BEAM)
    every = steps(expected)
    for known in range(len(every) + 1) if not delivered else [len(every)]:
        ids = expected.ids[0][:delivered]
        given: dict[str, Any] = {"steps": every[:known], "delivered": [ids] if ids else []}
        answer = await fleet.ask(f"job-{known}", TOKENS, search=BEAM, **given)
        answer.positions[0] = known + delivered
        await answer.read()
        assert isinstance(answer.terminal, Finished)
        assert [step.data for step in steps(answer)] == [step.data for step in every[known:]]
        assert ids + answer.ids[0] == expected.ids[0]
        assert expected.texts[0].endswith(answer.texts[0])
        assert answer.terminal.usage == expected.terminal.usage  # type: ignore[union-attr]
        record = await record_of(fleet, answer)
        assert record.parts == [part for step in every for part in step.parts]


@pytest.mark.parametrize("delivered", [[], [[5], [7]], [[0], [1]]], ids=["none", "parts", "one whole"])
async def test_a_beam_search_by_likelihood_goes_on_after_any_of_its_steps(
    fleet: Fleet, delivered: list[list[int]]
) -> None:
    await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    expected = await fleet.ask("undisturbed", TOKENS, search=LIKELY, n=2)
    await expected.read()
    assert isinstance(expected.terminal, Finished)
    assert expected.terminal.usage.completion_tokens == sum(map(len, expected.ids))
    assert expected.ids[0] != expected.ids[1]
    every = steps(expected)
    assert len(every) > 2
    counts = [0, 0] if not delivered else [count for [count] in delivered]
    whole = [1] if counts == [0, 1] else []
    ids = [expected.ids[0][: counts[0]], expected.ids[1] if whole else expected.ids[1][: counts[1]]]
    for known in [len(every)] if delivered else range(len(every) + 1):
        given: dict[str, Any] = {"steps": every[:known], "delivered": ids if delivered else [], "ended": whole}
        answer = await fleet.ask(f"job-{known}", TOKENS, search=LIKELY, n=2, **given)
        answer.positions[0], answer.positions[1] = known + len(ids[0]), len(ids[1])
        await answer.read()
        assert isinstance(answer.terminal, Finished)
        assert [step.data for step in steps(answer)] == [step.data for step in every[known:]]
        assert [before + after for before, after in zip(ids, answer.ids, strict=True)] == expected.ids
        assert answer.terminal.usage == expected.terminal.usage


async def test_beam_search_by_likelihood_survives_a_crash_of_the_engine(fleet: Fleet) -> None:
    worker = await fleet.start_one(SearchWorker, "worker-0", step_time=0.001)
    expected = await undisturbed(fleet, LIKELY)
    await worker.end()
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=None)
    answer = await fleet.ask("job", TOKENS, search=LIKELY)
    await until(lambda: worker.engine.requests)
    attempt = attempt_at(worker)
    await generate(worker, lambda: len(attempt.steps) == 1 and worker.engine.requests)
    worker.engine.die()
    await until(lambda: worker.engine.starts == 2)
    await generate(worker, lambda: attempt.ended)
    await answer.read()
    check(answer)
    assert (answer.ids, answer.texts, answer.ends) == (expected.ids, expected.texts, expected.ends)
    assert [step.data for step in steps(answer)] == [step.data for step in steps(expected)]


def common(first: list[int], second: list[int]) -> int:
    """The number of ids with which both lists begin."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(first), len(second)))


class CachingEngine(BranchingEngine):
    """Reports as cached the tokens of a prompt with which an earlier request began."""

    def _count(self, counting: Any, choice: int) -> TokenEvent:
        ids = counting.request.prompt_ids
        earlier = self.kept[: self.kept.index(counting.request)]
        cached = max((common(ids, each.prompt_ids) for each in earlier), default=0)
        return msgspec.structs.replace(super()._count(counting, choice), cached_tokens=min(cached, len(ids) - 1))


class CachingWorker(SearchWorker):
    """A worker that searches, with a prefix cache."""

    engine_type = CachingEngine


@pytest.mark.parametrize(
    "search",
    [LIKELY, BY_MODEL, msgspec.structs.replace(BEAM, method=SearchMethod.LOOKAHEAD, lookahead_steps=2)],
    ids=lambda search: search.method.value,
)
async def test_what_a_search_finds_of_its_own_prompt_in_the_cache_costs_the_full_price(
    fleet: Fleet, search: Search
) -> None:
    await fleet.start_one(VerifierWorker, "verifier-1")
    worker = await fleet.start_one(CachingWorker, "worker-1", step_time=0.001)
    first, again = await undisturbed(fleet, search), await fleet.ask("again", TOKENS, search=search)
    await again.read()
    prompt = worker.engine.kept[0].prompt_ids
    assert [answer.terminal.usage.cached_tokens for answer in (first, again)] == [0, len(prompt) - 1]  # type: ignore[union-attr]


async def test_a_search_past_its_deadline_fails_and_stops(fleet: Fleet) -> None:
    verifier = await fleet.start_one(VerifierWorker, "verifier-1")
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    verifier.engine.held = True
    answer = await fleet.ask("j", TOKENS, search=BEAM)
    await until(lambda: verifier.engine.scoring)
    worker.worker._consumer.clocks = GatewayClocks(lambda: time.time() + 100)
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.code is FailureCode.DEADLINE_EXCEEDED
    await until(lambda: not verifier.engine.scoring)


async def test_a_waiting_search_is_not_the_engines_work(fleet: Fleet) -> None:
    verifier = await fleet.start_one(VerifierWorker, "verifier-1")
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    verifier.engine.held = True
    answer = await fleet.ask("j", TOKENS, search=BEAM)
    await until(lambda: verifier.engine.scoring)
    assert not worker.worker._handler._report_due(), "the watchdog must not kill the engine"
    verifier.engine.release()
    await answer.read()
    check(answer)


async def test_a_verifier_that_dies_is_replaced(fleet: Fleet) -> None:
    first = await fleet.start_one(VerifierWorker, "verifier-1")
    await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    expected = await undisturbed(fleet, BEAM)
    first.engine.held = True
    answer = await fleet.ask("j", TOKENS, search=BEAM)
    await until(lambda: first.engine.scoring)
    await fleet.start_one(VerifierWorker, "verifier-2")
    await first.kill()
    await answer.read()
    check(answer)
    assert answer.texts == expected.texts


@pytest.mark.parametrize("moment", ["generates", "waits for scores"])
async def test_a_cancelled_search_stops_its_engine_requests_and_child_jobs(fleet: Fleet, moment: str) -> None:
    verifier = await fleet.start_one(VerifierWorker, "verifier-1")
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=None)
    answer = await fleet.ask("j", TOKENS, search=BEAM)
    await begin_step(worker, answer, 1)
    if moment == "waits for scores":
        verifier.engine.held = True
        await generate(worker, lambda: verifier.engine.scoring)
    fleet.bus.send_control(control_targets.ALL, Cancel(job="j"))
    await answer.read()
    assert isinstance(answer.terminal, Cancelled)
    await until(lambda: not worker.engine.requests and not verifier.engine.scoring)
    await until(lambda: not len(verifier.worker._consumer.attempts))
    record = await record_of(fleet, answer)
    assert record.parts == [part for step in steps(answer) for part in step.parts]
    assert record.usage.completion_tokens == 0


async def test_a_search_that_crashes_engines_is_given_up(fleet: Fleet) -> None:
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=None)
    answer = await fleet.ask("j", TOKENS, search=VOTE)
    for crash in range(fleet.timings.poison_after_crashes):
        await until(lambda: worker.engine.requests)
        assert attempt_at(worker).crashes == crash
        worker.engine.die()
        await until(lambda: not worker.engine.alive)
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.code is FailureCode.FAILED_REPEATEDLY


async def test_a_failure_of_the_verifier_fails_the_job(fleet: Fleet) -> None:
    verifier = await fleet.start_one(VerifierWorker, "verifier-1", max_model_len=8)
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    verifier.engine.held = True
    answer = await fleet.ask("j", TOKENS, search=BEAM)
    await until(lambda: verifier.engine.scoring)
    verifier.engine.fail(next(iter(verifier.engine.scoring)))
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.code is FailureCode.ENGINE_ERROR
    assert not worker.engine.requests


@pytest.mark.parametrize("search", METHODS[:3], ids=lambda search: search.method.value)
async def test_the_verifier_reads_no_more_than_the_budget_of_a_prompt_that_the_model_reads_a_part_of(
    fleet: Fleet, search: Search
) -> None:
    verifier = await fleet.start_one(VerifierWorker, "verifier-1")
    await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    search = msgspec.structs.replace(search, budget_tokens=1000)
    prompt = ChatPrompt(messages=[{"role": "user", "content": "1 2 3 " * 200}])
    text = TextOptions(truncate_prompt_tokens=1)
    answer = await fleet.ask("job", TOKENS, search=search, prompt=prompt, text=text)
    await answer.read()
    check(answer)
    assert steps(answer)[-1].data["scored"] == 0
    assert verifier.engine.submitted == []


async def test_a_request_that_fails_in_the_engine_fails_its_search_unless_its_continuations_have_ended(
    fleet: Fleet,
) -> None:
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=None)
    answer = await fleet.ask("j", TOKENS, search=VOTE)
    await begin_step(worker, answer, 1)
    attempt = attempt_at(worker)
    ended, running = f"{attempt.attempt_id}/0", next(iter(attempt.continuations))
    worker.engine.fail(ended)
    before = worker.worker._handler.tokens
    worker.engine.step()
    await until(lambda: worker.worker._handler.tokens > before)
    assert not attempt.ended
    worker.engine.fail(running)
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.code is FailureCode.ENGINE_ERROR


def with_(search: Search, **fields: Any) -> Search:
    return msgspec.structs.replace(search, **fields)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"search": LIKELY, "n": 4}, "n"),
        (
            {"search": LIKELY, "sampling": SamplingParams(seed=1, stop_token_ids=list(range(17)))},
            "stop_token_ids",
        ),
        ({"prompt": TextPrompt("count")}, "test_time_compute"),
        ({"depth": MAX_DEPTH}, "test_time_compute"),
        ({"prompt": ChatPrompt(messages=[{"role": "user", "content": "count"}], images=[b""])}, "messages"),
        (
            {"search": with_(VOTE, extract=Extraction(kind=ExtractionKind.REGEX, pattern="(a)\\1"))},
            "test_time_compute.extract.regex",
        ),
    ],
)
async def test_what_a_search_can_not_do_is_refused(fleet: Fleet, fields: dict[str, Any], param: str) -> None:
    await fleet.start_one(SearchWorker, "worker-1")
    answer = await fleet.ask("j", TOKENS, **{"search": BEAM, **fields})
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.param == param


async def test_a_worker_without_searches_refuses_them_and_does_not_announce_any(fleet: Fleet) -> None:
    worker = await fleet.start("worker-1")
    assert not worker.worker._heartbeat(WorkerState.READY).searches
    answer = await fleet.ask("j", search=VOTE)
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.param == "test_time_compute"


@pytest.mark.parametrize("kind", [VerifierWorker, PairWorker])
async def test_heartbeats_say_whether_only_pairs_are_scored(fleet: Fleet, kind: type[VerifierWorker]) -> None:
    worker = await fleet.start_one(kind, "verifier-1")
    assert worker.worker._heartbeat(WorkerState.READY).scores_pairs == kind.scores_pairs


async def test_ordinary_jobs_run_beside_searches(fleet: Fleet) -> None:
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    assert worker.worker._heartbeat(WorkerState.READY).searches
    search = await fleet.ask("s", TOKENS, search=VOTE)
    ordinary = await fleet.ask("o", 20, sampling=SamplingParams(seed=1, max_tokens=20, ignore_eos=True))
    await ordinary.read()
    await search.read()
    check(search)
    assert isinstance(ordinary.terminal, Finished)
    assert not steps(ordinary)


async def test_stop_strings_end_a_path_and_the_answer(fleet: Fleet) -> None:
    await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    answer = await fleet.ask("j", TOKENS, search=VOTE, text=TextOptions(stop=["3 "]))
    await answer.read()
    check(answer)
    assert answer.ends == ["stop"]
    assert "3 " not in answer.texts[0]
    [last] = [reply for reply in answer.replies if isinstance(reply, Delta) and reply.finish_reason]
    assert last.stop_reason == "3 "


async def test_a_search_without_budget_for_its_first_step_ends_at_once(fleet: Fleet) -> None:
    await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    answer = await fleet.ask("j", TOKENS, search=with_(VOTE, budget_tokens=1))
    await answer.read()
    assert isinstance(answer.terminal, Finished)
    assert (answer.texts, answer.ends) == ([""], ["length"])


async def test_the_model_reads_the_result_of_each_answer(fleet: Fleet) -> None:
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    answer = await undisturbed(fleet, BY_MODEL)
    paths = [path for step in steps(answer) for path in step.data["paths"]]
    assert {path["result"] for path in paths} <= {"0", "1", "2"}
    votes = dict(steps(answer)[-1].data["votes"])
    assert votes == {result: [path["result"] for path in paths].count(result) for result in votes}
    questions = [request for request in worker.engine.kept if request.grammar is not None]
    assert len(questions) == len(paths)
    assert all(request.sampling.temperature == 0 and request.sampling.max_tokens == 32 for request in questions)
    assert steps(answer)[-1].data["generated"] == worker.engine.counted.total()


async def test_results_are_read_again_by_an_engine_that_crashed(fleet: Fleet) -> None:
    worker = await fleet.start_one(SearchWorker, "worker-0", step_time=0.001)
    expected = await undisturbed(fleet, BY_MODEL)
    await worker.end()
    worker = await fleet.start_one(SearchWorker, "worker-1", step_time=None)
    answer = await fleet.ask("job", TOKENS, search=BY_MODEL)
    await until(lambda: worker.engine.requests)
    attempt = attempt_at(worker)
    await generate(worker, lambda: any(request.grammar for request in worker.engine.requests))
    worker.engine.die()
    await until(lambda: worker.engine.starts == 2)
    await generate(worker, lambda: attempt.ended)
    await answer.read()
    check(answer)
    assert (answer.ids, answer.texts) == (expected.ids, expected.texts)
    assert [step.data for step in steps(answer)] == [step.data for step in steps(expected)]


async def test_a_clients_pattern_runs_beside_the_event_loop(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()

    def extract(texts: Sequence[str], extraction: Extraction) -> list[str | None]:
        threads.add(threading.get_ident())
        return extract_results(texts, extraction)

    monkeypatch.setattr(handler, "extract_results", extract)
    await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    pattern = Extraction(kind=ExtractionKind.REGEX, pattern=r"(\d)\d* $")
    answer = await undisturbed(fleet, msgspec.structs.replace(VOTE, extract=pattern))
    results = [path["result"] for step in steps(answer) for path in step.data["paths"]]
    assert any(results)
    assert threads
    assert threading.get_ident() not in threads


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> Search:
    """A vote about answers whose results are four notations of one half of x."""
    notations = cycle([r"\frac{x}{2}", "0.5x", "x/2", r"\frac12 x"])

    def extract(texts: Sequence[str], extraction: Extraction) -> list[str | None]:
        assert extraction.kind is ExtractionKind.BOXED
        return [next(notations) for _ in texts]

    monkeypatch.setattr(handler, "SearchDriver", partial(SearchDriver, extract=extract))
    return msgspec.structs.replace(VOTE, extract=Extraction(kind=ExtractionKind.BOXED))


async def test_results_that_are_equal_as_mathematics_are_one_vote(fleet: Fleet, halves: Search) -> None:
    await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    answer = await undisturbed(fleet, halves)
    data = steps(answer)[-1].data
    assert data["votes"] == [[r"\frac{x}{2}", 3]]  # the fourth answer would not change it
    assert data["chosen"] == 1


async def test_a_cancelled_search_stops_the_comparison(
    fleet: Fleet, halves: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparing, stopped = asyncio.Event(), asyncio.Event()

    async def compare(_sandbox: ResultSandbox, _command: Compare, tenant: str, requester: str) -> Compared:
        assert (tenant, requester) == ("t", answer.job.requester)
        comparing.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    monkeypatch.setattr(ResultSandbox, "compare", compare)
    await fleet.start_one(SearchWorker, "worker-1", step_time=0.001)
    answer = await fleet.ask("j", TOKENS, search=halves)
    async with asyncio.timeout(20):
        await comparing.wait()
        fleet.bus.send_control(control_targets.ALL, Cancel(job="j"))
        await stopped.wait()
    await answer.read()
    assert isinstance(answer.terminal, Cancelled)
