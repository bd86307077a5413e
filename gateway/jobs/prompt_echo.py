"""Collects a job's prompt as its worker reports it (token ids, text, log probabilities), for the client's answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from router.messages import PromptEcho, PromptLogprobs, TokenLogprob


@dataclass
class EchoedPrompt:
    """Token ids and text of a prompt; complete before the job's first token.

    `logprobs` and `ranks` belong to the tokens after the first one, whose text is `first`.
    """

    ids: list[int] = field(default_factory=list)
    text: str = ""
    first: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)

    def take(self, reply: PromptEcho | PromptLogprobs) -> None:
        """Add one reply about the prompt: its text, or log probabilities except those that an earlier attempt sent."""
        if isinstance(reply, PromptEcho):
            self.ids, self.text, self.first = reply.token_ids, reply.text, reply.first_text
        else:
            known = 1 + len(self.logprobs) - reply.start
            self.logprobs.extend(reply.logprobs[known:])
            self.ranks.extend(reply.ranks[known:])
