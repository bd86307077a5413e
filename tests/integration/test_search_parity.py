"""In float32, a worker's search equals plain loops over `transformers`, path for path, however the engine schedules."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from inference_worker.engine.engine import Engine
from inference_worker.engine.scoring.engine import load_scoring_engine
from inference_worker.engine_protocol import GenerationRequest, StepReport, TokenEvent
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from router.messages import (
    Aggregate,
    ChatPrompt,
    Delta,
    Extraction,
    ExtractionKind,
    Finished,
    SamplingParams,
    Search,
    SearchMethod,
    Step,
)
from tests.fakes.fleet import Answer
from tests.fakes.local_engine import LocalEngine
from tests.fakes.model_workers import searching_fleet
from tests.fakes.search_workers import VERIFIER
from tests.fakes.tiny_scorers import save_chat_model, save_step_model
from tests.integration.search_reference import STOP_TOKEN, Found, Generator, PlainSearch, Verifier

PROBLEMS = int(os.environ.get("HEADRACE_TEST_SEARCHES", "5"))
"""Problems of each method."""
METHODS = [method for method in SearchMethod if method.verified]
SEPARATORS = {"\n": ["Ċ"], "; ": [";", "Ġ"]}
"""Texts that end a step, with their tokens as the vocabulary of bytes writes them."""
SCORE_TOLERANCE = 3e-6
MIN_MARGIN = 10 * SCORE_TOLERANCE
"""Least margins of a problem's scores and draws: with less, rounding could decide which path is better or sampled."""
BLOCK = 4
SMALL_POOL = 48
"""KV blocks of each engine that hold any of the sequences, and not all that run at once."""
VARIANTS: dict[str, dict[str, Any]] = {
    "prefix cache": {},
    "no prefix cache": {"enable_prefix_caching": False},
    "prefix cache, preemption": {"num_kv_blocks": SMALL_POOL},
    "no prefix cache, preemption": {"enable_prefix_caching": False, "num_kv_blocks": SMALL_POOL},
}

pytestmark = pytest.mark.usefixtures("one_thread")


@dataclass
class Problem:
    """A question, how its answer is searched for, and what the reference found."""

    question: str
    search: Search
    sampling: SamplingParams
    found: Found


@dataclass
class Models:
    """A tiny generator and a tiny verifier, in folders and in `transformers`."""

    generator: Generator
    verifier: Verifier
    generator_folder: Path
    verifier_folder: Path
    _known: dict[SearchMethod, list[Problem]] = field(default_factory=dict)

    def problems(self, method: SearchMethod) -> list[Problem]:
        """Return the first problems that rounding does not decide."""
        if method not in self._known:
            self._known[method] = []
            number = 0
            while len(self._known[method]) < PROBLEMS:
                problem = self._problem(method, number)
                number += 1
                if min(problem.found.draw_margin, problem.found.score_margin) > MIN_MARGIN:
                    self._known[method].append(problem)
        return self._known[method]

    def _problem(self, method: SearchMethod, number: int) -> Problem:
        draw = random.Random(f"{method}:{number}")
        steps: dict[str, Any] = {
            "expansions": draw.randint(2, 4),
            "max_steps": draw.randint(3, 8),
            "step_tokens": draw.randint(3, 7),
        }
        if method is SearchMethod.LOOKAHEAD:
            steps["lookahead_steps"] = draw.randint(1, 2)
        separator = draw.choice(list(SEPARATORS))
        search = Search(
            method=method,
            n=draw.randint(2, 4),
            budget_tokens=100_000,
            separator=separator,
            verifier=VERIFIER,
            aggregate=draw.choice(list(Aggregate)),
            extract=Extraction(kind=ExtractionKind.REGEX, pattern="[0-3]"),
            return_candidates=True,
            **steps if method.stepwise else {},
        )
        alphabet = [*draw.sample("0123abcdefgh", 7), *SEPARATORS[separator], STOP_TOKEN]
        token_id = self.generator.token_id
        bias = {STOP_TOKEN: -1.0} | dict.fromkeys(SEPARATORS[separator], 1.5 * len(SEPARATORS[separator]) - 1.5)
        question = "".join(draw.choices("abcdefgh 0123456789+-?", k=draw.randint(3, 40)))
        sampling = SamplingParams(
            seed=draw.randrange(2**63),
            temperature=draw.choice([0.7, 1.0, 1.3]),
            top_p=draw.choice([1.0, 0.9]),
            max_tokens=draw.randint(16, 48),
            allowed_token_ids=[token_id(token) for token in alphabet],
            logit_bias={token_id(token): by for token, by in bias.items()},
        )
        return Problem(question, search, sampling, self.reference(question, search, sampling))

    def reference(self, question: str, search: Search, sampling: SamplingParams) -> Found:
        return PlainSearch(self.generator, self.verifier, question, search, sampling).run()


