"""Searches through gateway, worker and verifier in one process: answers, steps, bills, and crashes within them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from router.bus import Bus
from router.messages import FailureCode, Job, ScorePrompt, Task
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import MODEL, PayingPlatform
from tests.fakes.scripted_worker import Script, ScriptedWorker, fail, never, score
from tests.fakes.search_workers import BranchingEngine

pytestmark = pytest.mark.store

VERIFIER = "prm"
MESSAGES: Any = [{"role": "user", "content": "Count."}]
STEPWISE: dict[str, Any] = {"n": 2, "expansions": 2, "step_tokens": 8, "separator": "3 ", "max_steps": 3}


class Searching:
    """A platform whose worker searches, with a scripted verifier."""

    def __init__(self, broker: MemoryBroker, platform: PayingPlatform, verifier: ScriptedWorker) -> None:
        self.broker, self.platform, self.verifier = broker, platform, verifier

    @property
    def engine(self) -> CountingEngine:
        return self.platform.engines[0]

    async def ask(self, max_tokens: int = 12, **search: Any) -> Any:
        if search["method"] != "self_consistency":
            search["verifier"] = VERIFIER
        return await self.platform.client().chat.completions.create(
            model=MODEL, messages=MESSAGES, seed=7, max_tokens=max_tokens, extra_body={"test_time_compute": search}
        )

    async def billed(self) -> dict[str, int]:
        """Check that the books agree; return the tokens that were billed in all, by model."""
        await self.platform.settled()
        assert await self.platform.differences() == []
        total: dict[str, int] = {}
        for job in await self.platform.documents("jobs"):
            final = job["final"]
            total[MODEL] = total.get(MODEL, 0) + final["completion_tokens"]
            for part in final.get("parts", []):
                tokens = part["prompt_tokens"] + part["completion_tokens"]
                total[part["model"]] = total.get(part["model"], 0) + tokens
        return total


@asynccontextmanager
async def searching(
    database_url: str,
    home: Path,
    script: Script = score,
    step_time: float = 0.001,
    engine: type[CountingEngine] = CountingEngine,
) -> AsyncIterator[Searching]:
    broker = MemoryBroker()
    async with PayingPlatform(lambda name: MemoryTransport(broker, name), database_url, home) as platform:
        bus = Bus(MemoryTransport(broker, "worker-prm"))
        await bus.start()
        verifier = ScriptedWorker(bus, VERIFIER, script, "worker-prm", task=Task.SCORE)
        async with verifier.running():
            await platform.start(gateways=1, workers=1, make_engine=lambda: engine(step_time=step_time))

            async def beat() -> None:
                while True:
                    bus.send_status(verifier.status)
                    await asyncio.sleep(0.2)

            beating = asyncio.create_task(beat())
            async with asyncio.timeout(20):
                while platform.gateways[0].models.find(VERIFIER) is None:
                    await asyncio.sleep(0.02)
            yield Searching(broker, platform, verifier)
            beating.cancel()
        await bus.close()


def steps_of(answer: Any) -> list[dict[str, Any]]:
    return [step for step in answer.choices[0].message.steps if step["state"] == "done"]


def parts_of(answer: Any) -> dict[str, dict[str, int]]:
    return {part["model"]: part for part in answer.usage.parts}


@pytest.mark.parametrize(
    ("search", "text", "finish"),
    [
        ({"method": "best_of_n", "n": 3}, "0 1 2 3 4 5 6 7 8 9 10 11 ", "length"),
        ({"method": "weighted_best_of_n", "n": 3}, "0 1 2 3 4 5 6 7 8 9 10 11 ", "length"),
        ({"method": "self_consistency", "n": 8}, "0 1 2 3 4 5 6 7 8 9 10 11 ", "length"),
        ({"method": "beam_search", **STEPWISE}, "0 1 2 3 0 1 2 3 0 1 2 3 ", "length"),
        ({"method": "dvts", **STEPWISE}, "0 1 2 3 0 1 2 3 0 1 2 3 ", "length"),
        ({"method": "lookahead", "lookahead_steps": 2, **STEPWISE}, "0 1 2 3 0 1 2 3 0 1 2 3 ", "length"),
    ],
)
async def test_each_method_answers_and_bills_every_token_once(
    database_url: str, tmp_path: Path, search: dict[str, Any], text: str, finish: str
) -> None:
    async with searching(database_url, tmp_path) as stage:
        answer = await stage.ask(**search)
        assert answer.choices[0].message.content == text
        assert answer.choices[0].finish_reason == finish
        steps = steps_of(answer)
        assert {(step["kind"], step["name"]) for step in steps} == {("search", search["method"])}
        assert [step["number"] for step in steps] == list(range(len(steps)))
        last, parts = steps[-1]["data"], parts_of(answer)
        assert answer.usage.completion_tokens == 12
        assert parts[MODEL]["completion_tokens"] + 12 == last["generated"] == sum(stage.engine.counted.values())
        assert parts.get(VERIFIER, {}).get("prompt_tokens", 0) == last["scored"] == 3 * scored(stage)
        assert await stage.billed() == {MODEL: last["generated"]} | (
            {VERIFIER: last["scored"]} if last["scored"] else {}
        )
        if search["method"] == "self_consistency":
            assert last["generated"] < 8 * 12, "the vote was settled early"


def scored(stage: Searching) -> int:
    """Candidates that the verifier got."""
    prompts = [job.prompt for job in stage.verifier.jobs]
    return sum(len(prompt.candidates) for prompt in prompts if isinstance(prompt, ScorePrompt))


@pytest.mark.parametrize("stream", [False, True])
async def test_vllms_beam_search_returns_the_best_answers_and_bills_every_token_once(
    database_url: str, tmp_path: Path, stream: bool
) -> None:
    async with searching(database_url, tmp_path, engine=BranchingEngine) as stage:
        fields: dict[str, Any] = {"n": 2, "max_tokens": 70, "temperature": 0}
        extra = {"use_beam_search": True, "best_of": 3, "early_stopping": True}
        ask = stage.platform.client().chat.completions.create
        if stream:
            options: Any = {"stream": True, "stream_options": {"include_usage": True}}
            texts, steps = ["", ""], list[Any]()
            async for chunk in await ask(model=MODEL, messages=MESSAGES, extra_body=extra, **fields, **options):
                for choice in chunk.choices:
                    texts[choice.index] += choice.delta.content or ""
                    steps += (choice.delta.model_extra or {}).get("steps", [])
                usage: Any = chunk.usage
            steps = [step for step in steps if step["state"] == "done"]
        else:
            answer = await ask(model=MODEL, messages=MESSAGES, extra_body=extra, **fields)
            texts, steps = [choice.message.content for choice in answer.choices], steps_of(answer)
            usage = answer.usage
        assert len(set(texts)) == 2
        assert all(texts)
        generated = steps[-1]["data"]["generated"]
        assert generated == sum(stage.engine.counted.values())
        [part] = usage.parts
        # The answers may share the one token of the first round.
        assert generated <= part["completion_tokens"] + usage.completion_tokens <= generated + 2
        assert await stage.billed() == {MODEL: part["completion_tokens"] + usage.completion_tokens}


async def test_the_verifier_gets_the_steps_of_each_path_after_the_conversation(
    database_url: str, tmp_path: Path
) -> None:
    async with searching(database_url, tmp_path) as stage:
        answer = await stage.ask(method="beam_search", **STEPWISE)
        first, second, third = stage.verifier.jobs
        assert isinstance(second.prompt, ScorePrompt)
        assert second.prompt.contexts == [MESSAGES]
        assert second.prompt.candidates == [["0 1 2 ", "0 1 2 "]] * 4, "without separators"
        assert (first.parent, first.depth, first.tenant) == (answer.id, 1, second.tenant)
        assert [job.id for job in (first, second, third)] == [f"{answer.id}-v{number}" for number in range(3)]


async def test_a_crash_of_the_engine_costs_no_step_and_changes_nothing(database_url: str, tmp_path: Path) -> None:
    async with searching(database_url, tmp_path, step_time=0.02) as stage:
        undisturbed = await stage.ask(method="beam_search", **STEPWISE)
        asking = asyncio.create_task(stage.ask(method="beam_search", **STEPWISE))
        async with asyncio.timeout(20):
            while len(stage.verifier.jobs) < 4 or not stage.engine.requests:
                await asyncio.sleep(0.005)
        stage.engine.die()
        disturbed = await asyncio.wait_for(asking, 30)
        assert disturbed.choices[0].message.content == undisturbed.choices[0].message.content
        assert steps_of(disturbed) == steps_of(undisturbed)
        assert disturbed.usage == undisturbed.usage
        assert stage.engine.starts == 2
        await stage.billed()


async def test_a_client_that_leaves_stops_the_engine_and_the_verifier(database_url: str, tmp_path: Path) -> None:
    async with searching(database_url, tmp_path, never) as stage:
        for method in ("best_of_n", "beam_search"):
            search: dict[str, Any] = {"method": method, **(STEPWISE if method == "beam_search" else {"n": 3})}
            asking = asyncio.create_task(stage.ask(**search))
            waiting = len(stage.verifier.jobs)
            async with asyncio.timeout(20):
                while len(stage.verifier.jobs) == waiting:
                    await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.wait_for(stage.verifier.cancel_of(stage.verifier.jobs[-1].id).wait(), 20)
        assert stage.engine.requests == []
        assert await stage.billed() == {MODEL: 0}


async def test_a_client_that_leaves_pays_for_the_longest_path_that_it_was_shown(
    database_url: str, tmp_path: Path
) -> None:
    async def score_first(worker: ScriptedWorker, job: Job) -> None:
        await (score if len(worker.jobs) == 1 else never)(worker, job)

    search = {"method": "beam_search", **STEPWISE, "n": 1, "verifier": VERIFIER}
    async with searching(database_url, tmp_path, score_first) as stage:
        stream = await stage.platform.client().chat.completions.create(
            model=MODEL, messages=MESSAGES, max_tokens=12, extra_body={"test_time_compute": search}, stream=True
        )
        async for chunk in stream:
            [step] = (chunk.choices[0].delta.model_extra or {}).get("steps") or [{"state": "", "data": {}}]
            if step["state"] == "done":
                break
        shown = [path["text"] for path in step["data"]["paths"] if path["alive"]]
        assert shown == ["0 1 2 3 "]
        await stream.close()
        assert await stage.billed() == {MODEL: step["data"]["generated"], VERIFIER: step["data"]["scored"]}
        [job] = await stage.platform.documents("jobs")
        assert (job["final"]["prompt_tokens"] > 0, job["final"]["completion_tokens"]) == (True, 4)


async def test_a_failed_verifier_fails_the_request_and_costs_nothing(database_url: str, tmp_path: Path) -> None:
    refuse = fail(FailureCode.INVALID_PROMPT, "No such role.")
    async with searching(database_url, tmp_path, refuse) as stage:
        with pytest.raises(openai.BadRequestError, match="No such role"):
            await stage.ask(method="best_of_n", n=2)
        assert stage.engine.requests == []
        assert (await stage.billed()).get(VERIFIER, 0) == 0


async def test_paths_that_are_too_long_for_the_verifier_are_billed_and_chosen_without_scores(
    database_url: str, tmp_path: Path
) -> None:
    refuse = fail(FailureCode.CONTEXT_LENGTH_EXCEEDED, "Too long.")
    async with searching(database_url, tmp_path, refuse) as stage:
        answer = await stage.ask(method="best_of_n", n=3)
        assert answer.choices[0].message.content == "0 1 2 3 4 5 6 7 8 9 10 11 "
        [step] = steps_of(answer)
        assert all("score" not in path for path in step["data"]["paths"])
        assert await stage.billed() == {MODEL: 3 * 12}


async def test_a_pattern_without_bounds_is_refused_by_its_field(database_url: str, tmp_path: Path) -> None:
    async with searching(database_url, tmp_path) as stage:
        with pytest.raises(openai.BadRequestError) as refused:
            await stage.ask(method="self_consistency", n=2, extract={"regex": "(?=a)b"})
        assert refused.value.param == "test_time_compute.extract.regex"
        assert stage.engine.submitted == []
