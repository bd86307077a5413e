"""Holds the scheduler's state of one choice: known tokens, how many of these are computed, and the KV blocks.

There is no prefill or decode state: a step computes some of the tokens that are known and not yet computed.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace

from inference_worker.reasoning import ReasoningProgress
from inference_worker.structured.matcher import Matcher
from router.messages import SamplingParams


@dataclass(slots=True, eq=False)
class Sequence:
    """Mutable state of one choice of a request in the scheduler.

    Attributes:
        token_ids: known tokens, prompt then generated. An `array`, so that numpy copies slices without a Python loop.
        prompt_length: number of prompt tokens in `token_ids`.
        max_tokens: most tokens to generate; the context length is already taken into account.
        stop_ids: token ids that end the choice.
        salt: the start of the prefix cache's hashes; sequences share blocks only if it is the same.
        computed: number of leading tokens whose keys and values are in the cache.
        block_table: cache blocks in order of position.
        block_hashes: chained hashes of the leading full blocks, as far as they were needed so far.
        published: number of leading blocks registered in the prefix cache.
        matcher: state in the request's grammar, if it has one; always in step with the answer in `token_ids`.
        reasoning: state of the reasoning before the answer, if the request limits it or has a grammar.
        siblings: choices of the same request that wait to fork from this one's prompt.
        bad_words: token sequences that must not be generated.
        tenant: id of the tenant, for fair scheduling.
        requester: id of the tenant's requester, for fair scheduling.
        flex: whether the request is of the service class `flex`, which gives way to the others.
        scored: number of leading prompt tokens whose log probabilities were reported; the first token has none.
    """

    request: str
    choice: int
    token_ids: array[int]
    prompt_length: int
    sampling: SamplingParams
    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    salt: str = ""
    computed: int = 0
    block_table: array[int] = field(default_factory=lambda: array("q"))
    block_hashes: list[bytes] = field(default_factory=list)
    published: int = 0
    matcher: Matcher | None = None
    reasoning: ReasoningProgress | None = None
    siblings: list[Sequence] = field(default_factory=list)
    bad_words: list[list[int]] = field(default_factory=list)
    scored: int = 1
    tenant: str = ""
    requester: str = ""
    flex: bool = False
    cached_tokens: int = 0
    """Number of prompt tokens found in the prefix cache on the first admission."""
    admitted: bool = False
    """Whether the prompt was looked up in the prefix cache and counted; stays true after a preemption."""
    first_event_sent: bool = False
    """Whether the first event of the choice was sent."""
    ended: bool = False
    """Whether the choice has finished, failed or been aborted."""

    @property
    def generated(self) -> int:
        """Number of tokens generated so far, earlier attempts' delivered tokens included."""
        return len(self.token_ids) - self.prompt_length

    @property
    def target(self) -> int:
        """Number of leading tokens that the next steps should compute: all known tokens.

        The prompt's last token is left out while siblings wait to fork, and if nothing is to be generated.
        """
        return self.prompt_length - 1 if self.siblings or not self.max_tokens else len(self.token_ids)

    @property
    def active_matcher(self) -> Matcher | None:
        """State in the grammar that limits the next token; `None` without a grammar and during the reasoning."""
        return None if self.reasoning is not None and self.reasoning.open else self.matcher

    @property
    def needs_prompt_scores(self) -> bool:
        """Whether the request wants log probabilities of prompt tokens that are not reported yet."""
        return self.sampling.prompt_logprobs is not None and self.scored < self.prompt_length

    def append(self, token: int) -> None:
        """Append one generated token, and advance the reasoning or the grammar's matcher if there is one.

        A token that the grammar does not allow sets the matcher's error; nothing is raised.
        """
        self.token_ids.append(token)
        reasons = self.reasoning is not None and self.reasoning.push(token)
        if self.matcher is not None and not reasons:
            self.matcher.accept([token])

    def generated_ids(self) -> array[int]:
        """Return a copy of the ids of the generated tokens, without the prompt."""
        return self.token_ids[self.prompt_length :]

    def with_tokens(self, tokens: tuple[int, ...]) -> Sequence:
        """Return a copy of this sequence with `tokens` appended, for reading, such as by the sampler.

        Its grammar matcher is shared with this sequence and does not advance.
        """
        reasoning = None if self.reasoning is None else self.reasoning.after(tokens)
        return replace(self, token_ids=self.token_ids + array("q", tokens), reasoning=reasoning)

    def inherit_admission(self, leader: Sequence) -> None:
        """Copy the admission state of `leader`, a choice with the same prompt: cached tokens and scored prompt tokens.

        Called when this choice is forked from its sibling `leader`.
        """
        self.admitted, self.cached_tokens, self.scored = leader.admitted, leader.cached_tokens, leader.scored
