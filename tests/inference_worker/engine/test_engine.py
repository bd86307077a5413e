"""Tests of the engine: nothing that it does for speed or memory changes a token."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch

from inference_worker.engine.execution.fault_isolation import IsolatingRunner
from inference_worker.engine.shared_cores import SharedCores
from inference_worker.engine_protocol import GenerationRequest
from inference_worker.errors import ModelError
from tests.fakes.tiny_model import EOS, TinyModel, tiny_engine
from tests.inference_worker.generation import Outcome, finish, generate, ids, prompts, request, take

PROMPTS = prompts(24, seed=4)


def requests(**sampling: Any) -> list[GenerationRequest]:
    """Half greedy, half random."""
    return [
        request(f"r{i}", prompt, seed=i, temperature=(i % 2) * 0.9, max_tokens=4 + i % 9, **sampling)
        for i, prompt in enumerate(PROMPTS)
    ]


@pytest.fixture(scope="module")
def alone() -> dict[tuple[str, int], list[int]]:
    """Run each request alone on a new engine with the reference attention, its prompt in one step."""
    expected: Outcome = {}
    for one in requests():
        expected |= generate(tiny_engine(attention="reference", enable_prefix_caching=False), [one])
    return ids(expected)


def test_greedy_output_equals_the_model_token_by_token() -> None:
    """Greedy, against a forward pass over the whole sequence for every token."""
    model, prompt = TinyModel(), PROMPTS[0]
    produced = generate(tiny_engine(model), [request("a", prompt)])["a", 0].ids
    known = prompt[:]
    for token in produced:
        fresh = generate(tiny_engine(model, enable_prefix_caching=False), [request("b", known, max_tokens=1)])
        assert fresh["b", 0].ids == [token]
        known.append(token)
    assert len(set(produced)) > 3


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"enable_prefix_caching": False},
        {"max_num_seqs": 1},
        {"max_num_batched_tokens": 1},
        {"max_num_batched_tokens": 7},
        {"max_num_batched_tokens": 33, "enable_prefix_caching": False},
        {"num_kv_blocks": 14, "max_model_len": 52},
        {"num_kv_blocks": 14, "max_model_len": 52, "enable_prefix_caching": False, "max_num_batched_tokens": 9},
        {"block_size": 1, "num_kv_blocks": 60, "max_model_len": 52},
        {"block_size": 16, "num_kv_blocks": 8, "max_model_len": 52},
        {"attention": "reference"},
        {"speculation": "ngram"},
        {"speculation": "ngram", "num_kv_blocks": 14, "max_model_len": 52},
        {"speculation": "ngram", "block_size": 1, "max_num_batched_tokens": 9},
    ],
)
def test_tokens_do_not_depend_on_settings(alone: dict[tuple[str, int], list[int]], settings: dict[str, Any]) -> None:
    assert ids(generate(tiny_engine(**settings), requests())) == alone


def test_small_pools_really_preempt() -> None:
    engine = tiny_engine(num_kv_blocks=14, max_model_len=52)
    generate(engine, requests())
    assert engine.load().preemptions > 0


def test_the_second_time_prompts_come_from_the_cache(alone: dict[tuple[str, int], list[int]]) -> None:
    engine = tiny_engine()
    generate(engine, requests())
    again = generate(engine, requests())
    assert ids(again) == alone
    for i, prompt in enumerate(PROMPTS):
        assert again[f"r{i}", 0].cached_tokens == (len(prompt) - 1) // 4 * 4
    load = engine.load()
    assert load.prompt_tokens == load.prefix_cache_queries == 2 * sum(map(len, PROMPTS))
    assert load.generation_tokens == 2 * sum(map(len, alone.values()))


def test_salts_do_not_share() -> None:
    engine, prompt = tiny_engine(), list(range(3, 24))
    for salt, cached in (("a", 0), ("a", 20), ("b", 0), ("", 0), ("b", 20)):
        assert generate(engine, [request("r", prompt, salt=salt)])["r", 0].cached_tokens == cached


@pytest.mark.parametrize("length", [1, 2, 4, 5, 8, 9, 30])
@pytest.mark.parametrize("settings", [{}, {"max_num_seqs": 2}, {"max_num_batched_tokens": 3}, {"num_kv_blocks": 13}])
def test_choices_equal_separate_requests(length: int, settings: dict[str, Any]) -> None:
    """The sample of choice c depends on (seed, c, position): a request that starts at choice c yields the same."""
    prompt = prompts(1, seed=length, longest=1)[0] + list(range(3, 2 + length))
    settings = {"max_model_len": 48, **settings}
    wanted: dict[str, Any] = {"temperature": 1.1, "seed": 5, "n": 4}
    together = generate(tiny_engine(**settings), [request("r", prompt, **wanted)])
    for choice in range(4):
        engine = tiny_engine(**settings)
        engine.add(request("r", prompt, **wanted))
        for other in set(range(4)) - {choice}:
            engine.abort("r", other)
        assert ids(finish(engine)) == {("r", choice): together["r", choice].ids}
    assert len({tuple(choice.ids) for choice in together.values()}) == 4


def test_choices_share_the_prompt() -> None:
    engine = tiny_engine()
    engine.add(request("r", list(range(3, 45)), n=4, temperature=1.0))
    engine.step()
    engine.step()
    assert engine.load().kv_blocks_used == 10 + 4  # 41 tokens computed once: 10 full blocks shared, 4 own ends
    assert engine.load().kv_tokens_held == 40 + 4 * 2
    assert engine.load().prompt_tokens == 42
    finish(engine)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_speculation_takes_fewer_steps_to_the_same_tokens(temperature: float) -> None:
    """With a bias that makes an endless loop of two tokens likely."""
    wanted: dict[str, Any] = {
        "logit_bias": {7: 9.0, 8: 9.0},
        "presence_penalty": 0.3,
        "temperature": temperature,
        "max_tokens": 60,
    }
    outcomes, steps, accepted = [], [], []
    for speculation in ("off", "ngram"):
        engine = tiny_engine(speculation=speculation)
        outcomes.append(generate(engine, [request("r", [7, 8] * 6, logprobs=1, n=2, **wanted)]))
        steps.append(engine.load().steps)
        accepted.append(engine.load().accepted_tokens)
        assert engine.load().draft_tokens >= accepted[-1]
        assert engine.load().generation_tokens == 120
    assert ids(outcomes[0]) == ids(outcomes[1])
    assert accepted[0] == 0 < 20 < accepted[1]
    assert steps[1] < steps[0] - 10
    for key, plain in outcomes[0].items():
        logprobs = outcomes[1][key].logprobs
        assert [entry.chosen.id for entry in logprobs] == plain.ids
        assert [entry.chosen.logprob for entry in logprobs] == pytest.approx(
            [entry.chosen.logprob for entry in plain.logprobs], abs=1e-4
        )


@pytest.mark.parametrize("cut", [1, 5, 11])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_resumed_request_generates_the_same_tokens(cut: int, temperature: float) -> None:
    wanted: dict[str, Any] = {"temperature": temperature, "n": 2, "frequency_penalty": 0.5, "seed": -7}
    whole = generate(tiny_engine(), [request("r", PROMPTS[1], **wanted)])
    delivered = [whole["r", 0].ids[:cut], whole["r", 1].ids[: cut - 1]]
    rest = generate(tiny_engine(), [request("r", PROMPTS[1], delivered=delivered, **wanted)])
    for choice in range(2):
        assert delivered[choice] + rest["r", choice].ids == whole["r", choice].ids


def test_a_completely_delivered_request_ends_at_once() -> None:
    engine = tiny_engine()
    engine.add(request("r", [5, 6], n=3, max_tokens=3, stop_token_ids=[11], delivered=[[7, 8, 7], [7, 11]]))
    outcome = finish(engine)
    assert (outcome["r", 0].ids, outcome["r", 0].reason) == ([], "length")
    assert (outcome["r", 1].ids, outcome["r", 1].reason, outcome["r", 1].stop_token) == ([], "stop", 11)
    assert len(outcome["r", 2].ids) == 3


def test_a_new_request_is_served_before_long_ones_end() -> None:
    engine = tiny_engine(max_num_batched_tokens=32)
    for i in range(16):
        engine.add(request(f"long{i}", PROMPTS[i], max_tokens=100))
    outcome: Outcome = {}
    for _ in range(40):
        take(outcome, engine.step())
    engine.add(request("new", PROMPTS[20]))
    while ("new", 0) not in outcome:
        take(outcome, engine.step())
        assert all(outcome[f"long{i}", 0].reason is None for i in range(16))
    finish(engine, outcome)


class TestStopping:
    def free_run(self, **sampling: Any) -> list[int]:
        return generate(tiny_engine(), [request("r", PROMPTS[2], max_tokens=30, **sampling)])["r", 0].ids

    def test_stop_token_is_counted_and_named(self) -> None:
        plain = self.free_run(temperature=1.0)
        stop = plain[9]
        choice = generate(
            tiny_engine(), [request("r", PROMPTS[2], temperature=1.0, stop_token_ids=[stop], max_tokens=30)]
        )["r", 0]
        assert choice.ids == plain[: plain.index(stop) + 1]
        assert (choice.reason, choice.stop_token) == ("stop", stop)

    def test_end_of_sequence_stops_unless_ignored(self) -> None:
        wanted: dict[str, Any] = {"logit_bias": {EOS: 100.0}}
        stopped = generate(tiny_engine(), [request("r", [5], ignore_eos=False, **wanted)])["r", 0]
        assert (stopped.ids, stopped.reason, stopped.stop_token) == ([EOS], "stop", EOS)
        assert self.free_run(**wanted) == [EOS] * 30

    def test_min_tokens_delays_the_end(self) -> None:
        sampling: dict[str, Any] = {"ignore_eos": False, "logit_bias": {EOS: 100.0, 7: 50.0}, "min_tokens": 5}
        choice = generate(tiny_engine(), [request("r", [5], stop_token_ids=[7], **sampling)])["r", 0]
        assert len(choice.ids) == 6
        assert choice.ids[-1] == EOS
        assert not {EOS, 7} & set(choice.ids[:5])

    def test_without_max_tokens_the_context_is_the_end(self) -> None:
        engine = tiny_engine(max_model_len=40)
        choice = generate(engine, [request("r", PROMPTS[3][:10], max_tokens=None)])["r", 0]
        assert (len(PROMPTS[3][:10]) + len(choice.ids), choice.reason) == (40, "length")


@pytest.mark.parametrize(
    "bad",
    [
        request("r", []),
        request("r", [5] * 30, max_tokens=11),
        request("r", [5] * 40, max_tokens=None),
        request("r", [61]),
        request("r", [-1]),
        request("r", [5], logit_bias={61: 1.0}),
        request("r", [5], delivered=[[5] * 13]),
        request("r", [5], delivered=[[], []]),
        request("r", [5], n=0),
    ],
)
def test_invalid_requests_fail_alone(bad: GenerationRequest) -> None:
    engine = tiny_engine(num_kv_blocks=10)
    engine.add(bad)
    assert [failure.request for failure in engine.failures()] == ["r"]
    assert engine.failures() == []
    assert not engine.has_work()
    assert engine.ready().max_model_len == 40
    assert len(generate(engine, [request("ok", [5] * 30, max_tokens=10)])["ok", 0].ids) == 10


@pytest.mark.parametrize("n", [1, 3])
def test_a_request_that_breaks_the_model_fails_alone(n: int) -> None:
    innocent = requests()[:9]
    expected = ids(generate(tiny_engine(), innocent))
    model = TinyModel()
    model.poison = {60}
    innocent = [one for one in innocent if 60 not in one.prompt_ids and 60 not in expected[one.id, 0]]
    assert len(innocent) > 3
    engine = tiny_engine(model, max_num_batched_tokens=64)
    engine.add(request("guilty", [5] * 6 + [60], n=n))
    outcome = generate(engine, innocent)
    assert ids(outcome) == {(one.id, 0): expected[one.id, 0] for one in innocent}
    assert [failure.request for failure in engine.failures()] == ["guilty"]


def test_out_of_memory_shrinks_steps_and_changes_no_answer() -> None:
    some = requests()[:4]
    expected = ids(generate(tiny_engine(), some))
    model = TinyModel()
    model.memory = 5
    engine = tiny_engine(model, max_num_batched_tokens=64)
    assert ids(generate(engine, some)) == expected
    assert engine.failures() == []


def test_device_errors_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tiny_engine()
    engine.add(request("r", [5]))
    engine.add(request("s", [6]))

    def broken(*_: object) -> None:
        raise torch.AcceleratorError("device lost")

    assert isinstance(engine.runner, IsolatingRunner)
    monkeypatch.setattr(engine.runner.runner.model, "forward", broken)
    with pytest.raises(torch.AcceleratorError):
        engine.step()


def test_abort_frees_blocks_and_emits_no_event() -> None:
    engine = tiny_engine(max_num_seqs=2)
    for i in range(4):
        engine.add(request(f"r{i}", PROMPTS[i], n=2, temperature=1.0))
    engine.step()
    engine.step()
    for i in range(4):
        engine.abort(f"r{i}")
    engine.abort("unknown")
    assert engine.load().kv_blocks_used == 0
    assert not engine.has_work()
    assert engine.step() == []


def test_logprobs_are_of_the_raw_distribution() -> None:
    sampling: dict[str, Any] = {"temperature": 2.0, "logit_bias": {11: 100.0}, "top_k": 1}
    biased = generate(tiny_engine(), [request("r", [5, 6], logprobs=20, max_tokens=1, **sampling)])["r", 0]
    plain = generate(tiny_engine(), [request("r", [5, 6], logprobs=2, max_tokens=1)])["r", 0]
    assert biased.ids == [11]
    assert biased.logprobs[0].chosen.id == 11
    assert biased.logprobs[0].top[:2] == plain.logprobs[0].top
    assert plain.logprobs[0].chosen == plain.logprobs[0].top[0]
    assert biased.logprobs[0].chosen.logprob < plain.logprobs[0].chosen.logprob


def test_a_context_beyond_the_model_s_is_rejected() -> None:
    with pytest.raises(ModelError, match="256"):
        tiny_engine(max_model_len=257)


class RecordedCores(SharedCores):
    """Cores that note what an engine last asked for."""

    is_needed = False

    def hold(self, is_needed: bool) -> None:
        self.is_needed = is_needed


@pytest.mark.parametrize("flex", [False, True])
def test_the_cores_are_held_from_a_person_s_first_step_to_the_last_or_the_abort(flex: bool) -> None:
    engine = tiny_engine()
    cores = engine._cores = RecordedCores()
    engine.add(msgspec.structs.replace(request("a", PROMPTS[0], max_tokens=2), flex=flex))
    engine.step()
    assert cores.is_needed is not flex
    finish(engine)
    assert not cores.is_needed
    engine.add(msgspec.structs.replace(request("b", PROMPTS[0], max_tokens=9), flex=flex))
    engine.step()
    engine.abort("b")
    assert not cores.is_needed
