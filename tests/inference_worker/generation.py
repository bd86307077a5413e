"""Runs requests through an engine and collects its output."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from inference_worker.engine.engine import Engine
from inference_worker.engine_protocol import GenerationRequest, PositionLogprobs, TokenEvent
from router.messages import SamplingParams


@dataclass
class Choice:
    ids: list[int] = field(default_factory=list)
    reason: str | None = None
    stop_token: int | None = None
    cached_tokens: int = 0
    logprobs: list[PositionLogprobs] = field(default_factory=list)
    prompt_logprobs: list[PositionLogprobs] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)


Outcome = dict[tuple[str, int], Choice]


def request(
    name: str, prompt: list[int], *, n: int = 1, salt: str = "", delivered: Any = (), **sampling: Any
) -> GenerationRequest:
    params = {"seed": 1, "temperature": 0.0, "max_tokens": 12, "ignore_eos": True, **sampling}
    return GenerationRequest(
        id=name, prompt_ids=prompt, sampling=SamplingParams(**params), n=n, salt=salt, delivered=list(delivered)
    )


def prompts(count: int, *, seed: int = 0, longest: int = 40, vocab_size: int = 61) -> list[list[int]]:
    chance = random.Random(seed)
    return [[chance.randrange(3, vocab_size) for _ in range(chance.randint(1, longest))] for _ in range(count)]


def take(outcome: Outcome, events: list[TokenEvent]) -> None:
    """Add events, checking that positions are consecutive and that no event follows the end."""
    for event in events:
        choice = outcome.setdefault((event.request, event.choice), Choice())
        assert choice.reason is None
        if choice.ids:
            assert event.cached_tokens == 0
        choice.cached_tokens += event.cached_tokens
        choice.ids += event.token_ids
        choice.logprobs += event.logprobs or []
        if event.prompt is not None:
            assert not choice.ids[len(event.token_ids) :]
            assert event.prompt.start == 1 + len(choice.prompt_logprobs)
            choice.prompt_logprobs += event.prompt.logprobs
            choice.ranks += event.prompt.ranks
        choice.reason, choice.stop_token = event.finish_reason, event.stop_token


def finish(engine: Engine, outcome: Outcome | None = None, *, steps: int = 20_000) -> Outcome:
    """Step until the engine has no work."""
    outcome = {} if outcome is None else outcome
    while engine.has_work():
        take(outcome, engine.step())
        steps -= 1
        assert steps, "the engine does not come to an end"
    return outcome


def generate(engine: Engine, requests: list[GenerationRequest]) -> Outcome:
    for one in requests:
        engine.add(one)
    return finish(engine)


def ids(outcome: Outcome) -> dict[tuple[str, int], list[int]]:
    return {key: choice.ids for key, choice in outcome.items()}
