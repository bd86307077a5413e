"""What has been accepted of one job: which attempt speaks for it, and how far each choice is.

Three fences. The attempt id: only one attempt speaks, and a zombie is not heard; the reaper, who closes jobs that are
dead in their queue, always is. The position: a token that is already here is dropped, and one that follows a gap too,
until what is missing has been said again. The end: nothing follows a choice's last token. This module does no I/O and
does not know what becomes of what it admits, nor when a new attempt is called for (`failover.py`).

Token ids are kept, 4 bytes each and never more than a context holds, because the next attempt goes on after them.
Text without ids can't be continued. What is told of the prompt is the same in every attempt, so there only positions
count. Vectors of embeddings have no order and do not depend on one another, so there any attempt may bring what is
missing.
"""

from __future__ import annotations

import time
from array import array
from enum import Enum, auto
from typing import NamedTuple

from gateway.errors import RepliesLost
from router.messages import (
    REAPER,
    Cancelled,
    Delta,
    Embedded,
    EmbeddingPrompt,
    Failed,
    Finished,
    Job,
    PromptEcho,
    PromptLogprobs,
    Reply,
    Started,
)


class Admitted(Enum):
    """What becomes of a reply."""

    NEWS = auto()
    KNOWN = auto()
    """It is here already, or nothing may follow: drop it."""
    FENCED = auto()
    """Drop it: its attempt does not speak for the job, and works for nobody."""
    GAP = auto()
    """Drop it: something before it is missing, and has to be said again."""


class Delivered(NamedTuple):
    """What a new attempt goes on after; the fields as in `Job`."""

    delivered: list[list[int]]
    ended: list[int]
    embedded: list[int]
    cached_tokens: int


class _PromptProgress:
    """What has been told of the prompt; it is the same in every attempt. `echo`, `scores`: what is wanted of it."""

    def __init__(self, *, echo: bool, scores: bool) -> None:
        self._echo = echo
        self._scores = scores
        self._tokens: int | None = None
        self._scored = 1
        """Leading tokens that are known with their log probabilities; the first has none."""

    @property
    def complete(self) -> bool:
        """Whether all that is wanted is here."""
        told = self._tokens is not None or not self._echo
        return told and (not self._scores or self._scored >= (self._tokens or 1))

    def admit(self, reply: PromptEcho | PromptLogprobs) -> Admitted:
        """Whether something of it is news; attempts cut the prompt differently, so it may begin with what is known."""
        if isinstance(reply, PromptEcho):
            known, self._tokens = self._tokens is not None, len(reply.token_ids)
            return Admitted.KNOWN if known else Admitted.NEWS
        if reply.start > self._scored:
            return Admitted.GAP
        before, self._scored = self._scored, max(self._scored, reply.start + len(reply.logprobs))
        return Admitted.NEWS if self._scored > before else Admitted.KNOWN


class _Choice:
    """One choice: the ids of its tokens, as far as they are known, and how many positions it has."""

    def __init__(self) -> None:
        self.ids = array("i")
        self.positions = 0
        self.finished = False

    def admit(self, delta: Delta) -> Admitted:
        if self.finished or delta.start < self.positions:
            return Admitted.KNOWN
        if delta.start > self.positions:
            return Admitted.GAP
        self.ids.extend(delta.token_ids)
        self.positions += delta.positions
        self.finished = delta.finish_reason is not None
        return Admitted.NEWS