@pytest.fixture(scope="module")
def models(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Models:
    folders = tmp_path_factory.mktemp("generator"), tmp_path_factory.mktemp("verifier")
    generator = save_chat_model(folders[0], hidden_size=64, num_hidden_layers=2)
    verifier = save_step_model(folders[1], "Qwen2ForProcessRewardModel")
    return Models(Generator(*generator), Verifier(*verifier), *folders)


@dataclass
class Run:
    """What a worker found, and its engine, which outlives it."""

    answers: list[Answer]
    requests: list[GenerationRequest]
    tokens: dict[tuple[str, int], list[int]]
    """Tokens that the engine generated, by request and choice."""
    engine: Engine


async def searched(
    models: Models,
    problems: list[Problem],
    after_step: Callable[[Engine, StepReport], None] = lambda *_: None,
    *,
    own_caches: bool = False,
    **settings: Any,
) -> Run:
    """Have a worker search for all answers at once; with `own_caches` none finds the blocks of another."""
    values: dict[str, Any] = {"block_size": BLOCK, "num_kv_blocks": 8192, "max_num_seqs": 512} | settings
    engine = Engine.from_settings(EngineSettings(str(models.generator_folder), dtype="float32", **values))
    limits = EngineSettings("", dtype="float32", block_size=BLOCK, num_kv_blocks=values["num_kv_blocks"])
    verifier = load_scoring_engine(resolve(str(models.verifier_folder)), limits)
    tokens: dict[tuple[str, int], list[int]] = {}

    def note(report: StepReport) -> None:
        for event in report.events:
            assert isinstance(event, TokenEvent)
            tokens.setdefault((event.request, event.choice), []).extend(event.token_ids)
        after_step(engine, report)

    local = LocalEngine(engine, note)
    folders = models.generator_folder, models.verifier_folder
    async with searching_fleet(local, LocalEngine(verifier), *folders) as fleet:
        answers = [
            await fleet.ask(
                str(number),
                prompt=ChatPrompt(messages=[{"role": "user", "content": problem.question}]),
                sampling=problem.sampling,
                search=problem.search,
                cache_salt=str(number) if own_caches else "",
            )
            for number, problem in enumerate(problems)
        ]
        for answer in answers:
            await answer.read(seconds=120)
    requests = [each for each in local.requests if isinstance(each, GenerationRequest)]
    return Run(answers, requests, tokens, engine)


def steps(answer: Answer) -> list[Step]:
    """Return the ended steps of an answer."""
    every = [reply.step for reply in answer.replies if isinstance(reply, Delta) and reply.step is not None]
    return [step for step in every if step.state.ended]


def compare(answer: Answer, found: Found, run: Run) -> None:
    """The worker has found what the reference found: every path of every step, their scores, and the choice."""
    assert isinstance(answer.terminal, Finished), answer.terminal
    ended = steps(answer)
    records = [step.data["paths"] for step in ended]
    generated = {
        (tuple(request.prompt_ids), request.sampling.seed, choice): run.tokens[request.id, choice]
        for request in run.requests
        if request.id.startswith(answer.terminal.attempt_id)
        for choice in range(request.n)
    }
    assert len(records) == len(found.steps)
    for ours, theirs in zip(records, found.steps, strict=True):
        assert [record["path"] for record in ours] == [path.number for path in theirs]
        for record, path in zip(ours, theirs, strict=True):
            assert record["parent"] == (path.parent.number if path.parent else 0)
            assert generated[tuple(path.prompt_ids), path.seed, path.choice] == path.ids
            assert record.get("token_ids", path.ids) == path.ids
            assert (record["tokens"], record["text"]) == (len(path.ids), path.steps[-1])
            assert (record["ended"], record["alive"]) == (path.ended, path.alive)
            assert record["step_scores"] == pytest.approx(path.step_scores, abs=SCORE_TOLERANCE)
            assert record["score"] == pytest.approx(path.score, abs=SCORE_TOLERANCE)
            assert record.get("result") == path.result
    assert found.chosen is not None
    assert ended[-1].data["chosen"] == found.chosen.number
    assert answer.ids == [found.chosen.answer_ids]
    assert answer.texts == ["".join(found.chosen.steps)]
    assert answer.ends == ["stop" if found.chosen.ended == "stop" else "length"]
    votes = ended[-1].data.get("votes", [])
    assert [result for result, _ in votes] == [result for result, _ in found.votes]
    assert [weight for _, weight in votes] == pytest.approx([weight for _, weight in found.votes], abs=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.value)
async def test_each_search_equals_the_reference(models: Models, method: SearchMethod, variant: str) -> None:
    problems = models.problems(method)
    run = await searched(models, problems, **VARIANTS[variant])
    for answer, problem in zip(run.answers, problems, strict=True):
        compare(answer, problem.found, run)
    load = run.engine.load()
    assert (load.preemptions > 0) == ("num_kv_blocks" in VARIANTS[variant])
    assert (load.prefix_cache_hits > 0) == VARIANTS[variant].get("enable_prefix_caching", True)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.value)
