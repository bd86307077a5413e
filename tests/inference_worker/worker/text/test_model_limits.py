"""Limits of a model: prompts and ids beyond them are refused, in OpenAI's words."""

from __future__ import annotations

import msgspec
import pytest

from inference_worker.errors import PromptRejected
from inference_worker.worker.text.model_limits import ModelLimits, check_prompt, check_token_options
from router.messages import FailureCode, SamplingParams, TextPrompt
from tests.contract.examples import JOB

LIMITS = ModelLimits(max_model_len=8, vocab_size=100)


@pytest.mark.parametrize(("size", "max_tokens"), [(8, 0), (7, None), (3, 5)])
def test_prompt_and_answer_fill_the_context(size: int, max_tokens: int | None) -> None:
    job = msgspec.structs.replace(JOB, sampling=SamplingParams(seed=1, max_tokens=max_tokens))
    check_prompt([99] * size, job, LIMITS)
    with pytest.raises(PromptRejected, match="maximum context length is 8 tokens") as refused:
        check_prompt([99] * (size + 1), job, LIMITS)
    assert refused.value.code is FailureCode.CONTEXT_LENGTH_EXCEEDED


@pytest.mark.parametrize("ids", [[], [100], [-1]])
def test_an_empty_prompt_and_unknown_ids_are_refused(ids: list[int]) -> None:
    with pytest.raises(PromptRejected) as refused:
        check_prompt(ids, msgspec.structs.replace(JOB, prompt=TextPrompt("")), LIMITS)
    assert refused.value.param == "prompt"


@pytest.mark.parametrize(
    ("sampling", "param"),
    [
        (SamplingParams(seed=2**63), "seed"),
        (SamplingParams(seed=1, stop_token_ids=[100]), "stop_token_ids"),
        (SamplingParams(seed=1, allowed_token_ids=[-1]), "allowed_token_ids"),
    ],
)
def test_refused_options_are_named(sampling: SamplingParams, param: str) -> None:
    with pytest.raises(PromptRejected) as refused:
        check_token_options(sampling, LIMITS)
    assert refused.value.param == param
