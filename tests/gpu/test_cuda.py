"""Tests that need a GPU; run them by `TRITON_INTERPRET=0 pytest tests/gpu`.

Run them alone, because other tests run the same kernels in Triton's interpreter, and a process has only one of both.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

pytest.importorskip("triton", reason="there are builds of Triton for Linux only")

import triton

from inference_worker.engine.attention.reference import ReferenceAttention
from inference_worker.engine.attention.triton_attention import TritonAttention
from inference_worker.engine.attention_backend import AttentionInputs, AttentionMetadata
from inference_worker.engine.engine import Engine
from inference_worker.engine.execution.graph_runner import GraphRunner
from inference_worker.engine.kv_cache import KVCache, KVCacheShape
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.sampling import uniform_kernel
from inference_worker.model_files.model_source import resolve
from inference_worker.reasoning import ReasoningTokens
from inference_worker.settings import EngineSettings
from tests.fakes.host_uniform import uniform
from tests.fakes.tiny_models import save_tiny
from tests.inference_worker.engine.attention.test_attention import make_metadata
from tests.inference_worker.generation import generate, ids, prompts, request

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.skipif(triton.knobs.runtime.interpret, reason="Triton interprets: run tests/gpu alone"),
    # Warnings depend on the GPU and its build of torch, so they are shown, and fail no test.
    pytest.mark.filterwarnings("default"),
]

CUDA = torch.device("cuda")
ALLOWED = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
SPANS = {
    "prompts": [(0, 700), (0, 1), (0, 129)],
    "single": [(n * 37, 1) for n in range(40)],
    "one": [(5000, 1)],
    "mixed": [(470, 1), (0, 300), (31, 1), (160, 170), (1300, 3)],
}


def on_device(metadata: AttentionMetadata) -> AttentionMetadata:
    names = ("query_start", "sequence_lengths", "block_tables", "slot_mapping")
    return replace(metadata, **{name: getattr(metadata, name).to(CUDA) for name in names})


@pytest.mark.parametrize("spans", SPANS)
@pytest.mark.parametrize("dtype", ALLOWED, ids=str)
@pytest.mark.parametrize(("heads", "head_size"), [((9, 3), 64), ((32, 8), 64), ((32, 8), 128), ((4, 1), 256)], ids=str)
@pytest.mark.parametrize(
    ("window", "softcap", "with_sinks"), [(None, None, False), (100, None, False), (100, 5.0, True)]
)
def test_attention(
    spans: str,
    dtype: torch.dtype,
    heads: tuple[int, int],
    head_size: int,
    window: int | None,
    softcap: float | None,
    with_sinks: bool,
) -> None:
    where = SPANS[spans]
    blocks = sum(-(-(before + count) // 16) for before, count in where)
    metadata = on_device(make_metadata(where, 16, blocks, seed=1))
    torch.manual_seed(2)
    shape = KVCacheShape(1, heads[1], head_size, 16, dtype)
    caches = [KVCache(shape, blocks, CUDA) for _ in range(2)]
    for side, other in ((caches[0].keys, caches[1].keys), (caches[0].values, caches[1].values)):
        side[0].normal_()
        other[0].copy_(side[0])
    states = torch.randn(sum(count for _, count in where), heads[0] + 2 * heads[1], head_size, device=CUDA).to(dtype)
    query, key, value = states.split([heads[0], heads[1], heads[1]], dim=1)
    sinks = 3 * torch.randn(heads[0], device=CUDA) if with_sinks else None
    inputs = AttentionInputs(0, query, key, value, head_size**-0.5, window, softcap, sinks)
    output, expected = (
        backend(cache).forward(inputs, metadata)
        for backend, cache in zip((TritonAttention, ReferenceAttention), caches, strict=True)
    )
    torch.testing.assert_close(output.float(), expected.float(), rtol=ALLOWED[dtype], atol=ALLOWED[dtype])


def test_numbers() -> None:
    seeds, choices, positions = (torch.randint(0, 2**40, (300,)) for _ in range(3))
    ours = uniform_kernel.uniform(seeds.to(CUDA), choices.to(CUDA), positions.to(CUDA))
    assert torch.equal(ours.cpu(), uniform(seeds, choices, positions))


@pytest.mark.parametrize("model_type", ["llama", "qwen3"])
def test_captured_steps_say_the_same(model_type: str, tmp_path: Path) -> None:
    """Compare the whole GPU path with the reference on the CPU in float32: greedy, random and truncated sampling.

    Some sequences have a budget of reasoning tokens.
    """
    save_tiny(tmp_path, model_type, head_dim=16, max_position_embeddings=512)
    kinds: list[dict[str, Any]] = [
        {},
        {"temperature": 0.8},
        {"temperature": 1.1, "top_p": 0.8},
        {"temperature": 0.9, "top_k": 9, "n": 3},
    ]
    wanted = [
        msgspec.structs.replace(
            request(f"r{i}", prompt, max_tokens=40 + i, seed=i, **kinds[i % 4]),
            reasoning=ReasoningTokens(end=[96], budget=i, forced=[95, 96]) if i % 3 == 0 else None,
        )
        for i, prompt in enumerate(prompts(20, seed=3, longest=100, vocab_size=97))
    ]
    outcomes = []
    for device in ("cpu", "cuda"):
        settings = EngineSettings(
            model=str(tmp_path), device=device, dtype="float32", num_kv_blocks=400, max_num_seqs=9
        )
        model = load_model(resolve(str(tmp_path)), torch.float32, torch.device(device))
        engine = Engine.from_model(model, settings, torch.float32)
        assert isinstance(engine.runner, GraphRunner) == (device == "cuda")
        outcomes.append(ids(generate(engine, wanted)))
    # Rounding may turn a draw that falls on the edge between two tokens; more than one in twenty is a fault.
    differing = [key for key in outcomes[0] if outcomes[0][key] != outcomes[1][key]]
    assert len(differing) <= len(outcomes[0]) // 20


def test_drafts_of_a_draft_model_change_no_token(tmp_path: Path) -> None:
    save_tiny(tmp_path, "llama", head_dim=16, num_hidden_layers=8, max_position_embeddings=256)
    wanted = [
        request(f"r{i}", prompt, max_tokens=40, seed=i, temperature=0.5 * (i % 2))
        for i, prompt in enumerate(prompts(6, seed=3, longest=100, vocab_size=97))
    ]
    outcomes = []
    for draft in (None, "1"):
        settings = EngineSettings(
            model=str(tmp_path), device="cuda", dtype="float32", num_kv_blocks=400, draft_model=draft
        )
        engine = Engine.from_settings(settings)
        outcomes.append(ids(generate(engine, wanted)))
        assert (engine.load().draft_tokens > 0) == (draft is not None)
    # Drafts are verified outside of the CUDA graphs, whose rounding may turn one draw.
    assert len([key for key in outcomes[0] if outcomes[0][key] != outcomes[1][key]]) <= 1
