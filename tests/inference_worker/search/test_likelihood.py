"""Beam search by likelihood finds what a plain loop finds, also after an interruption, and bills each token once."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import pytest

from inference_worker.search import likelihood
from inference_worker.search.events import Choose, Command, Confirm, Predict, Predicted, SegmentEnd
from inference_worker.search.likelihood import LikelihoodDriver
from router.messages import EarlyStopping, Search, SearchMethod, Step
from tests.inference_worker.search.scripted import MODEL, drawn

STOPS = frozenset({0, 1})
VOCABULARY = 7


def log_probabilities(prefix: list[int]) -> list[float]:
    """The model: a distribution that depends on the prefix only."""
    weights = [1 + drawn(prefix, token) % 1000 for token in range(VOCABULARY)]
    return [math.log(weight / sum(weights)) for weight in weights]


@dataclass(frozen=True)
class World:
    n: int = 3
    answers: int = 1
    max_tokens: int = 12
    length_penalty: float = 1.0
    early_stopping: EarlyStopping = EarlyStopping.LIKELY
    step_tokens: int = 4
    budget: int = 10_000
    first: int = 2
    """Token of the prompt, so that models differ."""

    def driver(self) -> LikelihoodDriver:
        search = Search(
            method=SearchMethod.LIKELIHOOD_BEAM_SEARCH,
            n=self.n,
            budget_tokens=self.budget,
            step_tokens=self.step_tokens,
            length_penalty=self.length_penalty,
            early_stopping=self.early_stopping,
        )
        return LikelihoodDriver(
            search, model=MODEL, max_tokens=self.max_tokens, answers=self.answers, stops=STOPS, decode=text_of
        )

    def expected(self) -> list[tuple[list[int], float]]:
        """The answers of a plain loop with their scores, best first."""
        beams: list[tuple[list[int], float]] = [([], 0.0)]
        complete: list[tuple[list[int], float]] = []
        for length in range(1, self.max_tokens + 1):
            longer = [
                ([*ids, token], before + logprob)
                for ids, before in beams
                for token, logprob in enumerate(log_probabilities([self.first, *ids]))
            ]
            longer.sort(key=lambda beam: -beam[1])
            over = [beam for beam in longer[: self.n] if beam[0][-1] in STOPS or length == self.max_tokens]
            complete += [(ids, logprob / length**self.length_penalty) for ids, logprob in over]
            complete = sorted(complete, key=lambda answer: -answer[1])[: self.n]
            beams = [beam for beam in longer if beam[0][-1] not in STOPS][: self.n]
            if len(complete) == self.n:
                if self.early_stopping is EarlyStopping.COMPLETE:
                    break
                longest = self.early_stopping is EarlyStopping.NEVER and self.length_penalty > 0
                reached = self.max_tokens if longest else length
                if beams[0][1] / reached**self.length_penalty <= complete[-1][1]:
                    break
        return complete[: self.answers]


def text_of(ids: list[int]) -> str:
    return "".join(f"{each} " for each in ids)


@dataclass
class Run:
    answers: list[Choose]
    steps: list[Step]
    predictions: int


def run(world: World, steps: list[Step] | None = None, order: int = 0) -> Run:
    """Perform the commands of a driver that goes on after `steps`, the predictions of a round in any order."""
    shuffle, driver = random.Random(order), world.driver()
    driver.resume(steps or [])
    commands: list[Command] = driver.start()
    found = Run([], [], 0)
    waiting: list[Predict] = []
    while commands or waiting:
        for command in commands:
            match command:
                case Predict():
                    waiting.append(command)
                    found.predictions += 1
                case Confirm(step):
                    found.steps += [step] if step.state.ended else []
                case Choose():
                    found.answers.append(command)
        commands = []
        if waiting:
            predict = waiting.pop(shuffle.randrange(len(waiting)))
            ranked = sorted(enumerate(log_probabilities([world.first, *predict.prefix])), key=lambda each: -each[1])
            commands = driver.receive(Predicted(predict.beam, ranked[: predict.count]))
    return found


WORLDS = [
    World(n, answers, max_tokens, penalty, stopping, first=first)
    for first in range(2, 7)
    for n, answers, max_tokens in ((1, 1, 12), (3, 2, 12), (4, 4, 9), (4, 3, 1))
    for penalty in (-1.0, 0.0, 1.0, 2.0)
    for stopping in EarlyStopping
]


def test_finds_what_a_plain_loop_finds() -> None:
    lengths, ends = set[int](), set[SegmentEnd]()
    for world in WORLDS:
        found, expected = run(world), world.expected()
        assert [answer.token_ids for answer in found.answers] == [ids for ids, _ in expected], world
        assert [answer.choice for answer in found.answers] == list(range(world.answers))
        last = found.steps[-1].data
        scores = {path["path"]: path["score"] for step in found.steps for path in step.data["paths"]}
        assert scores[last["chosen"]] == pytest.approx(expected[0][1])
        lengths.update(len(answer.token_ids) for answer in found.answers)
        ends.update(answer.end for answer in found.answers)
    assert ends == {SegmentEnd.STOP, SegmentEnd.LENGTH}
    assert len(lengths) > 5


def test_a_resumed_search_goes_on_as_the_undisturbed_one() -> None:
    interrupted = 0
    for world in WORLDS:
        whole = run(world)
        for ended in range(1, len(whole.steps) + 1):
            resumed = run(world, whole.steps[:ended], order=ended)
            assert resumed.answers == whole.answers
            assert resumed.steps == whole.steps[ended:]
            interrupted += 1
    assert interrupted > len(WORLDS)


def test_steps_and_answers_bill_every_generated_token() -> None:
    for world in WORLDS:
        found = run(world)
        parts = sum(part.usage.completion_tokens for step in found.steps for part in step.parts)
        answers = sum(len(answer.token_ids) for answer in found.answers)
        assert found.steps[-1].data["generated"] == found.predictions
        # Answers share tokens at most of the first round, which has one beam.
        assert found.predictions <= parts + answers <= found.predictions + world.n - 1
        assert all(part.model == MODEL for step in found.steps for part in step.parts)


@pytest.mark.parametrize("budget", [1, 4, 13, 20, 31])
def test_the_budget_ends_the_answers(budget: int) -> None:
    world = World(n=4, answers=2, max_tokens=40, early_stopping=EarlyStopping.NEVER, budget=budget)
    found = run(world)
    assert found.predictions <= budget
    most = 1 + (budget - 1) // 4
    shorter = World(n=4, answers=2, max_tokens=most, early_stopping=EarlyStopping.NEVER)
    assert [answer.token_ids for answer in found.answers] == [ids for ids, _ in shorter.expected()]


def test_a_search_ends_when_its_steps_fill_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(n=3, answers=2, max_tokens=40, early_stopping=EarlyStopping.NEVER)
    assert len(run(world).steps) > 3
    monkeypatch.setattr(likelihood, "MAX_RELEASED_BYTES", 500)
    found = run(world)
    assert 1 < len(found.steps) < 4
    assert len(found.answers) == 2
    assert max(len(answer.token_ids) for answer in found.answers) <= 4 * len(found.steps)
    for ended in range(len(found.steps) + 1):
        assert run(world, found.steps[:ended]).answers == found.answers


def test_steps_have_the_texts_and_probabilities_of_the_paths_that_may_be_chosen() -> None:
    found = run(World(n=3, answers=2, max_tokens=10))
    paths: dict[int, dict[str, Any]] = {}
    for step in found.steps:
        assert step.name == "likelihood_beam_search"
        for path in step.data["paths"]:
            paths[path["path"]] = path
            ids = path["token_ids"] if path["alive"] else []
            assert path.get("text", "") == text_of(ids)
            assert path["logprob"] < 0
    assert [path["alive"] for path in found.steps[-1].data["paths"]].count(True) <= 2
    chosen = paths[found.steps[-1].data["chosen"]]
    ids = list[int]()
    while True:
        ids = [*chosen["token_ids"], *ids]
        if chosen["parent"] == 0:
            break
        chosen = paths[chosen["parent"]]
    assert ids == found.answers[0].token_ids
