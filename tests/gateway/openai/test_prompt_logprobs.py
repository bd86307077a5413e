"""Log probabilities of a prompt in vLLM's format."""

from __future__ import annotations

from pydantic import TypeAdapter

from gateway.answers.answer_parts import LOWEST_LOGPROB, prompt_logprobs
from gateway.jobs.prompt_echo import EchoedPrompt
from gateway.openai.prompt_logprobs import PromptLogprobs
from router.messages import TokenAlternative, TokenLogprob


def test_tokens_are_listed_by_id_with_their_ranks() -> None:
    chosen, best = TokenAlternative(7, "b", float("-inf")), TokenAlternative(8, "c", -0.5)
    prompt = EchoedPrompt(ids=[1, 7], text="ab", first="a", logprobs=[TokenLogprob(chosen, [best, chosen])], ranks=[9])
    positions = TypeAdapter(PromptLogprobs).validate_python(prompt_logprobs(prompt, 1))
    assert positions[0] is None
    assert positions[1] is not None
    assert {token: (each.rank, each.logprob, each.decoded_token) for token, each in positions[1].items()} == {
        8: (1, -0.5, "c"),
        7: (9, LOWEST_LOGPROB, "b"),
    }
