"""The engine of images, with a tiny random pipeline: seeds, cancellation between steps, limits."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from inference_worker.engine.images.engine import ImageEngine, image_seed
from inference_worker.engine.images.pipeline import Pipeline
from inference_worker.engine_protocol import ImageEvent, ImageRequest
from inference_worker.errors import ModelError
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from router.messages import FailureCode
from tests.fakes.tiny_pipeline import LONGEST_PROMPT, save_flux_pipeline

STEPS = 3
OWN_SIZE = "64x64"
PROMPT = "a cat"


def load(folder: Path, **settings: object) -> ImageEngine:
    values = {"model": str(folder), "dtype": "float32", "image_steps": STEPS, "max_num_seqs": 1, **settings}
    return ImageEngine.load_model(resolve(str(folder)), EngineSettings(**values))  # type: ignore[arg-type]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Compute with one thread: two on two busy cores wait for each other at every small operation."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def engine(pipeline_folder: Path) -> ImageEngine:
    return load(pipeline_folder, image_sizes=(OWN_SIZE, "64x32"))


def request(id_: str = "a", **fields: object) -> ImageRequest:
    return ImageRequest(**{"id": id_, "prompt": PROMPT, "size": OWN_SIZE, "seed": 7, **fields})  # type: ignore[arg-type]


def drawn(engine: ImageEngine, *requests: ImageRequest) -> list[ImageEvent]:
    for each in requests:
        engine.add(each)
    events: list[ImageEvent] = []
    while engine.has_work():
        events += engine.step()
    assert engine.failures() == []
    return events


def test_images_have_the_requested_size(engine: ImageEngine) -> None:
    (event,) = drawn(engine, request(size="64x32"))
    image = Image.open(io.BytesIO(event.image))
    assert (image.format, image.size) == ("PNG", (64, 32))


def test_an_image_depends_on_seed_and_index_only(engine: ImageEngine, pipeline_folder: Path) -> None:
    both = {event.index: event.image for event in drawn(engine, request(n=2))}
    assert both[0] != both[1]
    (again,) = drawn(load(pipeline_folder), request("b", n=2, drawn=[0]))
    assert (again.index, again.image) == (1, both[1]), "another engine draws the missing image alone"
    (other,) = drawn(engine, request("c", seed=8))
    assert other.image not in both.values()


def test_seeds_of_images_are_unrelated_63_bit_numbers() -> None:
    seeds = {image_seed(seed, index) for seed in (0, 1, 2**63 - 1) for index in range(10)}
    assert len(seeds) == 30
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_step_of_the_engine_is_one_denoising_step_and_cancellation_takes_effect_after_it(
    engine: ImageEngine,
) -> None:
    before = engine.load().steps
    drawn(engine, request())
    assert engine.load().steps - before == STEPS + 1, "the last one decodes the image"
    engine.add(request("b", n=10))
    engine.add(request("c"))
    assert engine.step() == []
    assert (engine.load().running, engine.load().waiting) == (1, 1)
    engine.abort("b")
    engine.abort("unknown")
    (event,) = drawn(engine)
    assert event.request == "c", "the next request is drawn, from its first step"
    assert event.image == drawn(engine, request("d"))[0].image


def test_requests_take_turns_image_by_image(engine: ImageEngine) -> None:
    order = [event.request for event in drawn(engine, request("a", n=3), request("b"))]
    assert order == ["a", "b", "a", "a"]


def test_a_prompt_that_would_be_cut_off_is_refused(engine: ImageEngine) -> None:
    longest = "a" * (LONGEST_PROMPT - 2)
    assert len(drawn(engine, request(prompt=longest))) == 1
    engine.add(request(prompt=f"{longest}a"))
    assert not engine.has_work()
    (failed,) = engine.failures()
    assert failed.refused is FailureCode.CONTEXT_LENGTH_EXCEEDED
    assert f"up to {LONGEST_PROMPT} tokens" in failed.message
    assert f"has {LONGEST_PROMPT + 1} tokens" in failed.message


def test_an_image_that_the_safety_checker_refuses_fails_its_request(
    engine: ImageEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_options: object) -> SimpleNamespace:
        return SimpleNamespace(images=[None], nsfw_content_detected=[True])

    with monkeypatch.context() as patch:
        patch.setattr(engine._pipeline, "_pipeline", refuse)
        patch.setattr(Pipeline, "check_prompt", lambda *_arguments: None)
        engine.add(request(n=2))
        assert engine.step() == []
    (failed,) = engine.failures()
    assert (failed.refused, failed.in_step) == (FailureCode.INVALID_PROMPT, False)
    assert "safety checker" in failed.message
    assert not engine.has_work()


def test_a_failure_in_the_pipeline_fails_its_request_only(engine: ImageEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> bytes:
        raise ValueError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(engine._pipeline, "draw", fail)
        engine.add(request("a", n=2))
        assert engine.step() == []
    (failed,) = engine.failures()
    assert (failed.request, failed.in_step) == ("a", True)
    assert len(drawn(engine, request("b"))) == 1


def test_the_default_sizes_are_the_pipelines_own_and_standard_ones_near_it(pipeline_folder: Path) -> None:
    assert load(pipeline_folder).ready().image_sizes == [OWN_SIZE]


def test_flux_reads_the_whole_prompt_and_logs_none_of_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    engine = load(save_flux_pipeline(tmp_path))
    capfd.readouterr()
    prompt = "secret " * 40
    assert len(drawn(engine, request(prompt=prompt))) == 1
    assert engine.ready().max_model_len == 512
    engine.add(request(prompt="secret " * 80))
    assert engine.failures()[0].message.startswith(
        "This model reads prompts of up to 512 tokens. However, your prompt has"
    )
    output = capfd.readouterr()
    assert "secret" not in output.out + output.err


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"image_sizes": ("63x64",)}, "63x64"), ({"quantization": "int8"}, "int8"), ({"dtype": "int3"}, "int3")],
)
def test_impossible_settings_are_refused(pipeline_folder: Path, settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        load(pipeline_folder, **settings)
