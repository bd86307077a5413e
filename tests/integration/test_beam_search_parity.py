"""In float32, a worker's beam search by likelihood equals `transformers`, however the engine schedules."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from inference_worker.engine.engine import Engine
from inference_worker.engine.scoring.engine import load_scoring_engine
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from router.messages import ChatPrompt, Delta, EarlyStopping, Finished, SamplingParams, Search, SearchMethod
from tests.fakes.fleet import Answer
from tests.fakes.local_engine import LocalEngine
from tests.fakes.model_workers import searching_fleet
from tests.fakes.tiny_scorers import save_chat_model, save_step_model
from tests.integration.search_reference import Generator

PROMPTS = 20
EARLY_STOPPING = {EarlyStopping.COMPLETE: True, EarlyStopping.LIKELY: False, EarlyStopping.NEVER: "never"}
BLOCK = 4
VARIANTS: dict[str, dict[str, Any]] = {
    "prefix cache": {},
    "no prefix cache": {"enable_prefix_caching": False},
    "few blocks": {"num_kv_blocks": 40},
}
SCORE_TOLERANCE = 1e-4

pytestmark = pytest.mark.usefixtures("one_thread")


@dataclass
class Problem:
    question: str
    sampling: SamplingParams
    search: Search
    answers: list[list[int]]
    score: float
    """Of the first answer."""


@dataclass
class Models:
    folder: Path
    verifier_folder: Path
    problems: list[Problem]


@pytest.fixture(scope="module")
def models(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Models:
    """A tiny generator, and what `transformers` finds with it."""
    folders = tmp_path_factory.mktemp("generator"), tmp_path_factory.mktemp("verifier")
    model, tokenizer = save_chat_model(folders[0], hidden_size=64, num_hidden_layers=2)
    save_step_model(folders[1], "Qwen2ForProcessRewardModel")
    generator = Generator(model, tokenizer)
    return Models(*folders, [_problem(number, model, generator) for number in range(PROMPTS)])


def _problem(number: int, model: PreTrainedModel, generator: Generator) -> Problem:
    draw = random.Random(number)
    question = "".join(draw.choices("abcdefgh 0123456789+-?", k=draw.randint(3, 40)))
    beams = draw.randint(2, 6)  # with one beam `transformers` runs no beam search
    answers = draw.randint(1, beams)
    search = Search(
        method=SearchMethod.LIKELIHOOD_BEAM_SEARCH,
        n=beams,
        budget_tokens=100_000,
        step_tokens=draw.randint(1, 9),
        length_penalty=draw.choice([-0.5, 0.0, 1.0, 1.0, 1.5]),
        early_stopping=draw.choice(list(EarlyStopping)),
    )
    stops = [generator.stop, *draw.sample(range(4, 260), 10)]
    sampling = SamplingParams(seed=1, temperature=0.0, max_tokens=draw.randint(10, 40), stop_token_ids=stops[1:])
    prompt = generator.prompt(question)
    found: Any = model.generate(
        torch.tensor([prompt]),
        num_beams=beams,
        num_return_sequences=answers,
        length_penalty=search.length_penalty,
        early_stopping=EARLY_STOPPING[search.early_stopping],
        max_new_tokens=sampling.max_tokens,
        do_sample=False,
        eos_token_id=stops,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
    )
    sequences = [ids[len(prompt) :] for ids in found.sequences.tolist()]
    [score, *_] = found.sequences_scores.tolist()
    return Problem(question, sampling, search, [_until_stop(ids, stops) for ids in sequences], score)


def _until_stop(ids: list[int], stops: list[int]) -> list[int]:
    """Return the ids without padding."""
    return ids[: next((index + 1 for index, token in enumerate(ids) if token in stops), len(ids))]


@pytest.mark.parametrize("variant", VARIANTS)
async def test_the_answers_are_those_of_transformers(models: Models, variant: str) -> None:
    values: dict[str, Any] = {"block_size": BLOCK, "num_kv_blocks": 4096, "max_num_seqs": 256} | VARIANTS[variant]
    engine = Engine.from_settings(EngineSettings(str(models.folder), dtype="float32", **values))
    limits = EngineSettings("", dtype="float32", block_size=BLOCK, num_kv_blocks=256)
    verifier = load_scoring_engine(resolve(str(models.verifier_folder)), limits)
    async with searching_fleet(
        LocalEngine(engine), LocalEngine(verifier), models.folder, models.verifier_folder
    ) as fleet:
        answers = [
            await fleet.ask(
                str(number),
                prompt=ChatPrompt(messages=[{"role": "user", "content": problem.question}]),
                sampling=problem.sampling,
                search=problem.search,
                n=len(problem.answers),
            )
            for number, problem in enumerate(models.problems)
        ]
        for answer, problem in zip(answers, models.problems, strict=True):
            await answer.read(seconds=120)
            assert isinstance(answer.terminal, Finished), answer.terminal
            assert answer.ids == problem.answers
            assert _best_score(answer) == pytest.approx(problem.score, abs=SCORE_TOLERANCE)
    assert (engine.load().prefix_cache_hits > 0) == VARIANTS[variant].get("enable_prefix_caching", True)


def _best_score(answer: Answer) -> float:
    steps = [reply.step for reply in answer.replies if isinstance(reply, Delta) and reply.step is not None]
    paths = {path["path"]: path for step in steps if step.state.ended for path in step.data["paths"]}
    score: float = paths[steps[-1].data["chosen"]]["score"]
    return score


def test_the_problems_end_in_every_way(models: Models) -> None:
    """So that the comparison is of complete answers of all lengths, and of those that the limit ends."""
    full = [len(ids) == problem.sampling.max_tokens for problem in models.problems for ids in problem.answers]
    assert {True, False} == set(full)
    assert {problem.search.early_stopping for problem in models.problems} == set(EarlyStopping)
    assert len({tuple(ids) for problem in models.problems for ids in problem.answers}) > PROMPTS
