"""Which models can draw for a response, and the job of a response that must draw."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest, UnsupportedParameter
from gateway.jobs.image_generation import check_image_tool, with_image_call
from router.messages import ChatPrompt, OwnTool, OwnToolCall
from router.model_registry import ModelRegistry
from tests.contract.examples import WEATHER_TOOL, msgspec_replace
from tests.fakes.jobs import make_job
from tests.fakes.scripted_worker import status

IMAGE = OwnTool(name="image", description="Draws.", parameters={"type": "object"})


def test_only_an_assistant_with_an_image_model_can_draw() -> None:
    models = ModelRegistry(lambda: 0.0)
    models.observe(msgspec_replace(status("draws", "worker-a"), tools=[WEATHER_TOOL, IMAGE]))
    models.observe(msgspec_replace(status("answers", "worker-b"), tools=[WEATHER_TOOL]))
    draws, answers = models.find("draws"), models.find("answers")
    assert draws is not None
    assert answers is not None
    check_image_tool(draws, "tools[0].type")
    with pytest.raises(UnsupportedParameter, match="'answers' can't draw") as refused:
        check_image_tool(answers, "tools[0].type")
    assert (refused.value.param, refused.value.code) == ("tools[0].type", "unsupported_parameter")


def test_a_job_that_must_draw_is_a_call_of_the_image_tool() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a cat in a hat"}]
    prompt = with_image_call(make_job("job-1", prompt=ChatPrompt(messages=messages))).prompt
    call = OwnToolCall(name="image", arguments={"prompt": "a cat in a hat"})
    assert prompt == ChatPrompt(messages=messages, own_tool_call=call)


@pytest.mark.parametrize(
    "last",
    [
        {"role": "assistant", "content": "a cat"},
        {"role": "user", "content": " \n"},
        {"role": "user", "content": [{"type": "text", "text": "like this"}, {"type": "image"}]},
    ],
)
def test_only_a_text_of_the_user_is_drawn(last: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        with_image_call(make_job("job-1", prompt=ChatPrompt(messages=[last])))
    assert refused.value.param == "tool_choice"
