"""Tracks the output of one job that its publisher has accepted: the extent of each choice, and the prompt's echo.

Token ids are kept, 4 bytes each and never more than a context holds, because a new attempt continues after them. Of a
text that a provider sent without ids the text is kept: a worker tokenises it and continues. Reasoning and tool calls
of a provider can't be continued, since their markup is not known. Prompt echoes and scores are the same in every
attempt, so only their extent counts. Embedding vectors, scores and images have no order and do not depend on one
another, so any attempt may supply the missing ones; none of them is kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from router.messages import (
    Delta,
    Drawn,
    Embedded,
    EmbeddingPrompt,
    Finished,
    ImagePrompt,
    Job,
    PromptEcho,
    PromptLogprobs,
    Reply,
    Scored,
    ScorePrompt,
    Step,
    TokenisationPrompt,
    Tokenised,
)
from router.producer.errors import RepliesLost

PROGRESS = (Delta, Embedded, Drawn, Scored, Tokenised, PromptLogprobs)
"""Replies that extend the output."""
MAX_TEXT_BYTES = 1024 * 1024
"""Most bytes of text without token ids that are kept of a choice; a longer one can't be continued."""


class Acceptance(Enum):
    """Result of `accept`: whether a reply extended the output that was accepted before."""

    NEW = auto()
    DUPLICATE = auto()
    """The output was accepted before, or follows the end of its choice."""
    GAP = auto()
    """Output before it is missing and has to be sent again."""


class ResumePoint(NamedTuple):
    """The accepted output that a new attempt continues; the fields are those of `Job`."""

    delivered: list[list[int]]
    ended: list[int]
    embedded: list[int]
    cached_tokens: int
    texts: list[str]
    text_positions: list[int]
    steps: list[Step]


class _PromptOutput:
    """The prompt as far as the client requested it: its text (`echo`), its log probabilities (`scores`), or neither."""

    def __init__(self, *, echo: bool, scores: bool) -> None:
        self._echo = echo
        self._scores = scores
        self._tokens: int | None = None
        self._scored = 1
        """Leading tokens whose log probability is known; the first token has none."""

    @property
    def complete(self) -> bool:
        """Whether all parts of the prompt that the client requested have arrived."""
        echoed = self._tokens is not None or not self._echo
        return echoed and (not self._scores or self._scored >= (self._tokens or 1))

    def accept(self, reply: PromptEcho | PromptLogprobs) -> Acceptance:
        """Add a reply with parts of the prompt, which may overlap with earlier replies; return whether it added any."""
        if isinstance(reply, PromptEcho):
            known, self._tokens = self._tokens is not None, len(reply.token_ids)
            return Acceptance.DUPLICATE if known else Acceptance.NEW
        if reply.start > self._scored:
            return Acceptance.GAP
        before, self._scored = self._scored, max(self._scored, reply.start + len(reply.logprobs))
        return Acceptance.NEW if self._scored > before else Acceptance.DUPLICATE


class _ChoiceOutput:
    """One choice: the ids of its tokens as far as they are known, and its number of positions."""

    def __init__(self) -> None:
        self.token_ids = array("i")
        """Ids of the positions after the text without ids."""
        self.text = bytearray()
        """Text of the leading positions, if it came without ids."""
        self.text_positions = 0
        self.resumable = True
        self.positions = 0
        self.finished = False
        self.steps: list[Step] = []
        """Ended steps, which take the first positions."""

    def accept(self, delta: Delta) -> Acceptance:
        """Add the delta if it continues the choice; return whether it did, repeated earlier output, or left a gap."""
        if self.finished or delta.start < self.positions:
            return Acceptance.DUPLICATE
        if delta.start > self.positions:
            return Acceptance.GAP
        if delta.step is not None:
            self._accept_step(delta, delta.step)
        elif delta.token_ids:
            self.token_ids.extend(delta.token_ids)
        elif delta.positions:
            self._accept_text(delta)
        self.positions += delta.positions
        self.finished = delta.finish_reason is not None
        return Acceptance.NEW

    def _accept_step(self, delta: Delta, step: Step) -> None:
        ended = step.state.ended
        answers = delta.token_ids or delta.text or delta.reasoning or delta.tool_calls or delta.finish_reason
        if answers or delta.positions != int(ended) or self.positions != len(self.steps):
            raise RepliesLost
        if ended:
            self.steps.append(step)

    def continue_after(self, steps: Sequence[Step], text: str, text_positions: int, token_ids: Sequence[int]) -> None:
        """Start the choice with what was delivered earlier: steps, a text of `text_positions`, then `token_ids`."""
        self.steps += steps
        self.text += text.encode()
        self.token_ids.extend(token_ids)
        self.text_positions = text_positions
        self.positions = len(steps) + text_positions + len(token_ids)

    def _accept_text(self, delta: Delta) -> None:
        opaque = bool(delta.reasoning or delta.tool_calls or self.token_ids)
        self.text_positions += delta.positions
        self.text += delta.text.encode()
        if opaque or not self.resumable or len(self.text) > MAX_TEXT_BYTES:
            self.resumable, self.text = False, bytearray()


