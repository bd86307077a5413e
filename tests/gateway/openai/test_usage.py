"""`usage` of an answer."""

from __future__ import annotations

from gateway.openai.usage import CompletionUsage
from router.messages import Usage, UsagePart


def test_usage_is_the_workers_count() -> None:
    usage = CompletionUsage.of(Usage(prompt_tokens=10, completion_tokens=3, cached_tokens=8))
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (10, 3, 13)
    assert usage.prompt_tokens_details.cached_tokens == 8
    assert usage.completion_tokens_details.reasoning_tokens == 0


def test_parts_are_left_out_without_steps_and_so_are_their_zero_fields() -> None:
    usage = Usage(prompt_tokens=10, completion_tokens=3)
    assert "parts" not in CompletionUsage.of(usage).model_dump()
    call = UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 1}))
    reported = CompletionUsage.of(usage, [call]).model_dump()
    assert reported["parts"] == [
        {"model": "tool.weather", "prompt_tokens": 0, "completion_tokens": 0, "units": {"call": 1}}
    ]
    assert reported["total_tokens"] == 13
