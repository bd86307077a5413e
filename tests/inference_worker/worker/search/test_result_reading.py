"""The result of an answer as the model writes it: the question, and what its reply says."""

from __future__ import annotations

import pytest

from inference_worker.engine_protocol import EngineFinishReason, GenerationRequest, TokenEvent
from inference_worker.search.events import Read
from inference_worker.worker.search.result_reading import ResultReading, reading_job
from router.messages import ChatPrompt, Job, SamplingParams, TextOptions
from tests.fakes.counting_text import END, counting_text

JOB = Job(
    id="j",
    model="m",
    tenant="t",
    reply_to="g",
    created=0,
    deadline=1,
    prompt=ChatPrompt(messages=[{"role": "user", "content": "2 + 2?"}]),
    sampling=SamplingParams(seed=3, temperature=0.8, stop_token_ids=[5], max_tokens=500),
    text=TextOptions(stop=["x"]),
    delivered=[[1]],
)
TEXT = counting_text()


def read(reply: str, finish: EngineFinishReason = "stop") -> Read | None:
    """What is read from a reply of the model."""
    request = GenerationRequest(id="r", prompt_ids=[1], sampling=SamplingParams(seed=1, max_tokens=32))
    reading = ResultReading(7, request, TEXT.tokenizer)
    ids = [*TEXT.tokenizer.encode_inside(reply), *([END] if finish == "stop" else [])]
    for position, token in enumerate(ids):
        last = position == len(ids) - 1
        event = TokenEvent(
            request="r",
            choice=0,
            position=position,
            token_ids=[token],
            finish_reason=finish if last else None,
            stop_token=END if last and finish == "stop" else None,
        )
        assert reading.ended() is None
        assert reading.outstanding().delivered == [ids[:position]]
        assert reading.push(event) == last
    return reading.ended()


def test_the_question_follows_the_answer_and_is_not_sampled() -> None:
    job = reading_job(JOB, "It is 4.")
    assert isinstance(job.prompt, ChatPrompt)
    question, answer, asked, begun = job.prompt.messages
    assert (question["content"], answer) == ("2 + 2?", {"role": "assistant", "content": "It is 4."})
    assert asked["role"] == "user"
    assert "only the result" in asked["content"]
    assert (begun["role"], job.prompt.continue_final_message) == ("assistant", True)
    assert (job.sampling.temperature, job.sampling.max_tokens, job.sampling.stop_token_ids) == (0, 32, [])
    assert (job.text.stop, job.delivered) == ([], [])


async def test_the_grammar_of_the_reply_is_within_the_limits() -> None:
    request = GenerationRequest(id="r", prompt_ids=[1], sampling=SamplingParams(seed=1, max_tokens=32))
    grammar = ResultReading(7, request, TEXT.tokenizer).request.grammar
    assert grammar is not None
    await TEXT._check_grammar(grammar, JOB)


@pytest.mark.parametrize(
    ("reply", "result"),
    [("1/2", "0.5"), ("x = 4", "4"), ("Paris.", "paris"), ("None", None), ("none.", None), ("  ", None)],
)
def test_a_reply_is_the_result_in_normal_form(reply: str, result: str | None) -> None:
    found = read(reply)
    assert found is not None
    assert found.results == {7: result}
    assert found.tokens == len(TEXT.tokenizer.encode_inside(reply)) + 1


def test_a_reply_that_is_cut_off_is_no_result() -> None:
    found = read("The answer is", "length")
    assert found is not None
    assert found.results == {7: None}
