"""One choice of a request on its way through the engine: tokens known, tokens computed, and the blocks that hold them.

There is no prefill and no decode state: a sequence is due whatever it knows and has not computed. Does not
know who schedules it, tensors or text.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace

from inference_worker.structured.matcher import Matcher
from router.messages import SamplingParams


@dataclass(slots=True, eq=False)
class Sequence:
    """Mutable state of one choice.

    Attributes:
        token_ids: known tokens, prompt then generated. An `array`, so that numpy copies slices without a Python loop.
        prompt_length: how many of them are the prompt.
        max_tokens: generate at most this many (never `None`: the context has been counted in).
        stop_ids: tokens that end the choice.
        computed: how many leading tokens have their keys and values in the cache.
        block_table: cache blocks in order of position.
        block_hashes: chained hashes of the leading full blocks of known tokens, as far as they were needed.
        published: how many leading blocks the prefix cache has been told of.
        matcher: how far it has come in its grammar, if it has one; always as far as `token_ids`.
        siblings: choices of the same request that still wait to fork off this one's prompt.
        bad_words: token sequences that must not be generated.
        tenant: whom it is served to.
        scored: how many leading tokens of the prompt have had their log probabilities reported, if they are wanted; the
            first has none.
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
    siblings: list[Sequence] = field(default_factory=list)
    bad_words: list[list[int]] = field(default_factory=list)
    scored: int = 1
    tenant: str = ""
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache on the first admission."""
    admitted: bool = False
    """Has been looked up in the prefix cache and counted once."""
    announced: bool = False
    """Has had its first event."""
    ended: bool = False

    @property
    def generated(self) -> int:
        """Tokens generated so far, those delivered elsewhere included; the position of the next one."""
        return len(self.token_ids) - self.prompt_length

    @property
    def target(self) -> int:
        """Tokens to have computed for now: all known ones, but siblings fork before the prompt's last token.

        Nor is that one needed if nothing is to be generated.
        """
        return self.prompt_length - 1 if self.siblings or not self.max_tokens else len(self.token_ids)

    @property
    def unscored(self) -> bool:
        """Log probabilities of the prompt are still to be reported."""
        return self.sampling.prompt_logprobs is not None and self.scored < self.prompt_length

    def append(self, token: int) -> None:
        """Add a generated token. One that its grammar does not allow leaves an error in the matcher."""
        self.token_ids.append(token)
        if self.matcher is not None:
            self.matcher.accept([token])

    def generated_ids(self) -> array[int]:
        """The generated tokens."""
        return self.token_ids[self.prompt_length :]

    def ahead(self, tokens: tuple[int, ...]) -> Sequence:
        """What this would be after these tokens too, for reading only; the matcher stays where it is."""
        return replace(self, token_ids=self.token_ids + array("q", tokens))

    def inherit(self, leader: Sequence) -> None:
        """The prompt was looked up and counted for `leader` already."""
        self.admitted, self.cached_tokens, self.scored = leader.admitted, leader.cached_tokens, leader.scored