class _UnorderedOutput:
    """The vectors, scores or images of a job, which arrive in any order: which of them are missing."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.missing = set(range(count))

    @property
    def accepted(self) -> list[int]:
        """Indexes of the vectors, scores or images that have arrived, in ascending order."""
        return sorted(set(range(self.count)) - self.missing)

    def accept(self, indexes: range) -> Acceptance:
        """Record the arrival of the items with these indexes; return whether they were new."""
        if indexes.stop > self.count:
            raise RepliesLost
        new = not self.missing.isdisjoint(indexes)
        self.missing.difference_update(indexes)
        return Acceptance.NEW if new else Acceptance.DUPLICATE


class JobOutput:
    """The tokens, vectors, scores or images of one job that its publisher has accepted.

    Only the recovery of the job changes them.
    """

    def __init__(
        self, choices: int, *, inputs: int = 0, images: int = 0, echo: bool = False, scores: bool = False
    ) -> None:
        """`choices`, `inputs`, `images`: numbers expected; `echo`, `scores`: prompt text, log probabilities too."""
        self._choices = [_ChoiceOutput() for _ in range(choices)]
        self._prompt = _PromptOutput(echo=echo, scores=scores)
        self._inputs = _UnorderedOutput(inputs)
        self._images = _UnorderedOutput(images)
        self._cached_tokens = 0
        self._given_extent, self._given_state = self._size, self._state

    @classmethod
    def of(cls, job: Job) -> JobOutput:
        """Create the tracker of a new job's output, starting with the output that the job says was delivered before."""
        output = cls._empty(job)
        if job.begun:
            output._continue(job)
        return output

    @classmethod
    def _empty(cls, job: Job) -> JobOutput:
        if isinstance(job.prompt, EmbeddingPrompt):
            return cls(0, inputs=len(job.prompt.inputs))
        if isinstance(job.prompt, ScorePrompt):
            return cls(0, inputs=len(job.prompt.candidates))
        if isinstance(job.prompt, TokenisationPrompt):
            return cls(0, inputs=1)
        if isinstance(job.prompt, ImagePrompt):
            return cls(0, images=job.n)
        return cls(job.n, echo=job.text.echo, scores=job.sampling.prompt_logprobs is not None)

    def _continue(self, job: Job) -> None:
        """Add what was delivered before the job was opened: its replies follow that, and do not repeat the prompt."""
        self._prompt = _PromptOutput(echo=False, scores=False)
        for number, choice in enumerate(self._choices):
            text = job.texts[number] if number < len(job.texts) else ""
            text_positions = job.text_positions[number] if number < len(job.text_positions) else 0
            choice.continue_after([] if number else job.steps, text, text_positions, job.delivered_ids(number))
            choice.finished = number in job.ended
        self._inputs.missing.difference_update(job.embedded)
        if self._images.count:
            self._images.missing.difference_update(job.ended)
        self._cached_tokens = job.cached_tokens
        self._given_extent, self._given_state = self._size, self._state

    def accept(self, reply: Reply) -> Acceptance:
        """Add the output in one reply; return whether it was new, and if not, why it was not added.

        Raises:
            RepliesLost: the reply is about a choice, an input or an image that the job does not have, or it is a step
                of another choice than the first, after the first token, or with a part of the answer.
        """
        match reply:
            case Delta():
                return self._accept_delta(reply)
            case Embedded() | Scored() | Tokenised():
                return self._inputs.accept(reply.indexes)
            case Drawn():
                return self._images.accept(reply.indexes)
            case PromptEcho() | PromptLogprobs():
                return self._prompt.accept(reply)
            case Finished() if not self._complete:
                return Acceptance.GAP
        return Acceptance.NEW

    @property
    def _complete(self) -> bool:
        missing = self._inputs.missing or self._images.missing
        return not missing and all(choice.finished for choice in self._choices)

    @property
    def begun(self) -> bool:
        """Whether any step, token or end of a choice was accepted, so that a new attempt must continue the answer."""
        return self.tokens > 0 or any(choice.finished for choice in self._choices)

    @property
    def grown(self) -> bool:
        """Whether a choice has grown or ended since the job was opened, so that only a resumed attempt may follow."""
        return self._state != self._given_state

    @property
    def tokens(self) -> int:
        """Number of tokens and steps accepted of the job's answer, over all choices."""
        return sum(choice.positions for choice in self._choices)

    @property
    def extent(self) -> int:
        """Number of tokens, vectors, scores and images accepted since the job was opened.

        A job whose attempts add nothing to this number is republished only a few times.
        """
        return self._size - self._given_extent

    @property
    def _size(self) -> int:
        return self.tokens + len(self._inputs.accepted) + len(self._images.accepted)

    @property
    def _state(self) -> list[tuple[int, bool]]:
        return [(choice.positions, choice.finished) for choice in self._choices]

    @property
    def positions(self) -> list[int]:
        """Number of tokens accepted of each choice, by choice index; an accepted step or image counts as one."""
        images = [int(index not in self._images.missing) for index in range(self._images.count)]
        return images or [choice.positions for choice in self._choices]

    @property
    def resumable(self) -> bool:
        """Whether another worker can continue the output: all its token ids, or its whole text, are known."""
        return all(choice.resumable for choice in self._choices)

    @property
    def resume_point(self) -> ResumePoint:
        """Accepted output that a new attempt needs to continue the answer: token ids, text and steps by choice."""
        untokenised = any(choice.text_positions for choice in self._choices)
        return ResumePoint(
            [choice.token_ids.tolist() for choice in self._choices] if self.tokens else [],
            self._images.accepted or [number for number, choice in enumerate(self._choices) if choice.finished],
            self._inputs.accepted,
            self._cached_tokens,
            [choice.text.decode() for choice in self._choices] if untokenised else [],
            [choice.text_positions for choice in self._choices] if untokenised else [],
            [step for choice in self._choices for step in choice.steps],
        )

    def _accept_delta(self, delta: Delta) -> Acceptance:
        if delta.choice >= len(self._choices) or (delta.step is not None and delta.choice):
            raise RepliesLost
        if not self._prompt.complete:
            return Acceptance.GAP
        acceptance = self._choices[delta.choice].accept(delta)
        if acceptance is Acceptance.NEW:
            self._cached_tokens = max(self._cached_tokens, delta.cached_tokens)
        return acceptance
