"""What has been accepted of one job: which attempt speaks for it, and how far each choice is.

Three fences. The attempt id: only one attempt speaks, and a zombie is not heard; the reaper, who closes jobs that are
dead in their queue, always is. The position: a token that is already here is dropped, one that is missing is an
error. The end: nothing follows a choice's last token. This module does no I/O and does not know what becomes of what it
admits.

A second attempt is accepted only while no token of the first has been admitted: going on where a lost worker stopped
needs the tokens to be sent to the new one first. What is told of the prompt is the same in every attempt, so there only
positions count. Vectors of embeddings have no order and do not depend on one another, so there any attempt may bring
what is missing.
"""

from __future__ import annotations

from gateway.errors import RepliesLost, WorkerLost
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

    def admits(self, reply: PromptEcho | PromptLogprobs) -> bool:
        """As `JobProgress.admits`."""
        if isinstance(reply, PromptEcho):
            known, self._tokens = self._tokens is not None, len(reply.ids)
            return not known
        if reply.s > self._scored:
            raise RepliesLost
        if reply.s < self._scored:
            return False
        self._scored += len(reply.lp)
        return True


class JobProgress:
    """One job as its gateway sees it."""

    def __init__(self, choices: int, *, inputs: int = 0, echo: bool = False, scores: bool = False) -> None:
        """`choices` will have tokens, `inputs` will have vectors; `echo`, `scores`: as of the prompt is wanted."""
        self.worker: str | None = None
        """Who runs it now, as far as known."""
        self.ended = False
        self._attempt: str | None = None
        self._superseded: set[str] = set()
        self._positions = [0] * choices
        self._prompt = _PromptProgress(echo=echo, scores=scores)
        self._finished = [False] * choices
        self._missing = set(range(inputs))
        """Inputs without a vector."""
        self._inputs = inputs

    @classmethod
    def of(cls, job: Job) -> JobProgress:
        """Nothing of `job` is here yet."""
        if isinstance(job.prompt, EmbeddingPrompt):
            return cls(0, inputs=len(job.prompt.inputs))
        return cls(job.n, echo=job.text.echo, scores=job.sampling.prompt_logprobs is not None)

    def admits(self, reply: Reply, worker: str) -> bool:
        """Whether `reply` from `worker` is news; false: drop it.

        Raises:
            WorkerLost: another worker has started the job over after tokens were delivered; it is `worker` now.
            RepliesLost: something between this reply and the last one never arrived.
        """
        if self.ended or not self._speaks(reply, worker):
            return False
        match reply:
            case Delta():
                return self._admits_delta(reply)
            case Embedded():
                return self._admits_vectors(reply)
            case PromptEcho() | PromptLogprobs():
                return self._prompt.admits(reply)
            case Finished():
                if not all(self._finished) or self._missing:
                    raise RepliesLost
                self.ended = True
            case Failed() | Cancelled():
                self.ended = True
        return True

    @property
    def tokens(self) -> int:
        """Tokens admitted, over all choices."""
        return sum(self._positions)

    def _speaks(self, reply: Reply, worker: str) -> bool:
        if reply.a == self._attempt or (worker == REAPER and isinstance(reply, Failed)):
            return True
        if reply.a in self._superseded or not (self._attempt is None or isinstance(reply, Started)):
            return False
        if self._attempt is not None:
            self._superseded.add(self._attempt)
        self._attempt, self.worker = reply.a, worker
        if self.tokens or any(self._finished):
            raise WorkerLost
        return True

    def _admits_delta(self, delta: Delta) -> bool:
        if delta.c >= len(self._positions) or not self._prompt.complete:
            raise RepliesLost
        have = self._positions[delta.c]
        if self._finished[delta.c] or delta.s < have:
            return False
        if delta.s > have:
            raise RepliesLost
        self._positions[delta.c] = have + delta.positions
        self._finished[delta.c] = delta.f is not None
        return True

    def _admits_vectors(self, embedded: Embedded) -> bool:
        brought = range(embedded.s, embedded.s + len(embedded.vectors))
        if brought.stop > self._inputs:
            raise RepliesLost
        news = not self._missing.isdisjoint(brought)
        self._missing.difference_update(brought)
        return news
