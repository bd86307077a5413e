"""`/v1/completions`: one job per prompt, with choices numbered across prompts."""

from __future__ import annotations

import json

from gateway.openai.completions import Completion
from router.messages import FailureCode, Job, TextPrompt, TokenPrompt
from tests.fakes.scripted_worker import ScriptedWorker, count, fail, prompt_text, say
from tests.gateway.conftest import SetStage


async def echo(worker: ScriptedWorker, job: Job) -> None:
    await say(prompt_text(job), "!")(worker, job)


async def test_prompts_and_token_ids_reach_the_worker_unchanged(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.complete([[1, 2], [3]])
    Completion.model_validate(response.json())
    assert [job.prompt for job in stage.worker.jobs] == [TokenPrompt([1, 2]), TokenPrompt([3])]
    await stage.complete("a <|im_start|>")
    assert stage.worker.jobs[-1].prompt == TextPrompt("a <|im_start|>")
    assert stage.worker.jobs[-1].sampling.max_tokens == 16


async def test_choices_are_numbered_across_prompts(set_stage: SetStage) -> None:
    async def both(worker: ScriptedWorker, job: Job) -> None:
        await (count if job.n > 1 else echo)(worker, job)

    stage = await set_stage(both)
    body = (await stage.complete(["a", "b", "c"])).json()
    assert [(choice["index"], choice["text"]) for choice in body["choices"]] == [(0, "a!"), (1, "b!"), (2, "c!")]
    assert body["id"] == stage.worker.jobs[0].id
    assert len({job.id for job in stage.worker.jobs}) == 3
    assert body["usage"]["prompt_tokens"] == 15
    assert body["usage"]["completion_tokens"] == 6
    body = (await stage.complete(["a", "b"], n=2)).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]


async def test_stream(set_stage: SetStage) -> None:
    stage = await set_stage(echo)
    response = await stage.complete(["a", "b"], stream=True, stream_options={"include_usage": True})
    *parts, done = [part for part in response.text.split("\n\n") if part.startswith("data: ")]
    assert done == "data: [DONE]"
    *chunks, last = [json.loads(part.removeprefix("data: ")) for part in parts]
    assert [chunk["choices"][0]["index"] for chunk in chunks[:2]] == [0, 1]
    texts = {0: "", 1: ""}
    finished = []
    for chunk in chunks:
        Completion.model_validate(chunk)
        choice = chunk["choices"][0]
        texts[choice["index"]] += choice["text"]
        finished += [choice["index"]] if choice["finish_reason"] else []
        assert chunk["usage"] is None
    assert texts == {0: "a!", 1: "b!"}
    assert sorted(finished) == [0, 1]
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 14


async def test_logprobs_with_offsets_whole_and_streamed(set_stage: SetStage) -> None:
    stage = await set_stage()
    whole = (await stage.complete(logprobs=2, max_tokens=2)).json()["choices"][0]["logprobs"]
    assert whole == {
        "tokens": ["0 ", "1 "],
        "token_logprobs": [-0.5, -0.5],
        "top_logprobs": [{"0 ": -0.5, "é": -1.5}, {"1 ": -0.5, "é": -1.5}],
        "text_offset": [0, 2],
    }
    response = await stage.complete(logprobs=1, max_tokens=2, stream=True)
    chunks = [json.loads(part[6:]) for part in response.text.split("\n\n") if part.startswith("data: {")]
    assert [chunk["choices"][0]["logprobs"]["text_offset"] for chunk in chunks] == [[0], [2]]


async def test_one_failed_prompt_fails_the_request_and_cancels_the_others(set_stage: SetStage) -> None:
    async def script(worker: ScriptedWorker, job: Job) -> None:
        if prompt_text(job) == "bad":
            await fail(FailureCode.INVALID_PROMPT, "Bad prompt.")(worker, job)
        else:
            await worker.cancel_of(job.id).wait()

    stage = await set_stage(script)
    response = await stage.complete(["good", "bad"])
    assert response.status_code == 400
    good = next(job for job in stage.worker.jobs if prompt_text(job) == "good")
    await stage.worker.cancel_of(good.id).wait()
