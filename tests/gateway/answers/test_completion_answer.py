"""Echoed prompts, token ids, log probabilities and best-of selection, whole and streamed."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
import pytest

from gateway.openai.chat_completion_answers import ChatCompletion, ChatCompletionChunk
from gateway.openai.completions import Completion
from router.messages import Delta, Finished, Job, PromptEcho, PromptLogprobs, Started, TokenAlternative, TokenLogprob
from tests.fakes.scripted_worker import ScriptedWorker, logprob, usage
from tests.gateway.conftest import SetStage

PROMPT_IDS = [70, 71, 72]


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(part[6:]) for part in response.text.split("\n\n") if part.startswith("data: {")]


async def test_echo_with_logprobs_scores_the_prompt_alone(set_stage: SetStage) -> None:
    stage = await set_stage()
    body = (await stage.complete(echo=True, logprobs=1, max_tokens=0)).json()
    Completion.model_validate(body)
    assert stage.worker.jobs[0].sampling.prompt_logprobs == 1
    assert body["choices"] == [
        {
            "index": 0,
            "text": "70 71 72 ",
            "logprobs": {
                "tokens": ["70 ", "71 ", "72 "],
                "token_logprobs": [None, -0.5, -0.5],
                "top_logprobs": [None, {"71 ": -0.5}, {"72 ": -0.5}],
                "text_offset": [0, 3, 6],
            },
            "finish_reason": "length",
        }
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"echo": True},
        {"echo": True, "logprobs": 2},
        {"echo": True, "logprobs": 0, "max_tokens": 0},
        {"return_token_ids": True},
        {"return_token_ids": True, "echo": True, "logprobs": 1, "return_tokens_as_token_ids": True},
    ],
)
async def test_joined_chunks_are_the_whole(set_stage: SetStage, fields: dict[str, Any]) -> None:
    stage = await set_stage()
    whole = (await stage.complete(["a", "b"], n=2, **fields)).json()["choices"]
    joined: list[dict[str, Any]] = [{"index": index} for index in range(4)]
    for chunk in chunks(await stage.complete(["a", "b"], n=2, stream=True, **fields)):
        Completion.model_validate(chunk)
        (part,) = chunk["choices"]
        choice = joined[part["index"]]
        choice["text"] = choice.get("text", "") + part["text"]
        for name in ("token_ids", "prompt_token_ids"):
            if name in part:
                choice[name] = choice.get(name, []) + part[name]
        if part["logprobs"] is not None:
            lists = choice.setdefault("logprobs", {name: [] for name in part["logprobs"]})
            for name, values in part["logprobs"].items():
                lists[name] += values
        choice["finish_reason"] = part["finish_reason"]
    assert [{"logprobs": None} | choice for choice in joined] == whole


async def test_token_ids_beside_the_text(set_stage: SetStage) -> None:
    stage = await set_stage()
    (choice,) = (await stage.complete(return_token_ids=True, logprobs=1, return_tokens_as_token_ids=True)).json()[
        "choices"
    ]
    assert (choice["prompt_token_ids"], choice["token_ids"]) == (PROMPT_IDS, [0, 1, 2, 3, 4])
    assert choice["logprobs"]["tokens"][:2] == ["token_id:0", "token_id:1"]
    assert choice["logprobs"]["text_offset"][:3] == [0, 2, 4]
    chat = (await stage.chat(return_token_ids=True, logprobs=True, return_tokens_as_token_ids=True)).json()
    assert (chat["prompt_token_ids"], chat["choices"][0]["token_ids"]) == (PROMPT_IDS, [0, 1, 2, 3, 4])
    assert chat["choices"][0]["logprobs"]["content"][3]["token"] == "token_id:3"
    streamed = chunks(await stage.chat(return_token_ids=True, stream=True))
    for chunk in streamed:
        ChatCompletionChunk.model_validate(chunk)
    assert streamed[0]["prompt_token_ids"] == PROMPT_IDS
    assert [id_ for chunk in streamed for id_ in chunk["choices"][0].get("token_ids", [])] == [0, 1, 2, 3, 4]


async def test_prompt_logprobs_have_vllms_format(set_stage: SetStage) -> None:
    stage = await set_stage()
    expected = [
        None,
        {
            "71": {"logprob": -0.5, "rank": 1, "decoded_token": "71 "},
            "72": {"logprob": -1.5, "rank": 2, "decoded_token": "é"},
        },
        {
            "72": {"logprob": -0.5, "rank": 2, "decoded_token": "72 "},
            "73": {"logprob": -1.5, "rank": 2, "decoded_token": "é"},
        },
    ]
    chat = await stage.chat(prompt_logprobs=2)
    ChatCompletion.model_validate(chat.json(), strict=False)
    assert chat.json()["prompt_logprobs"] == expected
    assert (await stage.complete(prompt_logprobs=2)).json()["choices"][0]["prompt_logprobs"] == expected
    assert "prompt_logprobs" not in (await stage.chat()).json()


async def test_chat_echoes_the_assistants_last_message(set_stage: SetStage) -> None:
    stage = await set_stage()
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "So "}]
    whole = (await stage.chat(messages=messages, echo=True)).json()
    assert whole["choices"][0]["message"]["content"] == "So 0 1 2 3 4 "
    streamed = chunks(await stage.chat(messages=messages, echo=True, stream=True))
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in streamed) == "So 0 1 2 3 4 "
    assert (await stage.chat(echo=True)).json()["choices"][0]["message"]["content"] == "0 1 2 3 4 "


async def candidates(worker: ScriptedWorker, job: Job) -> None:
    """Choice c is "c", with log probabilities of which those of choice 2, then of choice 0 are the best a token."""
    attempt = uuid.uuid4().hex
    worker.begin(job, attempt)
    for choice, values in enumerate([[-0.5, -0.7], [-2.0], [-0.1, -0.2, -0.1], [-0.9]]):
        tokens = [TokenLogprob(TokenAlternative(7, "x", value), []) for value in values]
        ids = [7] * len(values)
        worker.send(
            job,
            Delta(
                job_id=job.id,
                attempt_id=attempt,
                choice=choice,
                start=0,
                token_ids=ids,
                text=str(choice),
                logprobs=tokens,
                finish_reason="stop",
            ),
        )
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, 2)))


async def test_the_best_candidates_are_returned_and_all_are_billed(set_stage: SetStage) -> None:
    stage = await set_stage(candidates)
    for response in (await stage.chat(best_of=4, n=2), await stage.complete(best_of=4, n=2)):
        body = response.json()
        texts = [choice.get("text") or choice["message"]["content"] for choice in body["choices"]]
        assert texts == ["2", "0"]
        assert [choice["index"] for choice in body["choices"]] == [0, 1]
        assert [choice["logprobs"] for choice in body["choices"]] == [None, None]
        assert body["usage"]["completion_tokens"] == 8
    assert stage.worker.jobs[0].n == 4


async def test_candidates_count_against_the_operators_limit(set_stage: SetStage) -> None:
    stage = await set_stage(max_choices=3)
    response = await stage.complete(best_of=4)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "best_of")


async def test_options_reach_the_worker(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.complete("def", suffix="end", bad_words=["x"], allowed_token_ids=[1], truncate_prompt_tokens=-1)
    job = stage.worker.jobs[0]
    assert (job.prompt.suffix, job.text.bad_words, job.text.truncate_prompt_tokens) == ("end", ["x"], -1)  # type: ignore[union-attr]
    assert job.sampling.allowed_token_ids == [1]
    assert not job.text.echo
    response = await stage.complete([1, 2], suffix="end")
    assert response.status_code == 400
    assert (await stage.complete("x" * 2000, truncate_prompt_tokens=4)).status_code == 200


async def test_a_prompt_that_two_attempts_report_counts_once(set_stage: SetStage) -> None:
    async def twice(worker: ScriptedWorker, job: Job) -> None:
        for attempt in (uuid.uuid4().hex, uuid.uuid4().hex):
            worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=2))
            worker.send(job, PromptEcho(job_id=job.id, attempt_id=attempt, token_ids=[1, 2], text="12", first_text="1"))
            worker.send(
                job, PromptLogprobs(job_id=job.id, attempt_id=attempt, start=1, logprobs=[logprob(2)], ranks=[1])
            )
        worker.send(job, Delta(job_id=job.id, attempt_id=attempt, start=0, token_ids=[], finish_reason="length"))
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, 0)))

    stage = await set_stage(twice)
    body = (await stage.complete(echo=True, logprobs=0, max_tokens=0)).json()
    assert body["choices"][0]["logprobs"]["tokens"] == ["1", "2 "]


@pytest.mark.parametrize("missing", ["echo", "logprobs"])
async def test_an_answer_before_the_prompt_is_complete_is_an_error(set_stage: SetStage, missing: str) -> None:
    async def hasty(worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.begin(job, attempt)
        if missing != "echo":
            worker.send(job, PromptEcho(job_id=job.id, attempt_id=attempt, token_ids=[1, 2], text="12", first_text="1"))
        worker.send(
            job, Delta(job_id=job.id, attempt_id=attempt, start=0, token_ids=[7], text="x", finish_reason="stop")
        )

    stage = await set_stage(hasty)
    assert (await stage.complete(echo=True, logprobs=0)).json()["error"]["code"] == "replies_lost"


async def test_a_gap_in_a_prompts_logprobs_is_an_error(set_stage: SetStage) -> None:
    async def gap(worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.begin(job, attempt)
        worker.send(job, PromptLogprobs(job_id=job.id, attempt_id=attempt, start=2, logprobs=[logprob(2)], ranks=[1]))

    stage = await set_stage(gap)
    assert (await stage.complete(prompt_logprobs=0)).json()["error"]["code"] == "replies_lost"


async def test_a_long_prompt_in_one_window_does_not_count_as_unread(set_stage: SetStage) -> None:
    async def burst(worker: ScriptedWorker, job: Job) -> None:
        attempt, length = uuid.uuid4().hex, 4000
        worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=length))
        worker.send(
            job, PromptEcho(job_id=job.id, attempt_id=attempt, token_ids=[1] * length, text="x", first_text="1")
        )
        told = [logprob(2)] * (length - 1)
        worker.send(
            job, PromptLogprobs(job_id=job.id, attempt_id=attempt, start=1, logprobs=told, ranks=[1] * len(told))
        )
        worker.send(job, Delta(job_id=job.id, attempt_id=attempt, start=0, token_ids=[], finish_reason="length"))
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, 0)))

    stage = await set_stage(burst, max_unread_bytes=65_536)
    body = (await stage.complete(prompt_logprobs=1, max_tokens=0)).json()
    assert len(body["choices"][0]["prompt_logprobs"]) == 4000
