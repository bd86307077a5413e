"""Options about the prompt: truncation, fill-in-the-middle, echo, bad words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from inference_worker.engine_protocol import Candidate, PositionLogprobs, PromptScores
from inference_worker.errors import PromptRejected
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text import prompt_echo
from inference_worker.worker.text.chat_template import ChatTemplate
from inference_worker.worker.text.model_limits import ModelLimits
from inference_worker.worker.text.processor import TextProcessor
from router.messages import FailureCode, Job, Prompt, SamplingParams, TextOptions, TextPrompt, TokenPrompt
from tests.contract.examples import JOB
from tests.fakes.counting_text import BEGIN, FIRST, TEMPLATE, VOCAB_SIZE, counting_text, definition

LIMITS = ModelLimits(max_model_len=20, vocab_size=VOCAB_SIZE)


def job(prompt: Prompt, sampling: SamplingParams | None = None, **options: object) -> Job:
    text = TextOptions(**options)  # type: ignore[arg-type]
    return msgspec.structs.replace(JOB, prompt=prompt, sampling=sampling or SamplingParams(seed=1), text=text)


async def ids_of(job: Job, text: TextProcessor | None = None) -> list[int]:
    return (await (text or counting_text()).prepare(job, "r", LIMITS)).prompt_ids


async def test_truncation_keeps_the_last_tokens() -> None:
    tokens = TokenPrompt(list(range(50)))
    assert await ids_of(job(tokens, truncate_prompt_tokens=3)) == [47, 48, 49]
    assert await ids_of(job(TokenPrompt([1, 2]), truncate_prompt_tokens=3)) == [1, 2]
    assert len(await ids_of(job(tokens, truncate_prompt_tokens=-1))) == 19
    eight = SamplingParams(seed=1, max_tokens=8)
    assert len(await ids_of(job(tokens, eight, truncate_prompt_tokens=-1))) == 12
    with pytest.raises(PromptRejected) as caught:
        await ids_of(job(tokens, truncate_prompt_tokens=30))
    assert caught.value.code is FailureCode.CONTEXT_LENGTH_EXCEEDED


async def test_a_prompt_may_fill_the_context_if_nothing_is_to_be_generated() -> None:
    nothing = SamplingParams(seed=1, max_tokens=0)
    assert len(await ids_of(job(TokenPrompt([1] * 20), nothing))) == 20
    for tokens, sampling in ((21, nothing), (20, None)):
        with pytest.raises(PromptRejected):
            await ids_of(job(TokenPrompt([1] * tokens), sampling))


async def test_bad_words_alone_and_after_a_space() -> None:
    text = counting_text()
    request = await text.prepare(job(TextPrompt("x"), bad_words=["ab", " c"]), "r", LIMITS)
    spelled = ["".join(map(text.tokenizer.token_text, word)) for word in request.bad_words]
    assert spelled == ["ab", " ab", " c"]


async def test_allowed_tokens_must_be_in_the_vocabulary() -> None:
    with pytest.raises(PromptRejected) as caught:
        await ids_of(job(TextPrompt("x"), SamplingParams(seed=1, allowed_token_ids=[VOCAB_SIZE])))
    assert caught.value.param == "allowed_token_ids"


async def test_fill_in_the_middle_needs_the_model_s_tokens() -> None:
    with pytest.raises(PromptRejected) as caught:
        await ids_of(job(TextPrompt("ab", "yz")))
    assert caught.value.param == "suffix"
    described = definition()
    marks = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
    for id_, mark in enumerate(marks, VOCAB_SIZE):
        described["model"]["vocab"][mark] = id_
        described["added_tokens"].append({**described["added_tokens"][0], "content": mark, "id": id_})
    text = TextProcessor(Tokenizer(described), ChatTemplate(TEMPLATE, {}))
    able = ModelLimits(max_model_len=20, vocab_size=VOCAB_SIZE + 3)
    ids = (await text.prepare(job(TextPrompt("ab", "<fim_middle>")), "r", able)).prompt_ids
    assert [id_ for id_ in ids if id_ >= VOCAB_SIZE] == [VOCAB_SIZE, VOCAB_SIZE + 1, VOCAB_SIZE + 2]
    assert text.tokenizer.decode(ids, skip_controls=False) == "<fim_prefix>ab<fim_suffix><fim_middle><fim_middle>"


def test_a_prompt_is_echoed_as_sent_or_as_decoded() -> None:
    tokenizer = counting_text().tokenizer
    ids = [BEGIN, *tokenizer.encode("né")]

    def echo(job: Job) -> str:
        return prompt_echo.prompt_echo(tokenizer, job, "a", ids).text

    assert echo(job(TextPrompt("<|begin|>né"))) == "<|begin|>né"
    assert echo(job(TokenPrompt(ids))) == "né"
    assert echo(job(TokenPrompt(ids), skip_special_tokens=False)) == "<|begin|>né"
    assert echo(job(TextPrompt("long"), truncate_prompt_tokens=2)) == "né"


def test_log_probabilities_of_long_prompts_are_split_over_several_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_echo, "MAX_POSITIONS", 2)
    tokenizer = counting_text().tokenizer
    rows = [PositionLogprobs(Candidate(FIRST + i, -1.0), [Candidate(FIRST, -0.5)]) for i in range(5)]
    replies = list(prompt_echo.prompt_logprobs(tokenizer, JOB, "a", PromptScores(3, rows, [1, 2, 3, 4, 5])))
    assert [(part.start, len(part.logprobs), part.ranks) for part in replies] == [
        (3, 2, [1, 2]),
        (5, 2, [3, 4]),
        (7, 1, [5]),
    ]
    assert replies[1].logprobs[0].chosen.text == "2 "
    assert replies[1].logprobs[0].top[0].text == "0 "


async def test_the_operator_s_default_max_tokens_applies_if_the_client_sets_none() -> None:
    tokens = TokenPrompt([1] * 15)

    async def limit(**sampling: Any) -> int | None:
        request = job(tokens, SamplingParams(seed=1, **sampling))
        return (await counting_text().prepare(request, "r", LIMITS)).sampling.max_tokens

    assert await limit() is None
    assert await limit(default_max_tokens=3) == 3
    assert await limit(default_max_tokens=30) == 5
    assert await limit(max_tokens=4, default_max_tokens=3) == 4
