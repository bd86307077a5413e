from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router import model_registry
from router.messages import OwnTool, PromptBounds, Usage, UsagePart, WorkerState, WorkerStatus
from router.model_registry import Availability, ModelRegistry
from tests.contract.examples import STATUS, WEATHER_TOOL
from tests.fakes.accounts import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def registry(clock: FakeClock) -> ModelRegistry:
    return ModelRegistry(clock)


def status(**changes: Any) -> WorkerStatus:
    """Return a heartbeat of worker w-1 with 8 slots, which generates 10 tokens a second for 3 of its 4 jobs."""
    defaults: dict[str, Any] = {
        "worker": "w-1",
        "model": "m",
        "max_model_len": 2048,
        "max_num_seqs": 8,
        "tokens_per_second": 10.0,
        "max_token_bytes": 16,
        "started": 0.0,
    }
    return msgspec.structs.replace(STATUS, **(defaults | changes))


def test_a_new_registry_has_no_models(registry: ModelRegistry) -> None:
    assert (registry.models(), registry.find("m"), registry.workers()) == ([], None, [])


def test_a_models_load_is_the_sum_of_its_workers(registry: ModelRegistry, clock: FakeClock) -> None:
    registry.observe(status())
    clock.now += 1
    registry.observe(status(worker="w-2", max_model_len=1024, max_token_bytes=32, running=1, waiting=0))
    registry.observe(status(worker="w-9", model="other"))
    model = registry.find("m")
    assert model is not None
    assert (model.created, model.max_model_len, model.max_token_bytes) == (1000.0, 1024, 32)
    assert (model.workers, model.running, model.waiting, model.capacity) == (2, 4, 1, 16)
    assert registry.availability("m", begun=True) is Availability.FREE
    registry.observe(status(running=8, waiting=3))
    registry.observe(status(worker="w-2", running=5))
    assert registry.availability("m", begun=True) is Availability.FULL
    assert [info.name for info in registry.models()] == ["m", "other"]
    assert [worker.worker for worker in registry.workers()] == ["w-1", "w-2", "w-9"]


def test_a_model_reads_images_if_all_of_its_workers_do(registry: ModelRegistry) -> None:
    bounds = PromptBounds(per_byte=1, per_image=80)
    registry.observe(status(reads_images=True, prompt_bounds=bounds))
    assert registry.models()[0].reads_images
    larger = msgspec.structs.replace(bounds, per_image=90)
    registry.observe(status(worker="w-2", reads_images=True, prompt_bounds=larger))
    assert (registry.models()[0].reads_images, registry.models()[0].prompt_bounds.per_image) == (True, 90)
    registry.observe(status(worker="w-3"))
    assert not registry.models()[0].reads_images


def test_a_model_scores_pairs_if_one_of_its_workers_does(registry: ModelRegistry) -> None:
    registry.observe(status())
    assert not registry.models()[0].scores_pairs
    registry.observe(status(worker="w-2", scores_pairs=True))
    assert registry.models()[0].scores_pairs


def test_the_longest_token_is_unknown_if_one_worker_does_not_report_it(registry: ModelRegistry) -> None:
    registry.observe(status())
    registry.observe(status(worker="w-2", max_token_bytes=0))
    model = registry.find("m")
    assert model is not None
    assert model.max_token_bytes == 0


@pytest.mark.parametrize(
    ("later", "alive", "recently_alive", "workers"),
    [(3.0, True, True, 1), (3.1, False, True, 0), (60.0, False, True, 0), (60.1, False, False, 0)],
)
def test_a_silent_worker(
    registry: ModelRegistry, clock: FakeClock, later: float, alive: bool, recently_alive: bool, workers: int
) -> None:
    registry.observe(status())
    clock.now += later
    model = registry.find("m")
    assert model is not None
    assert (model.alive, model.recently_alive, model.workers, len(registry.workers())) == (
        alive,
        recently_alive,
        workers,
        workers,
    )
    assert model.max_model_len == 2048
    assert model.capacity == 8 * workers


def test_a_model_is_forgotten_after_an_hour(registry: ModelRegistry, clock: FakeClock) -> None:
    registry.observe(status())
    clock.now += 3600
    assert registry.find("m") is not None
    clock.now += 1
    assert registry.find("m") is None
    assert registry.models() == []
    registry.observe(status())
    model = registry.find("m")
    assert model is not None
    assert model.created == clock.now


