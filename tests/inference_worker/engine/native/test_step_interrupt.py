"""Tests of step interrupts: sequences are computed between two layers of a step, and no token changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from inference_worker.engine.engine import Engine
from inference_worker.engine_protocol import GenerationRequest, TokenEvent
from inference_worker.settings import EngineSettings
from tests.fakes.tiny_models import save_tiny
from tests.inference_worker.generation import Outcome, finish, generate, ids, prompts, request, take

Tokens = dict[tuple[str, int], list[int]]

PROMPTS = prompts(3, seed=3, longest=30, vocab_size=97)
STREAMS = [request(f"stream{i}", prompt, max_tokens=20) for i, prompt in enumerate(PROMPTS)]
SHORT = request("short", prompts(1, seed=8, longest=1, vocab_size=97)[0] * 80, max_tokens=5)
"""A prompt of a length that interrupts a step."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama")
    save_tiny(path, "llama", head_dim=16, intermediate_size=64, max_position_embeddings=256)
    return path


def new_engine(folder: Path) -> Engine:
    engine = Engine.from_settings(EngineSettings(model=str(folder), dtype="float32", speculation="off"))
    assert engine.ready().attention == "native"
    return engine


@pytest.fixture(scope="module")
def alone(folder: Path) -> Tokens:
    outcome: Outcome = {}
    for one in (*STREAMS, SHORT):
        outcome |= generate(new_engine(folder), [one])
    return ids(outcome)


class Caller:
    """Sends requests while the engine computes; `emitted`: events that came before the step was over."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.requests: list[GenerationRequest] = []
        self.emitted: list[TokenEvent] = []
        self._command_fd, self._write_fd = os.pipe()
        os.set_blocking(self._command_fd, False)
        engine.enable_step_interrupts(self._command_fd, self._receive, self.emitted.extend)

    def call(self, *requests: GenerationRequest) -> None:
        self.requests += requests
        os.write(self._write_fd, b"!")

    def close(self) -> None:
        os.close(self._command_fd)
        os.close(self._write_fd)

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._command_fd, 1)
        while self.requests:
            self.engine.add(self.requests.pop(0))


@pytest.fixture
def caller(folder: Path) -> Iterator[Caller]:
    caller = Caller(new_engine(folder))
    yield caller
    caller.close()


def test_its_first_token_is_emitted_before_the_step_is_over(caller: Caller, alone: Tokens) -> None:
    engine = caller.engine
    outcome: Outcome = {}
    for stream in STREAMS:
        engine.add(stream)
    for _ in range(3):
        take(outcome, engine.step())
    caller.call(SHORT)
    events = engine.step()
    assert [(event.request, event.token_ids) for event in caller.emitted] == [("short", alone["short", 0][:1])]
    assert sorted(event.request for event in events) == [stream.id for stream in STREAMS]
    take(outcome, caller.emitted)
    take(outcome, events)
    assert ids(finish(engine, outcome)) == alone


def test_a_request_that_can_not_interrupt_is_still_accepted(caller: Caller, alone: Tokens) -> None:
    engine = caller.engine
    engine.add(STREAMS[0])
    outcome: Outcome = {}
    take(outcome, engine.step())
    take(outcome, engine.step())
    caller.call(STREAMS[1])
    take(outcome, engine.step())
    assert not caller.emitted
    assert engine.has(STREAMS[1].id)
    expected = {key: tokens for key, tokens in alone.items() if key[0] in {STREAMS[0].id, STREAMS[1].id}}
    assert ids(finish(engine, outcome)) == expected
    assert not engine.has(STREAMS[1].id)


def test_others_are_answered_while_a_step_of_flex_is_computed(caller: Caller, alone: Tokens) -> None:
    engine = caller.engine
    outcome: Outcome = {}
    engine.add(replace(STREAMS[0], flex=True))
    for _ in range(3):
        take(outcome, engine.step())
    caller.call(SHORT)
    take(outcome, engine.step())
    assert [token for event in caller.emitted for token in event.token_ids] == alone["short", 0]
    engine.add(STREAMS[1])
    while engine.has_work():
        seen = len(caller.emitted)
        events = engine.step()
        take(outcome, caller.emitted[seen:] + events)
    take(outcome, [event for event in caller.emitted if event.request == "short"])
    assert {event.request for event in caller.emitted} == {"short", STREAMS[1].id}
    assert ids(outcome) == {key: tokens for key, tokens in alone.items() if key[0] != STREAMS[2].id}


def test_steps_of_flex_have_pauses_while_others_come(caller: Caller) -> None:
    engine = caller.engine
    engine.add(replace(STREAMS[0], flex=True))
    engine.step()
    assert engine.pause() == 0.0  # only flex was computed so far
    caller.call(SHORT)
    while engine.has(SHORT.id) or not caller.emitted:
        engine.step()
    engine.step()
    assert engine.pause() > 0.0
    engine.add(STREAMS[1])
    assert engine.pause() == 0.0
