"""State machine without I/O of the search for one answer: `start()` and `receive(event)` return commands to perform.

It reads no clock and draws nothing: commands depend on the search, the job's seed and the events only, not on the order
in which continuations of different paths end. So a search that is resumed after any of its steps goes on as if it had
not been interrupted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from inference_worker.search.events import (
    ROOT,
    Choose,
    Command,
    Compared,
    Confirm,
    Event,
    Extend,
    Extended,
    PathScore,
    Predicted,
    Read,
    ReadResults,
    Score,
    Scored,
    SegmentEnd,
    Unread,
)
from inference_worker.search.first_scores import FirstScores
from inference_worker.search.mathematics import comparison
from inference_worker.search.paths import Path, PathTree, merge_blank_steps, set_score, split_steps
from inference_worker.search.results import Extractor, extract_results
from inference_worker.search.selection import aggregate, best_answer, best_of_each_tree, best_overall
from inference_worker.search.voting import count_votes, wave_size
from router.messages import Search, SearchMethod, Step, StepState, Usage, UsagePart, estimated_reading

KIND = "search"
"""`Step.kind` of a search's steps."""
MAX_TEXT_BYTES = 4 * 1024 * 1024
"""Most bytes of paths' texts in one message: a text may double as JSON, and the broker takes messages of 16 MiB."""
MAX_RELEASED_BYTES = 8 * 1024 * 1024
"""Most bytes of all released steps as JSON, after which a search ends: a resumed job has them in one message."""