class JobProgress:
    """One job as its gateway sees it."""

    def __init__(self, choices: int, *, inputs: int = 0, echo: bool = False, scores: bool = False) -> None:
        """`choices` will have tokens, `inputs` will have vectors; `echo`, `scores`: as of the prompt is wanted."""
        self.worker: str | None = None
        """Who runs it now, as far as known."""
        self.attempt: str | None = None
        """The one that speaks."""
        self.let_go = False
        """Whether its worker has said that it handed the job over."""
        self.bound = self.heard = time.monotonic()
        """When the attempt began to speak, and was last heard."""
        self.crashes = 0
        """How many attempts in a row went without a word, none but the first having got further."""
        self.queued_at = float("inf")
        """When the broker had confirmed that it has the job."""
        self.copy = 0
        """Which copy of the job the attempt was given."""
        self.newest_copy = 0
        """The last one that was queued for sure."""
        self.copied_at = float("-inf")
        self.copied_in_vain = 0
        """How many copies in a row were queued without getting further in between."""
        self._copies = 0
        self._extent_at_copy = 0
        self._moved = False
        self.ended = False
        self._superseded: set[str] = set()
        self._choices = [_Choice() for _ in range(choices)]
        self._prompt = _PromptProgress(echo=echo, scores=scores)
        self._missing = set(range(inputs))
        """Inputs without a vector."""
        self._inputs = inputs
        self._cached_tokens: int | None = None

    @classmethod
    def of(cls, job: Job) -> JobProgress:
        """Nothing of `job` is here yet."""
        if isinstance(job.prompt, EmbeddingPrompt):
            return cls(0, inputs=len(job.prompt.inputs))
        return cls(job.n, echo=job.text.echo, scores=job.sampling.prompt_logprobs is not None)

    def admit(self, reply: Reply, worker: str) -> Admitted:
        """Take a reply from `worker` in, or say why not.

        Raises:
            RepliesLost: it is about a choice or an input that the job has not.
        """
        if self.ended:
            return Admitted.FENCED if self.is_superseded(reply.attempt_id) else Admitted.KNOWN
        if not self._speaks(reply, worker):
            return Admitted.FENCED
        admitted = self._admit(reply)
        if admitted is Admitted.NEWS:
            self.heard = time.monotonic()
            self._moved = self._moved or isinstance(reply, Delta | Embedded | PromptLogprobs)
        return admitted

    def bind(self, attempt: str, worker: str, *, copy: int = 0) -> None:
        """Let `attempt` by `worker`, which was given that copy of the job, speak from now on, and nobody else."""
        self.copy = copy
        if self.attempt is not None and self.attempt != attempt:
            self._superseded.add(self.attempt)
        self.attempt, self.worker, self.let_go = attempt, worker, False
        self.bound = self.heard = time.monotonic()
        self._moved = False

    def gone(self, crashes: int) -> None:
        """Its worker has let the attempt go, and tells how often what ran it died with it."""
        self.let_go = True
        if not self._moved:
            self.crashes = max(self.crashes, crashes)

    def crashed(self) -> None:
        """The attempt that spoke went without a word; one that got further is only the first of a row."""
        self.crashes = 1 if self._moved else self.crashes + 1

    def queued(self) -> None:
        """The job is in its queue."""
        self.queued_at = time.monotonic()

    def next_copy(self) -> int:
        """The number of a copy that is about to be published."""
        self._copies += 1
        return self._copies

    def copied(self, number: int) -> None:
        """That copy was queued."""
        self.copied_in_vain = 1 if self.moved_since_copy else self.copied_in_vain + 1
        self.newest_copy, self._extent_at_copy = number, self._extent
        self.copied_at = time.monotonic()

    @property
    def moved_since_copy(self) -> bool:
        """Whether the answer has got further since the newest copy was queued."""
        return self._extent > self._extent_at_copy

    @property
    def _extent(self) -> int:
        return self.tokens + self._inputs - len(self._missing)

    def is_superseded(self, attempt: str) -> bool:
        """Whether another attempt has taken this one's place."""
        return attempt in self._superseded

    @property
    def tokens(self) -> int:
        """Tokens admitted, over all choices."""
        return sum(choice.positions for choice in self._choices)

    @property
    def have(self) -> list[int]:
        """Tokens admitted, by choice."""
        return [choice.positions for choice in self._choices]

    @property
    def resumable(self) -> bool:
        """Whether another attempt can go on: the ids of all that was delivered are known."""
        return all(len(choice.ids) == choice.positions for choice in self._choices)

    @property
    def delivered(self) -> Delivered:
        """What has been admitted."""
        begun = self.tokens > 0
        return Delivered(
            [choice.ids.tolist() for choice in self._choices] if begun else [],
            [number for number, choice in enumerate(self._choices) if choice.finished],
            sorted(set(range(self._inputs)) - self._missing),
            self._cached_tokens or 0,
        )

    def _speaks(self, reply: Reply, worker: str) -> bool:
        if worker == REAPER and isinstance(reply, Failed):
            return reply.copy_number >= self.newest_copy
        if reply.attempt_id == self.attempt:
            return True
        if reply.attempt_id in self._superseded or not (self.attempt is None or isinstance(reply, Started)):
            return False
        if self.tokens or any(choice.finished for choice in self._choices):
            return False  # it began at the beginning, without asking
        self.bind(reply.attempt_id, worker)
        return True

    def _admit(self, reply: Reply) -> Admitted:
        match reply:
            case Delta():
                return self._admit_delta(reply)
            case Embedded():
                return self._admit_vectors(reply)
            case PromptEcho() | PromptLogprobs():
                return self._prompt.admit(reply)
            case Finished():
                if self._missing or not all(choice.finished for choice in self._choices):
                    return Admitted.GAP
                self.ended = True
            case Failed() | Cancelled():
                self.ended = True
        return Admitted.NEWS

    def _admit_delta(self, delta: Delta) -> Admitted:
        if delta.choice >= len(self._choices):
            raise RepliesLost
        if not self._prompt.complete:
            return Admitted.GAP
        admitted = self._choices[delta.choice].admit(delta)
        if admitted is Admitted.NEWS and self._cached_tokens is None:
            self._cached_tokens = delta.cached_tokens
        return admitted

    def _admit_vectors(self, embedded: Embedded) -> Admitted:
        brought = range(embedded.start, embedded.start + len(embedded.vectors))
        if brought.stop > self._inputs:
            raise RepliesLost
        news = not self._missing.isdisjoint(brought)
        self._missing.difference_update(brought)
        return Admitted.NEWS if news else Admitted.KNOWN
