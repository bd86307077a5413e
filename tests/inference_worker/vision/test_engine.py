"""The vision engine with a tiny random model: seeds, resumption, turns, cancellation, grammars, verification."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

from inference_worker.engine.vision.engine import VisionEngine
from inference_worker.engine.vision.image_processing import ImageProcessing
from inference_worker.engine.vision.model import VisionModel
from inference_worker.engine_protocol import GenerationRequest, ModelInput, TokenEvent
from inference_worker.errors import ModelError, UnsupportedModel
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from router.messages import Grammar, GrammarKind, SamplingParams
from tests.fakes.tiny_vision_model import CONTEXT, QWEN_IMAGE, qwen, save_llava

Prompt = tuple[list[int], list[ModelInput]]
Outcome = dict[tuple[str, int], list[int]]


def load(folder: Path, **settings: object) -> VisionEngine:
    values = {"model": str(folder), "dtype": "float32", "max_num_seqs": 2, **settings}
    return VisionEngine.load_model(resolve(str(folder)), EngineSettings(**values))  # type: ignore[arg-type]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Compute with one thread: two on two busy cores wait for each other at every small operation."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def engine(vision_folder: Path) -> VisionEngine:
    return load(vision_folder)


@pytest.fixture(scope="module")
def prompts(vision_folder: Path) -> list[Prompt]:
    """Two prompts with an image each, of different numbers of tiles."""
    processing = ImageProcessing.load(vision_folder)
    return [processing.test_prompt(size) for size in ((90, 60), (30, 200))]


def request(
    prompt: Prompt,
    id_: str = "a",
    *,
    n: int = 1,
    grammar: Grammar | None = None,
    **more: object,
) -> GenerationRequest:
    sampling = SamplingParams(**{"seed": 5, "max_tokens": 8, "ignore_eos": True, **more})  # type: ignore[arg-type]
    return GenerationRequest(id=id_, prompt_ids=prompt[0], inputs=prompt[1], sampling=sampling, n=n, grammar=grammar)


def finish(engine: VisionEngine, *requests: GenerationRequest) -> Outcome:
    for each in requests:
        engine.add(each)
    outcome: Outcome = {}
    while engine.has_work():
        for event in engine.step():
            take(outcome, event)
    assert engine.failures() == []
    return outcome


def take(outcome: Outcome, event: TokenEvent) -> None:
    ids = outcome.setdefault((event.request, event.choice), [])
    ids += event.token_ids


def test_an_answer_depends_on_image_and_seed_only_and_not_on_the_requests_beside_it(
    engine: VisionEngine, prompts: list[Prompt]
) -> None:
    alone = finish(engine, request(prompts[0]))
    together = finish(engine, request(prompts[0]), request(prompts[1], "b"), request(prompts[0], "c", seed=6))
    assert together["a", 0] == alone["a", 0]
    assert len({tuple(ids) for ids in together.values()}) == 3
    first, *others = prompts[0][1]
    mirrored = np.frombuffer(first.data, first.dtype)[::-1].tobytes()
    changed = (prompts[0][0], [msgspec.structs.replace(first, data=mirrored), *others])
    assert logprobs_of(engine, changed) != logprobs_of(engine, prompts[0]), "the image is read"


def logprobs_of(engine: VisionEngine, prompt: Prompt) -> list[float]:
    engine.add(request(prompt, logprobs=3, max_tokens=1))
    (event,) = engine.step()
    assert event.logprobs is not None
    return [each.logprob for each in event.logprobs[0].top]


def test_choices_differ_and_a_resumed_one_goes_on_with_the_same_tokens(
    engine: VisionEngine, prompts: list[Prompt], vision_folder: Path
) -> None:
    whole = finish(engine, request(prompts[0], n=2))
    assert whole["a", 0] != whole["a", 1]
    begun = msgspec.structs.replace(request(prompts[0], n=2), delivered=[whole["a", 0][:3], whole["a", 1]], ended=[1])
    assert finish(load(vision_folder), begun) == {("a", 0): whole["a", 0][3:]}


def test_sequences_take_turns_and_one_is_cancelled_between_its_tokens(
    engine: VisionEngine, prompts: list[Prompt]
) -> None:
    for name in "abc":
        engine.add(request(prompts[0], name, max_tokens=4))
    first = [engine.step()[0].request for _ in range(4)]
    assert first == ["a", "b", "a", "b"], "two run, the third waits"
    assert (engine.load().running, engine.load().waiting) == (2, 1)
    engine.abort("a")
    left = finish(engine)
    assert {name: len(ids) for (name, _), ids in left.items()} == {"b": 2, "c": 4}
    assert not engine.has_work()


def test_grammars_stop_tokens_bias_and_logprobs_work_as_in_the_generation_engine(
    engine: VisionEngine, prompts: list[Prompt], vision_folder: Path
) -> None:
    grammar = Grammar(kind=GrammarKind.REGEX, source="yes|no")
    ids = finish(engine, request(prompts[0], grammar=grammar, ignore_eos=False))["a", 0]
    processing = ImageProcessing.load(vision_folder)
    assert processing._processor.tokenizer.decode(ids, skip_special_tokens=True) in ("yes", "no")
    engine.add(request(prompts[0], logit_bias={65: 100.0}, stop_token_ids=[65], logprobs=2))
    (event,) = engine.step()
    assert (event.token_ids, event.finish_reason, event.stop_token) == ([65], "stop", 65)
    assert event.logprobs is not None
    assert len(event.logprobs[0].top) == 2


def test_a_prompt_without_images_is_answered(engine: VisionEngine) -> None:
    assert len(finish(engine, request(([5, 6, 7], [])))["a", 0]) == 8
    engine.add(request(([5, 6, 7], []), max_tokens=0))
    assert [(event.token_ids, event.finish_reason) for event in engine.step()] == [([], "length")]


def test_a_request_that_the_model_cannot_compute_fails_alone(engine: VisionEngine, prompts: list[Prompt]) -> None:
    engine.add(request((prompts[0][0][:-5], prompts[0][1]), "broken"))  # fewer image tokens than the pixels need
    engine.add(request(prompts[0]))
    events = []
    while engine.has_work():
        events += engine.step()
    (failed,) = engine.failures()
    assert (failed.request, failed.in_step) == ("broken", True)
    assert {event.request for event in events} == {"a"}


def test_a_request_beyond_the_context_is_refused(engine: VisionEngine) -> None:
    engine.add(request(([5] * CONTEXT, [])))
    (failed,) = engine.failures()
    assert "exceed the context" in failed.message


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"quantization": "int4"}, "served as they are"),
        ({"max_model_len": CONTEXT + 1}, f"context is {CONTEXT}"),
        ({"kv_cache_memory": 1000}, "no memory"),
    ],
)
def test_impossible_settings_are_refused(vision_folder: Path, settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        load(vision_folder, **settings)


def test_as_many_sequences_run_as_have_room_for_a_full_context(vision_folder: Path, engine: VisionEngine) -> None:
    ready = engine.ready()
    assert (ready.max_num_seqs, ready.max_model_len, ready.attention) == (2, CONTEXT, "transformers")
    memory = VisionModel.load(vision_folder, torch.float32, torch.device("cpu")).bytes_per_token * CONTEXT
    assert load(vision_folder, kv_cache_memory=memory).ready().max_num_seqs == 1


@pytest.mark.parametrize(("tiles", "tokens"), [(False, [16, 16]), (True, [72, 52])])
def test_other_families_are_served_by_the_same_code(tmp_path: Path, tiles: bool, tokens: list[int]) -> None:
    engine = load(save_llava(tmp_path, tiles=tiles))
    processing = ImageProcessing.load(tmp_path)
    texts, inputs = processing._process([Image.new("RGB", size) for size in ((50, 80), (80, 30))])
    assert [text.count("<image>") for text in texts] == tokens
    ids = processing._processor.tokenizer("a".join(texts), add_special_tokens=False).input_ids
    whole = finish(engine, request((ids, inputs)))["a", 0]
    resumed = msgspec.structs.replace(request((ids, inputs)), delivered=[whole[:3]])
    assert finish(engine, resumed)["a", 0] == whole[3:]


def qwen_prompt(grid: tuple[int, int], seed: int) -> Prompt:
    """A prompt with one image of `grid` patches, two by two of which are a token."""
    patches = np.random.default_rng(seed).random((grid[0] * grid[1], 3 * 2 * 4 * 4), np.float32)
    tokens = grid[0] * grid[1] // 4
    inputs = [
        ModelInput("pixel_values", "float32", list(patches.shape), patches.tobytes()),
        ModelInput("image_grid_thw", "int64", [1, 3], np.array([[1, *grid]], np.int64).tobytes()),
    ]
    return [7, QWEN_IMAGE + 2, *[QWEN_IMAGE] * tokens, QWEN_IMAGE + 3, 8], inputs


def test_positions_of_models_that_keep_them_are_those_of_each_sequence() -> None:
    model = VisionModel(qwen())
    one, other = qwen_prompt((8, 4), 1), qwen_prompt((4, 16), 2)
    with torch.inference_mode():
        whole = model.compute(model.state(), [*one[0], 9, 10], one[1])
        state, beside = model.state(), model.state()
        model.compute(state, *one)
        model.compute(beside, *other)
        model.compute(state, [9])
        model.compute(beside, [9])
        torch.testing.assert_close(model.compute(state, [10]), whole, rtol=1e-4, atol=1e-4)


def test_a_model_that_computes_something_else_token_by_token_is_refused(
    vision_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget = VisionModel.compute

    def compute(self: VisionModel, state: object, token_ids: object, inputs: object = ()) -> torch.Tensor:
        return forget(self, self.state(), token_ids, inputs)  # type: ignore[arg-type]

    monkeypatch.setattr(VisionModel, "compute", compute)
    with pytest.raises(UnsupportedModel, match="token by token"):
        load(vision_folder)


def test_the_image_text_has_the_tokens_that_the_library_makes_of_the_whole_prompt(vision_folder: Path) -> None:
    processing = ImageProcessing.load(vision_folder)
    processor, image = processing._processor, Image.new("RGB", (90, 60))
    whole = processor(text=["a<image>b"], images=[image], return_tensors="np")
    texts, inputs = processing._process([image])
    ours = processor.tokenizer(f"a{texts[0]}b", add_special_tokens=False).input_ids
    assert ours == whole["input_ids"][0].tolist()
    by_name = {each.name: each for each in inputs}
    assert by_name["pixel_values"].data == whole["pixel_values"].tobytes()
