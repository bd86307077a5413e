"""Tests of the started worker: a clear message when it can't start, and a request to the real model."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from inference_worker.__main__ import serve
from inference_worker.settings import WorkerSettings
from router.bus import Bus
from router.messages import (
    ChatPrompt,
    Delta,
    Finished,
    Job,
    Reply,
    SamplingParams,
    Search,
    SearchMethod,
    Step,
)
from router.transport.memory import MemoryBroker, MemoryTransport
from runtime.lifecycle import StartupError
from tests.fakes.tiny_scorers import save_answer_model, save_chat_model, save_pair_model
from tests.inference_worker.worker_bench import make_job

NAME = "smollm2-135m-instruct"


async def test_no_model_is_one_line() -> None:
    with pytest.raises(StartupError, match="nowhere"):
        await serve(WorkerSettings(model="/nowhere/model.gguf"), asyncio.Event())


@pytest.mark.model
async def test_no_broker_given_is_one_line(model_file: Path) -> None:
    with pytest.raises(StartupError, match="HEADRACE_AMQP_URL"):
        await serve(WorkerSettings(model=str(model_file)), asyncio.Event())


@pytest.mark.model
async def test_a_port_that_is_taken_is_one_line(model_file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = WorkerSettings(model=str(model_file), ops_port=taken.getsockname()[1])
        with pytest.raises(StartupError, match="metrics"):
            await serve(settings, asyncio.Event(), transports=[MemoryTransport(MemoryBroker(), "w")])


async def answer(settings: WorkerSettings, **fields: Any) -> tuple[str, list[Step]]:
    """The real model's answer to a job that comes through the queue, and its ended steps."""
    broker, stop = MemoryBroker(), asyncio.Event()
    bus = Bus(MemoryTransport(broker, "gateway-1"))
    await bus.start()
    await bus.declare_model(NAME)
    inbox = await bus.replies("gateway-1")
    prompt = ChatPrompt(messages=[{"role": "user", "content": "What is the capital of France?"}])
    job = make_job("j", prompt=prompt, **fields)
    await bus.publish_job(Job(**{**_fields(job), "model": NAME}), {})
    serving = asyncio.create_task(serve(settings, stop, transports=[MemoryTransport(broker, "worker-1")]))
    replies: list[Reply] = []
    async with asyncio.timeout(120):
        async for window in inbox:
            replies += window.replies
            if isinstance(replies[-1], Finished):
                break
    stop.set()
    await serving
    await bus.close()
    deltas = [reply for reply in replies if isinstance(reply, Delta)]
    steps = [delta.step for delta in deltas if delta.step is not None and delta.step.state.ended]
    return "".join(delta.text for delta in deltas), steps


@pytest.mark.model
async def test_a_real_answer_comes_through_the_queue(model_file: Path) -> None:
    settings = WorkerSettings(model=str(model_file), threads=1, max_num_seqs=2, max_model_len=256)
    text, steps = await answer(settings, sampling=SamplingParams(seed=1, temperature=0, max_tokens=16))
    assert "Paris" in text
    assert not steps


@pytest.mark.model
async def test_a_real_answer_is_searched_for(model_file: Path) -> None:
    settings = WorkerSettings(model=str(model_file), threads=1, max_num_seqs=4, max_model_len=256, search=True)
    search = Search(method=SearchMethod.SELF_CONSISTENCY, n=3, budget_tokens=100)
    text, steps = await answer(settings, search=search, sampling=SamplingParams(seed=1, temperature=0.3, max_tokens=16))
    paths = [path for step in steps for path in step.data["paths"]]
    assert len(paths) == search.n
    assert text == next(path["text"] for path in paths if path["path"] == steps[-1].data["chosen"])


def _fields(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in job.__struct_fields__ if name != "v"}


@pytest.mark.parametrize(
    ("verifier", "device", "refusal"),
    [("chat", "cpu", "not a reward model"), ("pairs", "cpu", "not a reward model"), ("answers", "cuda", "on a CPU")],
)
async def test_a_verifier_that_can_not_share_the_worker_is_one_line(
    verifier: str, device: str, refusal: str, tmp_path: Path
) -> None:
    save = {"chat": save_chat_model, "pairs": save_pair_model, "answers": save_answer_model}
    folders = tmp_path / "generator", tmp_path / verifier
    for folder in folders:
        folder.mkdir()
    save_chat_model(folders[0])
    save[verifier](folders[1])
    settings = WorkerSettings(model=str(folders[0]), verifier=str(folders[1]), device=device)
    transports = [MemoryTransport(MemoryBroker(), name) for name in ("w", "w-verifier")]
    with pytest.raises(StartupError, match=refusal):
        await serve(settings, asyncio.Event(), transports=transports)