def test_a_draining_worker_is_alive_without_capacity(registry: ModelRegistry) -> None:
    registry.observe(status(state=WorkerState.DRAINING))
    model = registry.find("m")
    assert model is not None
    assert (model.alive, model.workers, model.capacity) == (True, 0, 0)


def test_a_loading_worker_keeps_its_model_alive_without_capacity(registry: ModelRegistry, clock: FakeClock) -> None:
    loading = status(state=WorkerState.STARTING, max_model_len=0, max_num_seqs=0, max_token_bytes=0)
    registry.observe(loading)
    assert registry.find("m") is None  # its limits are not known
    registry.observe(status())
    for worker in ("w-1", "w-2"):
        clock.now += 100
        model = registry.find("m")
        assert model is not None
        assert (model.alive, model.recently_alive) == (False, False)
        registry.observe(msgspec.structs.replace(loading, worker=worker))
        model = registry.find("m")
        assert model is not None
        assert (model.alive, model.recently_alive, model.workers, model.capacity) == (True, True, 0, 0)
        assert (model.max_model_len, model.max_token_bytes) == (2048, 16)


def test_a_begun_job_waits_for_workers_that_can_continue_it(registry: ModelRegistry, clock: FakeClock) -> None:
    def availability() -> tuple[Availability, Availability]:
        return registry.availability("m", begun=False), registry.availability("m", begun=True)

    assert availability() == (Availability.NONE, Availability.NONE)
    registry.observe(status(worker="proxy", continues=False))
    assert availability() == (Availability.FREE, Availability.NONE)
    registry.observe(status(state=WorkerState.STARTING, max_num_seqs=0))
    assert availability() == (Availability.FREE, Availability.LOADING)
    registry.observe(status(running=8))
    assert availability() == (Availability.FREE, Availability.FULL)
    assert (registry.is_alive("w-1"), registry.is_alive("w-2")) == (True, False)
    clock.now += 10
    assert availability() == (Availability.NONE, Availability.NONE)
    assert not registry.is_alive("w-1")


def test_the_limits_of_a_dead_worker_do_not_count(registry: ModelRegistry, clock: FakeClock) -> None:
    registry.observe(status(worker="small", max_model_len=512))
    clock.now += 10
    registry.observe(status())
    model = registry.find("m")
    assert model is not None
    assert model.max_model_len == 2048


def test_bounds_hold_for_all_workers_of_a_model(registry: ModelRegistry) -> None:
    registry.observe(status(prompt_bounds=PromptBounds(per_byte=1, per_text=2, per_message=9)))
    registry.observe(status(worker="w-2", max_model_len=1024, prompt_bounds=PromptBounds(per_byte=1, per_text=5)))
    model = registry.find("m")
    assert model is not None
    assert (model.longest_model_len, model.prompt_bounds) == (
        2048,
        PromptBounds(per_byte=1, per_text=5, per_message=9),
    )
    registry.observe(status(worker="w-3", prompt_bounds=PromptBounds(per_byte=1, normal_form="NFC")))
    model = registry.find("m")
    assert model is not None
    assert model.prompt_bounds == PromptBounds()


def beats(registry: ModelRegistry, *told: tuple[int, float], **changes: Any) -> None:
    for waiting, rate in told:
        registry.observe(status(waiting=waiting, tokens_per_second=rate, **changes))


def measured(registry: ModelRegistry) -> tuple[int, float | None]:
    model = registry.find("m")
    assert model is not None
    return model.effective_capacity, model.tokens_per_second


def test_the_rate_of_a_worker_with_free_capacity_is_not_its_throughput(registry: ModelRegistry) -> None:
    beats(registry, (0, 10.0), (0, 50.0), (2, 400.0), (0, 500.0))
    assert measured(registry) == (8, None)


def test_a_busy_second_measures_throughput_and_effective_capacity(registry: ModelRegistry) -> None:
    beats(registry, (2, 10.0), (2, 400.0))
    assert measured(registry) == (3, 400.0)
    beats(registry, (1, 300.0))
    assert measured(registry) == (3, pytest.approx(370.0))
    beats(registry, (0, 5.0))
    assert measured(registry) == (8, pytest.approx(370.0))  # it can still do that


