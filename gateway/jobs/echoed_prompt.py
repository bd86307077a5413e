"""What a worker has told of a job's prompt, for clients that want it back."""

from __future__ import annotations

from dataclasses import dataclass, field

from router.messages import PromptEcho, PromptLogprobs, TokenLogprob


@dataclass
class EchoedPrompt:
    """As far as it has come; complete before the job's first token.

    `logprobs` and `ranks` are those of the tokens after the first one, `first`.
    """

    ids: list[int] = field(default_factory=list)
    text: str = ""
    first: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)

    def take(self, reply: PromptEcho | PromptLogprobs) -> None:
        """Add what the next reply tells; another attempt may repeat a part of it."""
        if isinstance(reply, PromptEcho):
            self.ids, self.text, self.first = reply.token_ids, reply.text, reply.first_text
        else:
            known = 1 + len(self.logprobs) - reply.start
            self.logprobs.extend(reply.logprobs[known:])
            self.ranks.extend(reply.ranks[known:])
