"""A generator and a verifier that lend each other too little memory compute what they compute alone."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from inference_worker.engine.engine import Engine
from inference_worker.engine.scheduling.memory_pool import MemoryPool
from inference_worker.engine.scoring.answer_engine import AnswerScoringEngine
from inference_worker.engine.scoring.engine import load_scoring_engine
from inference_worker.engine_protocol import GenerationRequest, ScoreEvent, ScoreInput, ScoreRequest, TokenEvent
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from router.messages import SamplingParams
from tests.fakes.tiny_scorers import save_chat_model, save_step_model

MEMORY = 8 * 2**20
"""Bytes, of which a sequence of the full context takes about three eighths."""
SIZES = {"num_attention_heads": 4, "num_key_value_heads": 4}


class Pair:
    """The two engines, and what they have reported, by request and index."""

    def __init__(self, generator: Path, verifier: Path, pool: MemoryPool | None) -> None:
        self.generator = Engine.from_settings(_settings(generator, cached=pool is not None), pool)
        verifier_settings = _settings(verifier, cached=pool is not None)
        loaded = load_scoring_engine(resolve(str(verifier)), verifier_settings, pool)
        assert isinstance(loaded, AnswerScoringEngine)
        self.verifier = loaded
        self.tokens: dict[tuple[str, int], list[int]] = {}
        self.scores: dict[tuple[str, int], list[float]] = {}

    def add(self, request: GenerationRequest | ScoreRequest) -> None:
        if isinstance(request, GenerationRequest):
            self.generator.add(request)
        else:
            self.verifier.add(request)

    def abort(self, request: str) -> None:
        self.generator.abort(request)
        self.verifier.abort(request)

    def step(self) -> None:
        """Step both engines in turn, as their process does."""
        for event in self.generator.step() if self.generator.has_work() else ():
            assert isinstance(event, TokenEvent)
            self.tokens.setdefault((event.request, event.choice), []).extend(event.token_ids)
        for scored in self.verifier.step() if self.verifier.has_work() else ():
            assert isinstance(scored, ScoreEvent)
            self.scores[scored.request, scored.index] = scored.scores
        assert not [*self.generator.failures(), *self.verifier.failures()]

    @property
    def has_work(self) -> bool:
        return self.generator.has_work() or self.verifier.has_work()


def _settings(model: Path, *, cached: bool) -> EngineSettings:
    return EngineSettings(
        model=str(model),
        dtype="float32",
        max_num_seqs=12,
        max_num_batched_tokens=128,
        max_model_len=480,
        kv_cache_memory=8 * MEMORY,
        enable_prefix_caching=cached,
    )


def _requests(draw: random.Random) -> Iterable[GenerationRequest | ScoreRequest]:
    """Requests of two tenants, many of which begin alike."""
    beginnings = [_ids(draw, 10, 300) for _ in range(4)]
    for number in range(30):
        ids = draw.choice(beginnings)[: draw.randrange(5, 300)] + _ids(draw, 1, 60)
        salt = draw.choice("ab")
        if draw.random() < 0.5:
            sampling = SamplingParams(seed=1, temperature=0, max_tokens=draw.randrange(1, 100), ignore_eos=True)
            count = draw.choice([1, 2, 4])
            yield GenerationRequest(id=f"{number}", prompt_ids=ids, sampling=sampling, n=count, salt=salt)
        else:
            answers = [ids + _ids(draw, 1, 80) for _ in range(draw.randrange(1, 6))]
            inputs = [ScoreInput(each, len(each), [0, len(each) - 1]) for each in answers]
            yield ScoreRequest(id=f"{number}", inputs=inputs, salt=salt)


def _ids(draw: random.Random, least: int, most: int) -> list[int]:
    return [draw.randrange(3, 250) for _ in range(draw.randrange(least, most))]


def test_engines_that_lend_each_other_memory_compute_what_they_compute_alone(tmp_path: Path) -> None:
    generator, verifier = tmp_path / "generator", tmp_path / "verifier"
    generator.mkdir()
    verifier.mkdir()
    save_chat_model(generator, hidden_size=128, num_hidden_layers=6, **SIZES)
    save_step_model(verifier, "Qwen2ForProcessRewardModel", num_hidden_layers=7, **SIZES)
    draw, pool = random.Random(3), MemoryPool(MEMORY, 2)
    shared, alone = Pair(generator, verifier, pool), Pair(generator, verifier, None)
    requests = list(_requests(draw))
    waiting, aborted = requests[:], set[str]()
    while waiting or shared.has_work:
        while waiting and draw.random() < 0.3:
            shared.add(waiting.pop())
        if draw.random() < 0.05 and len(waiting) < len(requests):
            gone = draw.choice(requests[len(waiting) :]).id
            shared.abort(gone)
            aborted.add(gone)
        shared.step()
        assert pool.lent <= pool.total
    assert shared.generator.load().preemptions
    assert shared.generator.load().kv_blocks_used == shared.verifier.load().kv_blocks_used == 0
    for request in requests:
        alone.add(request)
        while alone.has_work:
            alone.step()
    assert {key: ids for key, ids in shared.tokens.items() if key[0] not in aborted} == {
        key: ids for key, ids in alone.tokens.items() if key[0] not in aborted
    }
    for key, scores in alone.scores.items():
        assert key[0] in aborted or shared.scores[key] == pytest.approx(scores, abs=1e-4)
