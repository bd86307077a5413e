"""The assistant's heartbeats and status: what it serves, in which state, and the most that its steps use."""

from __future__ import annotations

from router.messages import Task, WorkerState, WorkerStatus
from router.model_registry import ModelInfo
from tests.assistant.conftest import Platform
from tests.fakes.assistant_process import ASSISTANT
from tests.fakes.fleet import until


async def test_an_assistant_is_ready_when_its_answering_model_is(platform: Platform) -> None:
    process = await platform.assistant(platform.talents())
    heard: list[WorkerStatus] = []
    statuses = await platform.fleet.bus.statuses()
    platform.run(_listen(statuses, heard))
    await until(lambda: any(each.model == ASSISTANT for each in heard))
    assert {each.state for each in heard} == {WorkerState.STARTING}
    assert process.worker.status()["answers_with"] is None
    await platform.fleet.start("worker-1")
    await until(lambda: any(each.model == ASSISTANT and each.state is WorkerState.READY for each in heard))
    ready = next(each for each in heard if each.model == ASSISTANT and each.state is WorkerState.READY)
    counting: ModelInfo | None = process.abilities.answers_with
    assert counting is not None
    assert (ready.max_model_len, ready.task, ready.device) == (counting.longest_model_len, Task.GENERATE, "assistant")
    assert ready.parts == process.abilities.most_parts()
    assert [each.model for each in ready.parts] == ["tool.math", "tool.weather", "tool.web_page"]
    assert process.worker.status()["answers_with"] == ready.answers_with == "counting"
    assert ready.sees_with == ""


async def _listen(statuses: object, into: list[WorkerStatus]) -> None:
    async for each in statuses:  # type: ignore[attr-defined]
        into.append(each)  # noqa: PERF401 - as it comes