class SearchDriver:
    """Decides which paths of a search are extended and scored, when the search ends, and which answer is chosen.

    | state     | meaning                                | left when                                                 |
    |-----------|----------------------------------------|-----------------------------------------------------------|
    | NEW       | built, perhaps resumed                 | started: EXTENDING, or CHOSEN if no step can follow       |
    | EXTENDING | continuations of a step are generated, | all `Extended`: READING if finding the results of votes   |
    |           | then the rollouts of `lookahead`       | takes time, else as after READING                         |
    | READING   | results are found in answers           | all `Read`: COMPARING if results of votes may be equal    |
    |           |                                        | though their texts differ, else as after COMPARING        |
    | COMPARING | results are compared as mathematics    | `Compared`: SCORING; without a verifier, or if it could   |
    |           |                                        | exceed the budget: a step ended, as after SCORING         |
    | SCORING   | the verifier reads the step's paths    | `Scored`, or `Unread` as it would exceed the budget, a    |
    |           |                                        | step ended: EXTENDING, or CHOSEN if no step can follow    |
    |           |                                        | (all ended, settled, or the budget is used up)            |
    | CHOSEN    | the answer is chosen                   | never                                                     |

    A step generates n whole answers (`best_of_n`, `weighted_best_of_n`), a wave of answers (`self_consistency`), or the
    continuations of all paths that go on. Its data, as JSON: `paths` (for a running step their number; else of each
    `path`, `parent`, `tokens` and `text` of the continuation, `ended`, `alive`: whether it can still be chosen, and if
    known `score`, `step_scores`, `result`, `token_ids`), `generated` and `scored` (all tokens so far); of the last step
    also `chosen` and `votes`.

    The answer bills its own tokens. Steps bill the rest: after each, all generated tokens less those of the longest
    path that can still be chosen, which never falls; after the last, all less the chosen path's.
    """

    def __init__(
        self,
        search: Search,
        *,
        model: str,
        seed: int,
        prompt_tokens: int,
        max_tokens: int,
        extract: Extractor = extract_results,
    ) -> None:
        """Prepare a search by `model` whose answer has at most `max_tokens` tokens."""
        self._search, self._model, self._seed = search, model, seed
        self._prompt_tokens, self._max_tokens = prompt_tokens, max_tokens
        self._extract = extract
        self._tree = PathTree(max_tokens)
        self._first_scores = FirstScores("" if search.judge else search.separator)
        self._steps = 0
        """Steps of the search that have ended."""
        self._number = 0
        """`Step.number` of the next step."""
        self._generated = self._scored = self._billed = 0
        """Tokens generated, tokens that the verifier read, and generated tokens that steps have billed."""
        self._released = 0
        """Bytes of the released steps as JSON."""
        self._unscored = False
        """Whether the verifier could not read the last step's paths within the budget."""
        self._waiting: dict[int, range] = {}
        """Numbers of the continuations that are being generated, by the number of the path that they continue."""
        self._candidates: list[Path] = []
        self._step_tokens = 0
        """Most tokens of each continuation of the step, and of each step of a rollout."""
        self._ahead = 0
        """Steps of the candidates' rollouts that have begun; 0 while the candidates are generated."""
        self._results: dict[int, str | None] = {}
        """Results of the candidates that were found, by the numbers of the paths."""
        self._chosen: int | None = None

    def resume(self, steps: list[Step]) -> None:
        """Restore the search from the steps that an earlier attempt at the job released, before `start` is called.

        Steps that did not end, and steps of other kinds, are ignored.
        """
        for step in steps:
            self._number = max(self._number, step.number + 1)
            if step.kind != KIND or not step.state.ended:
                continue
            self._steps += 1
            self._released += json_size(step.data)
            self._generated, self._scored = step.data["generated"], step.data["scored"]
            self._billed += sum(part.usage.completion_tokens for part in step.parts if part.model == self._model)
            kept = self._tree.restore(step.data["paths"])
            self._keep(kept)
            if self._search.method.stepwise and not self._search.lookahead_steps:  # rollouts are in no step
                for path in kept:
                    self._first_scores.apply(self._texts(path), path.step_scores or [])
            self._chosen = step.data.get("chosen")

    def start(self) -> list[Command]:
        """Begin the search, or go on after the steps that `resume` restored; return the worker's first commands.

        If the restored steps have chosen a path, it is only chosen again. Called once.
        """
        return self._begin(self._plan()) if self._chosen is None else [self._choose(self._chosen)]

    def receive(self, event: Event) -> list[Command]:
        """Update the search by an event, such as the end of continuations or scores of paths.

        Returns:
            The commands that the worker is to perform next, in order; empty while other events are outstanding.
        """
        match event:
            case Extended(parent, segments):
                numbers = self._waiting.pop(parent)
                self._generated += sum(len(segment.token_ids) for segment in segments)
                if self._ahead:
                    self._tree.paths[parent].rollout += segments
                    return [] if self._waiting else self._look_ahead()
                added = zip(numbers, segments, strict=True)
                self._candidates += [self._tree.add(number, parent, segment) for number, segment in added]
                return [] if self._waiting else self._extended()
            case Read(results, tokens):
                self._generated += tokens
                self._results |= results
                return [] if len(self._results) < len(self._candidates) else self._compare()
            case Compared(equal):
                for path in self._candidates:
                    if path.result is not None:
                        path.result = equal.get(path.result, path.result)
                return self._evaluate()
            case Scored(scores, tokens, written):
                for path, scored in zip(self._candidates, scores, strict=True):
                    score = PathScore(self._first_scores.apply(self._texts(path), scored.steps))
                    set_score(path, score, aggregate(score, self._search.aggregate))
                return self._end_step(Usage(prompt_tokens=tokens, completion_tokens=written))
            case Unread(tokens, written):
                return self._end_unscored(Usage(prompt_tokens=tokens, completion_tokens=written))
            case Predicted():
                raise TypeError(f"an event that no command asks for: {event}")

    # Steps

    def _plan(self) -> list[Extend]:
        """Return the commands of the next step; none if the search ends here."""
        search, method, paths = self._search, self._search.method, self._tree.paths
        parents, count = self._continued()
        shares = count * len(parents) * (1 + search.lookahead_steps)
        share = (search.budget_tokens - self._generated) // shares - search.result_tokens if shares else 0
        if share < 1:
            return []
        self._step_tokens = min(share, search.step_tokens)
        extends: list[Extend] = []
        for parent in parents:
            whole = method in (SearchMethod.BEST_OF_N, SearchMethod.WEIGHTED_BEST_OF_N)
            seed = self._seed if whole else derived_seed(self._seed, self._steps, parent)
            most = min(share, self._max_tokens - (paths[parent].length if parent != ROOT else 0))
            most = min(most, self._step_tokens) if method.stepwise else most
            prefix = self._tree.token_ids(parent)
            extends.append(Extend(parent, prefix, count, seed, most, to_end=not method.stepwise))
        return extends

    def _continued(self) -> tuple[list[int], int]:
        """Return the paths that the next step continues, and the number of continuations of each."""
        search, paths = self._search, self._tree.paths
        if search.method is SearchMethod.SELF_CONSISTENCY:
            answers, outstanding = len(paths), search.n - len(paths)
            votes = count_votes(paths.values(), weighted=False)
            return [ROOT], wave_size(votes, answers, outstanding, search.confidence)
        if self._steps == 0:
            return [ROOT], search.n * (search.expansions if search.method.stepwise else 1)
        if not search.method.stepwise or self._steps >= search.max_steps or self._unscored:
            return [], 0
        live = [path for path in self._tree.alive if path.ended is None]
        readable = self._can_read([path.length for path in live for _ in range(search.expansions)])
        return [path.number for path in live] if readable else [], search.expansions

    def _can_read(self, lengths: list[int]) -> bool:
        """Whether the budget lets the verifier read paths of these numbers of tokens, and the prompt before each."""
        search = self._search
        estimate = sum(estimated_reading(self._prompt_tokens + length, judge=search.judge) for length in lengths)
        return self._scored + estimate <= search.budget_tokens

    def _begin(self, plan: list[Extend]) -> list[Command]:
        if not plan:
            return [self._choose(ROOT)]  # the budget has no token for each path
        number = len(self._tree.paths) + 1
        total = 0
        for extend in plan:
            self._waiting[extend.path] = range(number + total, number + total + extend.count)
            total += extend.count
        self._candidates, self._results, self._ahead = [], {}, 0
        return [self._confirm(StepState.RUNNING, {"paths": total}), *plan]

    def _extended(self) -> list[Command]:
        search = self._search
        self._candidates.sort(key=lambda path: path.number)
        if not search.method.votes:
            return self._evaluate()
        texts = {path.number: path.text for path in self._candidates}
        if search.extract.kind.slow:
            return [ReadResults(texts)]
        self._results = dict(zip(texts, self._extract([*texts.values()], search.extract), strict=True))
        return self._compare()

    def _compare(self) -> list[Command]:
        """Give the candidates their results, which may have to be compared with one another."""
        for path in self._candidates:
            path.result = self._results[path.number]
        first = self._candidates[0].number
        known = [path.result for path in self._tree.paths.values() if path.number < first]
        new = [path.result for path in self._candidates]
        compare = comparison(known, new, self._search.extract.kind)
        return self._evaluate() if compare is None else [compare]

    def _evaluate(self) -> list[Command]:
        return self._look_ahead() if self._search.method.verified else self._end_step()

    def _look_ahead(self) -> list[Command]:
        """Return the commands of the next step of the candidates' rollouts; after them, the step is scored."""
        if self._ahead == self._search.lookahead_steps or not self._can_read_candidates():
            return self._score()
        self._ahead += 1
        extends: list[Extend] = []
        for path in self._candidates:
            ended = path.rollout[-1].end.final if path.rollout else path.ended is not None
            most = min(self._step_tokens, self._max_tokens - path.length_ahead)
            if not ended and most > 0:
                prefix = [*self._tree.token_ids(path.number), *(i for each in path.rollout for i in each.token_ids)]
                extends.append(Extend(path.number, prefix, 1, self._seed, most, to_end=False, greedy=True))
        self._waiting = {extend.path: range(0) for extend in extends}
        return list(extends) or self._score()

    def _score(self) -> list[Command]:
        texts = [self._texts(path) for path in self._candidates]
        small = _bytes(text for steps in texts for text in steps) <= MAX_TEXT_BYTES
        if small and self._can_read_candidates():
            numbers = [path.number for path in self._candidates]
            return [Score(numbers, texts, self._search.budget_tokens - self._scored)]
        return self._end_unscored()

    def _end_unscored(self, read: Usage | None = None) -> list[Command]:
        """End a step whose paths the verifier can't read: they exceed the budget, or one message."""
        self._unscored = True
        for path in self._candidates:  # the best path so far is extended by the step that was still generated
            path.score = self._tree.paths[path.parent].score if path.parent != ROOT else None
        return self._end_step(read)

    def _can_read_candidates(self) -> bool:
        return self._can_read([path.length_ahead for path in self._candidates])

    def _texts(self, path: Path) -> list[str]:
        steps = [*self._tree.texts(path.number), *(segment.text for segment in path.rollout)]
        if not self._search.method.stepwise:
            (answer,) = steps
            steps = split_steps(answer, self._search.separator)
        return merge_blank_steps(steps)

    def _end_step(self, scored: Usage | None = None) -> list[Command]:
        """Release the step with its bill; begin the next one, or choose the answer."""
        tree, candidates = self._tree, self._candidates
        self._steps += 1
        self._scored += scored.prompt_tokens if scored else 0
        self._keep(self._best(candidates))
        plan = self._plan()
        data = self._data() if plan else {}
        if not plan or self._released + json_size(data) > MAX_RELEASED_BYTES:
            path, choice = self._choice()
            plan, tree.alive = [], [path]
            data = {**self._data(), **choice}
        self._released += json_size(data)
        done = self._confirm(StepState.DONE, data, self._bill(scored))
        tree.forget_dropped(candidates)
        self._number += 1
        return [done, *(self._begin(plan) if plan else [self._choose(tree.alive[0].number)])]

    def _data(self) -> dict[str, Any]:
        """Return what the ended step shows, and what a resumed search needs of it."""
        size = self._released + _bytes(path.text for path in self._candidates)
        texts = self._search.return_candidates and size <= MAX_TEXT_BYTES
        paths = self._tree.records(self._candidates, texts=texts)
        return {"paths": paths, "generated": self._generated, "scored": self._scored}

    def _best(self, candidates: list[Path]) -> list[Path]:
        """Return the candidates that go on. Paths that have ended keep their places."""
        search = self._search
        match search.method:
            case SearchMethod.BEAM_SEARCH | SearchMethod.LOOKAHEAD:
                return best_overall(candidates, search.n - sum(path.ended is not None for path in self._tree.alive))
            case SearchMethod.DVTS:
                return best_of_each_tree(candidates, search.n, search.expansions)
        return candidates

    def _keep(self, kept: list[Path]) -> None:
        """Note which paths can still be chosen, of those before the last step and those that it `kept`."""
        tree = self._tree
        if self._search.method is SearchMethod.SELF_CONSISTENCY:
            first = [vote.paths[0] for vote in count_votes(tree.paths.values(), weighted=False)]
            tree.alive = first or [tree.paths[1]]
        else:
            tree.alive = [path for path in tree.alive if path.ended is not None] + kept
            tree.alive.sort(key=lambda path: path.number)

    def _choice(self) -> tuple[Path, dict[str, Any]]:
        """Return the chosen path, and what the last step says of the choice."""
        tree, method = self._tree, self._search.method
        if not method.votes:
            path = best_answer(tree.alive)
            return path, {"chosen": path.number}
        weighted = method is SearchMethod.WEIGHTED_BEST_OF_N
        votes = [] if weighted and self._unscored else count_votes(tree.paths.values(), weighted=weighted)
        group = votes[0].paths if votes else tree.alive
        path = best_answer(group) if weighted else group[0]
        return path, {"chosen": path.number, "votes": [[vote.result, vote.weight] for vote in votes]}

    def _bill(self, scored: Usage | None) -> list[UsagePart]:
        """Return what the step used and the answer does not bill."""
        generated = self._generated - self._tree.longest - self._billed
        self._billed += generated
        parts: list[UsagePart] = []
        if generated:
            parts.append(UsagePart(model=self._model, usage=Usage(prompt_tokens=0, completion_tokens=generated)))
        if scored is not None and (scored.prompt_tokens or scored.completion_tokens):
            parts.append(UsagePart(model=self._search.verifier, usage=scored))
        return parts

    def _confirm(self, state: StepState, data: dict[str, Any], parts: list[UsagePart] | None = None) -> Confirm:
        name = self._search.method.value
        step = Step(number=self._number, kind=KIND, name=name, state=state, data=data, parts=parts or [])
        return Confirm(replace(step, shown_tokens=self._tree.longest) if state.ended else step)

    def _choose(self, number: int) -> Choose:
        self._chosen = number
        ended = self._tree.paths[number].ended if number != ROOT else None
        return Choose(self._tree.token_ids(number), ended or SegmentEnd.FULL)


def json_size(data: Any) -> int:
    """Return the number of bytes of `data` as JSON."""
    return len(msgspec.json.encode(data))


def _bytes(texts: Iterable[str]) -> int:
    return sum(len(text.encode()) for text in texts)


def derived_seed(seed: int, step: int, path: int) -> int:
    """Return the random seed, 0 to 2**63 - 1, of the continuations of the path number `path` in step number `step`.

    It depends on the job's `seed` and these two numbers only, so that a resumed search draws the same.
    """
    digest = hashlib.sha256(f"{seed}:{step}:{path}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