def test_unmeasured_workers_are_extrapolated_by_capacity(registry: ModelRegistry, clock: FakeClock) -> None:
    beats(registry, (2, 10.0), (2, 400.0))
    beats(registry, (0, 10.0), worker="w-2", max_num_seqs=4)
    assert measured(registry) == (3 + 4, pytest.approx(600.0))
    clock.now += 4
    beats(registry, (0, 10.0), worker="w-2", max_num_seqs=4)
    assert measured(registry) == (4, None)


def test_a_restarted_worker_is_measured_again(registry: ModelRegistry) -> None:
    beats(registry, (2, 10.0), (2, 400.0))
    beats(registry, (2, 50.0), started=5.0)
    assert measured(registry) == (8, None)


def test_a_worker_at_one_tenants_limit_is_measured_but_not_full() -> None:
    registry = ModelRegistry(lambda: 0.0)
    beat = status(model="m", max_num_seqs=64, waiting=0, tokens_per_second=500.0)
    for running in (56, 56):
        registry.observe(msgspec.structs.replace(beat, running=running))
    found = registry.find("m")
    assert found is not None
    assert (found.tokens_per_second, found.effective_capacity) == (500.0, 64)
    registry.observe(msgspec.structs.replace(beat, running=10, tokens_per_second=1.0))
    again = registry.find("m")
    assert again is not None
    assert again.tokens_per_second == 500.0


def test_workers_over_the_maximum_are_ignored(registry: ModelRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_registry, "MAX_WORKERS", 2)
    assert registry.is_empty
    for number in range(3):
        registry.observe(status(worker=f"w-{number}", model=f"m-{number}"))
    registry.observe(status(worker="w-1", model="m-1", running=5))
    assert [(model.name, model.running) for model in registry.models()] == [("m-0", STATUS.running), ("m-1", 5)]
    assert not registry.is_empty


def test_the_parts_of_a_model_are_the_largest_of_its_workers(registry: ModelRegistry) -> None:
    def part(model: str, calls: int, tokens: int = 0) -> UsagePart:
        return UsagePart(model=model, usage=Usage(prompt_tokens=tokens, units={"call": calls}))

    registry.observe(status(parts=[part("tool.weather", 2, 5), part("tool.math", 1)]))
    registry.observe(status(worker="w-2", parts=[part("tool.weather", 3), part("router", 1)]))
    model = registry.find("m")
    assert model is not None
    assert model.max_parts == (part("tool.weather", 3, 5), part("tool.math", 1), part("router", 1))


def test_the_answering_models_of_an_assistant_are_those_of_all_workers(registry: ModelRegistry) -> None:
    registry.observe(status(answers_with="smol"))
    registry.observe(status(worker="w-2", answers_with="qwen", sees_with="vision"))
    registry.observe(status(worker="w-3"))
    model = registry.find("m")
    assert model is not None
    assert (model.answers_with, model.sees_with) == (("qwen", "smol"), ("vision",))


def test_the_sizes_of_images_are_those_of_all_workers_in_the_order_of_the_first(registry: ModelRegistry) -> None:
    registry.observe(status(image_sizes=["512x512", "256x256", "512x256"]))
    registry.observe(status(worker="w-2", image_sizes=["512x256", "512x512"]))
    model = registry.find("m")
    assert model is not None
    assert model.image_sizes == ["512x512", "512x256"]


def test_the_tools_of_a_model_are_those_that_all_of_its_workers_have(registry: ModelRegistry) -> None:
    math = OwnTool(name="math", description="Calculates.", parameters={"type": "object"})
    registry.observe(status(tools=[WEATHER_TOOL, math]))
    model = registry.find("m")
    assert model is not None
    assert model.tools == (WEATHER_TOOL, math)
    twice = UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 2}))
    registry.observe(status(worker="w-2", tools=[msgspec.structs.replace(WEATHER_TOOL, parts=[twice])]))
    model = registry.find("m")
    assert model is not None
    assert [(tool.name, tool.parts) for tool in model.tools] == [("weather", [twice])]
