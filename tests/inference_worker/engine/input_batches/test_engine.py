"""Engines of input batches: requests of the class `flex` are computed after others, and leave the cores to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from inference_worker.engine.input_batches import engine as input_engine
from inference_worker.engine.input_batches.batching import PendingInput
from inference_worker.engine.input_batches.engine import InputEngine
from inference_worker.engine.scheduling.prefill_priority import MAX_FLEX_DEFERRALS
from inference_worker.engine.shared_cores import SharedCores
from inference_worker.settings import EngineSettings

LAYERS = 3
CONFIG = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=LAYERS, num_attention_heads=2, intermediate_size=8)


@dataclass
class Request:
    id: str
    flex: bool = False
    token_ids: list[list[int]] = field(default_factory=lambda: [[1, 2], [3]])
    done: Sequence[int] = ()


class FirstNumbers(InputEngine[Request, str]):
    """Computes a tiny model; the event of an input is the id of its request."""

    def __init__(self, cores: SharedCores) -> None:
        self.module = BertModel(CONFIG).eval()
        super().__init__(EngineSettings("tiny", device="cpu"), self.module, max_tokens=9, positions=9)
        self._cores = cores
        self.vocab_size = CONFIG.vocab_size

    def _compute(self, request_inputs: Sequence[tuple[Request, PendingInput]]) -> list[Tensor]:
        with torch.inference_mode():
            return [self.module(torch.tensor([each.ids])).last_hidden_state[0, 0, :1] for _, each in request_inputs]

    def _event(self, request: Request, index: int, result: Tensor) -> str:
        return request.id


class CountedCores(SharedCores):
    """Counts how often the engine looked whether it has to give way."""

    looks = 0

    def give_way(self, until: float) -> None:
        self.looks += 1
        super().give_way(until)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock"
    path.touch()
    return path


@pytest.fixture
def cores(lock: Path) -> CountedCores:
    return CountedCores(lock)


def test_flex_comes_after_all_others_in_batches_of_its_own(cores: CountedCores) -> None:
    engine = FirstNumbers(cores)
    for each in (Request("flex", flex=True), Request("person"), Request("another")):
        engine.add(each)
    assert engine.load().running == 3
    assert sorted(engine.step()) == ["another", "another", "person", "person"]
    engine._resumes_at = 0.0
    assert engine.step() == ["flex", "flex"]
    assert not engine.has_work()


def test_flex_looks_for_people_before_each_layer(cores: CountedCores) -> None:
    engine = FirstNumbers(cores)
    engine.add(Request("flex", flex=True, token_ids=[[1, 2]]))
    engine.step()
    assert cores.looks == LAYERS


def test_a_pause_follows_flex_while_people_are_served_and_ends_with_their_request(
    lock: Path, cores: CountedCores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_engine, "MAX_WAIT", 0.01)
    monkeypatch.setattr(input_engine, "PAUSE", 1e6)
    monkeypatch.setattr(input_engine, "MAX_PAUSE", 600.0)
    engine, people = FirstNumbers(cores), SharedCores(lock)
    engine.add(Request("alone", flex=True))
    assert engine.step() == ["alone", "alone"]
    assert engine.pause() == 0
    people.hold(True)
    engine.add(Request("beside", flex=True))
    assert engine.step() == ["beside", "beside"]  # after `MAX_WAIT`, although people are still served
    assert engine.pause() > 0
    engine.add(Request("flex", flex=True))
    assert engine.step() == []
    engine.add(Request("person"))
    assert engine.pause() == 0
    assert engine.step() == ["person", "person"]
    assert engine.step() == []
    engine.abort("flex")
    assert not engine.has_work()


def test_people_s_inputs_hold_the_cores_until_they_are_computed(lock: Path, cores: CountedCores) -> None:
    engine, flex = FirstNumbers(cores), SharedCores(lock)
    engine._max_batch_tokens = 2
    engine.add(Request("person", token_ids=[[1, 2], [3, 4]]))
    engine.step()
    flex.give_way(0.0)  # a time that is over
    assert flex.are_people_served
    engine.step()
    flex.give_way(math.inf)


def test_an_aborted_request_of_a_person_frees_the_cores(lock: Path, cores: CountedCores) -> None:
    engine, flex = FirstNumbers(cores), SharedCores(lock)
    engine._max_batch_tokens = 2
    engine.add(Request("person", token_ids=[[1, 2], [3, 4]]))
    engine.step()
    engine.abort("person")
    flex.give_way(math.inf)


def test_flex_does_not_starve(cores: CountedCores) -> None:
    engine = FirstNumbers(cores)
    engine.add(Request("flex", flex=True))
    for _ in range(MAX_FLEX_DEFERRALS):
        engine.add(Request("person"))
        assert engine.step() == ["person", "person"]
    engine.add(Request("person"))
    assert engine.step() == ["flex", "flex"]
    assert engine.step() == ["person", "person"]
