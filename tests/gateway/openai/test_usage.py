"""`usage` of an answer."""

from __future__ import annotations

from gateway.openai.usage import CompletionUsage
from router.messages import Usage


def test_usage_is_the_workers_count() -> None:
    usage = CompletionUsage.of(Usage(prompt_tokens=10, completion_tokens=3, cached_tokens=8))
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (10, 3, 13)
    assert usage.prompt_tokens_details.cached_tokens == 8
    assert usage.completion_tokens_details.reasoning_tokens == 0
