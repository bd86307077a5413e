"""Tokens that rate limits count: of a direct answer, and of an assistant's answer and steps."""

from __future__ import annotations

from auth_billing.rate_limits.limiter import TokenUse
from gateway.jobs.token_use import token_use
from router.messages import ChatPrompt, Usage
from router.model_registry import ModelInfo, ModelRegistry
from tests.contract.examples import JOB, msgspec_replace
from tests.fakes.scripted_worker import PART_BOUNDS, status

ANSWER = Usage(prompt_tokens=10, completion_tokens=5)


def model(**reported: str) -> ModelInfo:
    registry = ModelRegistry(lambda: 0.0)
    registry.observe(msgspec_replace(status("m"), **reported))
    (known,) = registry.models()
    return known


def test_a_direct_answer_counts_at_its_model() -> None:
    assert token_use(model(), [JOB], ANSWER, ()) == TokenUse(15, {"m": 15})


def test_an_answer_of_an_assistant_counts_at_the_model_that_writes_it() -> None:
    assistant = model(answers_with="text", sees_with="vision")
    with_image = msgspec_replace(JOB, prompt=ChatPrompt(messages=[], images=[b"png"]))
    assert token_use(assistant, [JOB], ANSWER, ()) == TokenUse(15, {"m": 15, "text": 15})
    assert token_use(assistant, [with_image], ANSWER, ()) == TokenUse(15, {"m": 15, "vision": 15})
    assert token_use(assistant, [JOB], Usage(prompt_tokens=0), ()) == TokenUse(0, {"m": 0})


def test_steps_count_at_their_models_and_calls_of_tools_at_none() -> None:
    assistant = model(answers_with="router-1.5")
    assert token_use(assistant, [JOB], ANSWER, PART_BOUNDS) == TokenUse(135, {"m": 15, "router-1.5": 135})
