"""A job's prompt is assembled from replies, which another attempt may repeat."""

from __future__ import annotations

from gateway.jobs.prompt_echo import EchoedPrompt
from router.messages import PromptEcho, PromptLogprobs, TokenAlternative, TokenLogprob


def logprobs(start: int, *tokens: int) -> PromptLogprobs:
    positions = [TokenLogprob(TokenAlternative(token, "", -1.0), []) for token in tokens]
    return PromptLogprobs(job_id="j", attempt_id="a", start=start, logprobs=positions, ranks=[1] * len(tokens))


def test_repeated_positions_are_taken_once() -> None:
    prompt = EchoedPrompt()
    echo = PromptEcho(job_id="j", attempt_id="a", token_ids=[5, 6, 7, 8], text="text", first_text="t")
    for reply in (echo, logprobs(1, 6, 7), echo, logprobs(1, 6, 7, 8)):
        prompt.take(reply)
    assert (prompt.ids, prompt.text, prompt.first) == ([5, 6, 7, 8], "text", "t")
    assert [each.chosen.id for each in prompt.logprobs] == [6, 7, 8]
    assert len(prompt.ranks) == 3
