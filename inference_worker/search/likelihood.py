"""State machine without I/O of beam search by likelihood: the answers that the model itself finds most probable.

It is the beam search of `transformers` (`num_beams`), which vLLM's `use_beam_search` follows. After each token the n
most probable continuations of all beams go on; one that ends, among the n best, is a complete answer, whose score is
its log probability divided by its length to the power of the length penalty. The n best answers are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from inference_worker.search.driver import KIND, MAX_RELEASED_BYTES, json_size
from inference_worker.search.events import (
    ROOT,
    Choose,
    Command,
    Confirm,
    Event,
    Predict,
    Predicted,
    Segment,
    SegmentEnd,
)
from inference_worker.search.paths import Path, PathTree
from router.messages import EarlyStopping, Search, Step, StepState, Usage, UsagePart


@dataclass(frozen=True)
class _Beam:
    """A beam or a complete answer: a path of the last step, and the tokens after it.

    Attributes:
        path: number of the path; `ROOT`: the prompt.
        logprob: sum of the log probabilities of all its tokens.
        length: number of all its tokens.
        ids: tokens after the path.
        ended: why it is complete; `None`: it goes on.
        score: score of a complete answer.
    """

    path: int
    logprob: float = 0.0
    length: int = 0
    ids: tuple[int, ...] = ()
    ended: SegmentEnd | None = None
    score: float = 0.0


@dataclass
class _Round:
    """A position of the answer for which the model predicts the next tokens of all beams."""

    number: int = 0
    """Rounds of the step that have ended."""
    predicted: dict[int, list[tuple[int, float]]] = field(default_factory=dict)


class LikelihoodDriver:
    """Decides which beams go on after each token, when the search ends, and which answers are chosen.

    A step of the search, which is released, has a number of tokens (`Search.step_tokens`): a search that is resumed
    goes on after the last one. All beams have the same length.
    """

    def __init__(
        self,
        search: Search,
        *,
        model: str,
        max_tokens: int,
        answers: int,
        stops: frozenset[int],
        decode: Callable[[list[int]], str],
    ) -> None:
        """Prepare a search by `model` for a number of `answers` with at most `max_tokens` tokens each.

        `stops` are the tokens that complete an answer; `decode` returns the text of tokens.
        """
        self._search, self._model, self._answers = search, model, answers
        self._max_tokens = min(max_tokens, 1 + (search.budget_tokens - 1) // search.n)
        """Most tokens of an answer; the budget allows one token of the prompt's only beam, then one of each."""
        self._stops, self._decode = stops, decode
        self._tree = PathTree(max_tokens)
        self._running = [_Beam(ROOT)]
        """Beams that go on, most probable first."""
        self._complete: list[_Beam] = []
        """The best complete answers, best first; of equal scores the earlier one."""
        self._round = _Round()
        self._number = 0
        """`Step.number` of the next step."""
        self._generated = self._billed = 0
        """Tokens generated, and generated tokens that steps have billed."""
        self._released = 0
        """Bytes of the released steps as JSON."""
        self._chosen = False

    def resume(self, steps: list[Step]) -> None:
        """Restore the search from the steps that an earlier attempt at the job released, before `start` is called.

        Steps that did not end, and steps of other kinds, are ignored.
        """
        for step in steps:
            self._number = max(self._number, step.number + 1)
            if step.kind != KIND or not step.state.ended:
                continue
            self._generated = step.data["generated"]
            self._released += json_size(step.data)
            self._billed += sum(part.usage.completion_tokens for part in step.parts)
            kept = [self._restored(path) for path in self._tree.restore(step.data["paths"])]
            self._chosen = "chosen" in step.data
            self._running = [beam for beam in kept if beam.ended is None and not self._chosen]
            complete = [beam for beam in kept if beam.ended is not None or self._chosen]
            self._complete = self._best([*self._complete, *complete])

    def _restored(self, path: Path) -> _Beam:
        return _Beam(path.number, path.logprob or 0.0, path.length, (), path.ended, path.score or 0.0)

    def start(self) -> list[Command]:
        """Begin the search, or go on after the steps that `resume` restored; return the worker's first commands.

        If the restored steps have chosen the answers, they are only chosen again. Called once.
        """
        return self._choose() if self._chosen else self._begin()

    def receive(self, event: Event) -> list[Command]:
        """Update the search by a prediction of a beam's next token.

        Returns:
            The commands that the worker is to perform next, in order; empty while other predictions are outstanding.
        """
        if not isinstance(event, Predicted):
            raise TypeError(f"an event that no command asks for: {event}")
        self._generated += 1
        self._round.predicted[event.beam] = event.tokens
        if len(self._round.predicted) < len(self._running):
            return []
        self._advance()
        return self._end_step() if self._is_over or self._round.number == self._search.step_tokens else self._predict()

    def _begin(self) -> list[Command]:
        self._round = _Round()
        return [self._confirm(StepState.RUNNING, {"paths": len(self._running)}), *self._predict()]

    def _predict(self) -> list[Command]:
        count = self._search.n + len(self._stops)  # so many have n that go on
        prefixes = [[*self._tree.token_ids(beam.path), *beam.ids] for beam in self._running]
        return [Predict(index, prefix, count) for index, prefix in enumerate(prefixes)]

    def _advance(self) -> None:
        """Extend the beams by their most probable next tokens; keep the best beams and complete answers."""
        n, penalty = self._search.n, self._search.length_penalty
        length = self._running[0].length + 1
        candidates = [
            (beam, token, beam.logprob + logprob)
            for index, beam in enumerate(self._running)
            for token, logprob in self._round.predicted[index]
        ]
        candidates.sort(key=lambda candidate: -candidate[2])
        running, complete = list[_Beam](), list[_Beam]()
        for rank, (beam, token, logprob) in enumerate(candidates):
            ended = SegmentEnd.STOP if token in self._stops else None
            if ended is None and length >= self._max_tokens:
                ended = SegmentEnd.LENGTH
            longer = _Beam(beam.path, logprob, length, (*beam.ids, token), ended, logprob / math.pow(length, penalty))
            if ended is None:
                running.append(longer)
            elif rank < n:
                complete.append(longer)
        self._running, self._complete = running[:n], self._best([*self._complete, *complete])
        self._round = _Round(self._round.number + 1)

    def _best(self, complete: Iterable[_Beam]) -> list[_Beam]:
        return sorted(complete, key=lambda beam: -beam.score)[: self._search.n]

    @property
    def _is_over(self) -> bool:
        """Whether no beam goes on, or the complete answers are good enough by the search's `early_stopping`."""
        search = self._search
        if not self._running:
            return True
        if len(self._complete) < search.n:
            return False
        if search.early_stopping is EarlyStopping.COMPLETE:
            return True
        best = self._running[0]
        longest = search.early_stopping is EarlyStopping.NEVER and search.length_penalty > 0
        length = self._max_tokens if longest else best.length
        return best.logprob / math.pow(length, search.length_penalty) <= self._complete[-1].score

    # Steps

    def _end_step(self) -> list[Command]:
        """Release the step with its bill; begin the next one, or choose the answers."""
        tree, full = self._tree, self._released > MAX_RELEASED_BYTES
        over = self._is_over or full
        if over:
            unfinished = self._running if full else []
            self._running, self._complete = [], self._best([*self._complete, *unfinished])[: self._answers]
        known = len(tree.paths)
        self._running = [self._added(beam) for beam in self._running]
        self._complete = [self._added(beam) if beam.ids else beam for beam in self._complete]
        new = [path for path in tree.paths.values() if path.number > known]
        tree.alive = [tree.paths[beam.path] for beam in (*self._running, *self._complete)]
        data: dict[str, Any] = {"paths": tree.records(new, texts=False), "generated": self._generated, "scored": 0}
        data |= {"chosen": self._complete[0].path} if over else {}
        self._released += json_size(data)
        done = self._confirm(StepState.DONE, data, self._bill())
        self._number += 1
        return [done, *(self._choose() if over else self._begin())]

    def _added(self, beam: _Beam) -> _Beam:
        """Add a beam to the tree as a path of the step."""
        number, before = len(self._tree.paths) + 1, self._tree.token_ids(beam.path)
        text = self._decode([*before, *beam.ids])[len(self._decode(before)) :]
        path = self._tree.add(number, beam.path, Segment([*beam.ids], text, beam.ended or SegmentEnd.FULL))
        path.ended, path.logprob = beam.ended, beam.logprob
        path.score = beam.score
        return _Beam(number, beam.logprob, beam.length, (), beam.ended, beam.score)

    @property
    def _shown(self) -> int:
        """Number of tokens that the answers bill, if the longest paths become the answers."""
        lengths = sorted((path.length for path in self._tree.alive), reverse=True)
        return min(self._generated, sum(lengths[: self._answers]))

    def _bill(self) -> list[UsagePart]:
        """Return what the step used and the answers do not bill."""
        generated = max(0, self._generated - self._shown - self._billed)
        self._billed += generated
        usage = Usage(prompt_tokens=0, completion_tokens=generated)
        return [UsagePart(model=self._model, usage=usage)] if generated else []

    def _confirm(self, state: StepState, data: dict[str, Any], parts: list[UsagePart] | None = None) -> Confirm:
        name = self._search.method.value
        step = Step(number=self._number, kind=KIND, name=name, state=state, data=data, parts=parts or [])
        return Confirm(replace(step, shown_tokens=self._shown) if state.ended else step)

    def _choose(self) -> list[Command]:
        self._chosen = True
        return [
            Choose(self._tree.token_ids(beam.path), beam.ended or SegmentEnd.FULL, choice)
            for choice, beam in enumerate(self._complete[: self._answers])
        ]