async def test_what_a_path_shares_is_computed_once_but_for_a_partial_block(
    models: Models, method: SearchMethod
) -> None:
    problems = models.problems(method)
    run = await searched(models, problems, own_caches=True)
    prompts = generated = partial_blocks = hits = 0
    for problem in problems:
        paths = problem.found.paths
        rollouts = [each for path in paths for each in path.rollout]
        prompts += len(models.generator.prompt(problem.question)) - 1  # each choice computes a prompt's last token
        generated += sum(len(path.ids) for path in paths + rollouts)
        extended = {path.parent.number: path for path in paths if path.parent}
        for path in [*extended.values(), *rollouts]:
            full, partial = divmod(len(path.prompt_ids) - 1, BLOCK)
            hits += full * BLOCK
            partial_blocks += partial
    load = run.engine.load()
    assert load.step_tokens == prompts + generated + partial_blocks
    assert load.generation_tokens == generated
    assert (load.prefix_cache_hits, load.preemptions) == (hits, 0)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.value)
async def test_the_blocks_of_a_path_are_free_before_the_step_after_its_end(
    models: Models, method: SearchMethod
) -> None:
    """All continuations of a step have ended before one of them is dropped, so a dropped path holds none."""
    problems = models.problems(method)
    ends = {
        (tuple(each.prompt_ids), each.seed, each.choice): len(each.ids)
        for problem in problems
        for path in problem.found.paths
        for each in (path, *path.rollout)
    }
    used: list[int] = []
    needed: list[int] = []

    def note(engine: Engine, _: StepReport) -> None:
        going_on = [
            each
            for each in engine.scheduler.running
            if each.generated < ends[tuple(each.token_ids[: each.prompt_length]), each.sampling.seed, each.choice]
        ]
        used.append(engine.load().kv_blocks_used)
        needed.append(len({block for each in going_on for block in each.block_table}))

    await searched(models, problems, note)
    assert used == needed
    assert used[-1] == 0 < max(used)


def test_the_problems_have_every_kind_of_path(models: Models) -> None:
    """So that the comparisons are of all ways in which paths end and are chosen."""
    problems = {method: models.problems(method) for method in METHODS}
    paths = [(path, each.search) for some in problems.values() for each in some for path in each.found.paths]
    assert {path.ended for path, _ in paths} == {"stop", "length", None}
    going_on = [(path.steps[-1], search.separator) for path, search in paths if not path.ended]
    assert {text.endswith(separator) for text, separator in going_on} == {True, False}
    assert (" ", "; ") in going_on, "no separator begins in one step and ends in the next"
    assert any(not text.strip() for text, _ in going_on)
    assert any(each.found.ties for some in problems.values() for each in some)
    weighted = [each.found for each in problems[SearchMethod.WEIGHTED_BEST_OF_N]]
    assert any(found.chosen != max(found.paths, key=lambda path: path.score) for found in weighted)
