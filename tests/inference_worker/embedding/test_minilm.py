"""Vectors of the real MiniLM equal those of `transformers`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from inference_worker.engine.embedding.engine import EmbeddingEngine
from inference_worker.engine.loading.dtypes import weight_dtype
from inference_worker.engine_protocol import EmbeddingRequest, VectorEvent
from inference_worker.errors import ModelError, PromptRejected
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from inference_worker.worker.embedding import processor
from inference_worker.worker.embedding.processor import EmbeddingProcessor
from router.messages import EmbeddingPrompt, FailureCode, SamplingParams, TextPrompt
from tests.inference_worker.embedding import reference
from tests.inference_worker.worker_bench import make_job

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def engine(embedding_folder: Path) -> EmbeddingEngine:
    return load(embedding_folder)


@pytest.fixture(scope="module")
def text(embedding_folder: Path) -> EmbeddingProcessor:
    return EmbeddingProcessor.of(embedding_folder)


def load(folder: Path, **settings: object) -> EmbeddingEngine:
    return EmbeddingEngine.load_model(resolve(str(folder)), EngineSettings(model=str(folder), **settings))  # type: ignore[arg-type]


def run(engine: EmbeddingEngine, *requests: EmbeddingRequest) -> dict[str, torch.Tensor]:
    """Return the vectors by request, in order of its inputs."""
    events: list[VectorEvent] = []
    for request in requests:
        engine.add(request)
    while engine.has_work():
        events += engine.step()
    assert engine.failures() == []
    return {
        request.id: torch.stack(
            [
                torch.frombuffer(bytearray(event.vector), dtype=torch.float32)
                for event in sorted(events, key=lambda event: event.index)
                if event.request == request.id
            ]
        )
        for request in requests
    }


async def prepared(
    text: EmbeddingProcessor, engine: EmbeddingEngine, inputs: list[str | list[int]]
) -> EmbeddingRequest:
    job = make_job("j", prompt=EmbeddingPrompt(inputs=inputs))
    return await text.prepare(job, "a", engine.ready())


@pytest.mark.parametrize(("dtype", "least"), [("auto", 0.9999), ("float32", 0.999999), ("bfloat16", 0.999)])
async def test_a_hundred_texts_equal_the_reference(
    dtype: str, least: float, text: EmbeddingProcessor, embedding_folder: Path
) -> None:
    engine = load(embedding_folder, dtype=dtype)
    inputs = reference.texts()
    assert len(inputs) == 100
    request = await prepared(text, engine, list(inputs))
    assert max(map(len, request.inputs)) > 128
    ours = run(engine, request)["a"]
    cosine = (ours * reference.vectors(embedding_folder, inputs)).sum(dim=1)
    assert float(cosine.min()) >= least
    assert torch.allclose(ours.norm(dim=1), torch.ones(100), atol=1e-6)


async def test_fewer_dimensions_are_the_leading_ones_normalised(
    engine: EmbeddingEngine, text: EmbeddingProcessor
) -> None:
    request = await prepared(text, engine, ["one text", "another"])
    short = EmbeddingRequest(id="b", inputs=request.inputs, dimensions=64)
    both = run(engine, request, short)
    assert both["b"].shape == (2, 64)
    leading = both["a"][:, :64]
    assert torch.allclose(both["b"], leading / leading.norm(dim=1, keepdim=True), atol=1e-6)


async def test_token_ids_are_embedded_unchanged(engine: EmbeddingEngine, text: EmbeddingProcessor) -> None:
    written = await prepared(text, engine, ["one text"])
    given = await prepared(text, engine, [written.inputs[0], "one text"])
    assert given.inputs == [written.inputs[0]] * 2


async def test_an_aborted_request_is_not_in_the_next_batch(engine: EmbeddingEngine, text: EmbeddingProcessor) -> None:
    request = await prepared(text, engine, ["word " * 20] * 200)
    engine.add(request)
    engine.step()
    engine.abort("a")
    assert not engine.has_work()


def test_ready_describes_the_model(engine: EmbeddingEngine) -> None:
    ready = engine.ready()
    assert (ready.dimensions, ready.max_model_len, ready.vocab_size) == (384, 256, 30522)
    assert ready.dtype == str(weight_dtype("auto", torch.device("cpu"))).removeprefix("torch.")


def test_max_model_len_is_at_most_the_model_s_positions(embedding_folder: Path) -> None:
    assert load(embedding_folder, max_model_len=512).ready().max_model_len == 512
    with pytest.raises(ModelError, match="512 positions"):
        load(embedding_folder, max_model_len=513)
    with pytest.raises(ModelError, match="int8"):
        load(embedding_folder, quantization="int8")


@pytest.mark.parametrize(
    ("inputs", "code", "param"),
    [
        (["word " * 255], FailureCode.CONTEXT_LENGTH_EXCEEDED, "input"),
        (["x" * 1_000_000], FailureCode.CONTEXT_LENGTH_EXCEEDED, "input"),
        ([[5] * 257], FailureCode.CONTEXT_LENGTH_EXCEEDED, "input"),
        (["word " * 250] * 5, FailureCode.INVALID_PARAMETER, "input"),
        ([[30522]], FailureCode.INVALID_PARAMETER, "input"),
        ([[-1]], FailureCode.INVALID_PARAMETER, "input"),
        ([[]], FailureCode.INVALID_PARAMETER, "input"),
    ],
)
async def test_what_the_model_can_not_take(
    engine: EmbeddingEngine,
    text: EmbeddingProcessor,
    inputs: list[str | list[int]],
    code: FailureCode,
    param: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor, "MAX_REQUEST_TOKENS", 1000)
    with pytest.raises(PromptRejected) as caught:
        await prepared(text, engine, inputs)
    assert (caught.value.code, caught.value.param) == (code, param)


async def test_a_job_of_another_kind_or_with_too_many_dimensions(
    engine: EmbeddingEngine, text: EmbeddingProcessor
) -> None:
    for prompt, param in (
        (TextPrompt("hi"), "model"),
        (EmbeddingPrompt(inputs=["hi"], dimensions=385), "dimensions"),
    ):
        with pytest.raises(PromptRejected) as caught:
            await text.prepare(make_job("j", prompt=prompt, sampling=SamplingParams(seed=0)), "a", engine.ready())
        assert caught.value.param == param
