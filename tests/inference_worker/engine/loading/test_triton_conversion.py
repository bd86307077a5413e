"""Quantised checkpoints on the CUDA path: matrices stay quantised, and logits are those of the dequantised weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import pytest
import torch

pytest.importorskip("triton", reason="there are builds of Triton for Linux only")

from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.engine import Engine
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.fused_decoder import FusedDecoder
from inference_worker.engine.layers.linear import Linear
from inference_worker.engine.layers.quantised_linear import QuantisedLinear
from inference_worker.engine.loading.kernel_conversion import convert_to_kernels, load_or_describe
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.errors import UnsupportedModel
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from tests.fakes.packed_steps import packed_logits, random_sequences
from tests.fakes.quantised_models import WIDE, save_quantised
from tests.fakes.tiny_models import save_tiny
from tests.inference_worker.engine.weights.test_gguf_file import write_gguf
from tests.inference_worker.engine.weights.test_quantised_folder import LAYOUTS
from tests.inference_worker.generation import generate, ids, prompts, request

CPU = torch.device("cpu")


def on_triton(path: Path, **settings: Any) -> tuple[CausalLM, str]:
    """The model as the CUDA path loads it; the attention in Triton's interpreter stands for CUDA."""
    source = resolve(str(path))
    wanted = EngineSettings(model=str(path), **{"attention": "triton", "quantization": "auto", **settings})
    return convert_to_kernels(load_or_describe(source, torch.float32, wanted), source, wanted)


def formats(model: CausalLM) -> list[str]:
    assert isinstance(model, Decoder)
    return [module.format for module in model.modules() if isinstance(module, QuantisedLinear)]


def check_logits(model: CausalLM, path: Path, error: float) -> None:
    """Of several tokens by the plain decoder and the fused one, and of one token, for which that has other kernels."""
    assert isinstance(model, Decoder)
    reference = load_model(resolve(str(path)), torch.float32, CPU)
    sequences = random_sequences(97)[:2]
    for ours, chosen in ((model, sequences), (FusedDecoder(model), sequences), (FusedDecoder(model), sequences[1:])):
        expected = packed_logits(reference, chosen, [40])
        for rows, wanted in zip(packed_logits(ours, chosen, [40]), expected, strict=True):
            assert (rows - wanted).norm() / wanted.norm() < error


@pytest.mark.parametrize(
    ("name", "scheme", "error"),
    [
        ("packed int4", "int4", 0.002),
        ("packed int4, zero points", "int4", 0.002),
        ("packed int8", "int8", 0.002),
        ("gptq, desc_act", "int8", 0.02),
        ("awq", "int4", 0.002),
        ("fp8, channels", "fp8", 0.0001),
        ("fp8, blocks", "int8", 0.02),
    ],
)
def test_folders_stay_quantised(name: str, scheme: str, error: float, tmp_path: Path) -> None:
    config, write, *_ = LAYOUTS[name]
    save_quantised(tmp_path, config, write, num_hidden_layers=1)
    model, found = on_triton(tmp_path)
    assert found == scheme
    assert formats(model) == [scheme] * 4
    check_logits(model, tmp_path, error)


@pytest.mark.parametrize(("kind", "scheme"), [("Q4_0", "int4"), ("Q4_1", "int4"), ("Q8_0", "int8"), ("F16", "none")])
def test_gguf_files_stay_quantised(kind: str, scheme: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    theirs = save_tiny(tmp_path / "theirs", "qwen2", num_hidden_layers=1, **WIDE)  # with biases
    write_gguf(path, theirs, kind=gguf.GGMLQuantizationType[kind])
    model, found = on_triton(path)
    assert (found, set(formats(model))) == (scheme, set() if scheme == "none" else {scheme})
    check_logits(model, path, 0.0001)


def test_none_dequantises(tmp_path: Path) -> None:
    config, write, *_ = LAYOUTS["awq"]
    save_quantised(tmp_path, config, write, num_hidden_layers=1)
    model, found = on_triton(tmp_path, quantization="none")
    assert (found, formats(model)) == ("none", [])
    check_logits(model, tmp_path, 0.0001)


@pytest.mark.parametrize("loaded", [False, True])
def test_int8_rounds_any_weights(loaded: bool, tmp_path: Path) -> None:
    """Of a model that is loaded already too, as a reward model is."""
    save_tiny(tmp_path, "llama", num_hidden_layers=1, **WIDE)
    if loaded:
        source = resolve(str(tmp_path))
        settings = EngineSettings(model="", attention="triton", quantization="int8")
        model, found = convert_to_kernels(load_model(source, torch.float32, CPU), source, settings)
    else:
        model, found = on_triton(tmp_path, quantization="int8")
    assert (found, formats(model)) == ("int8", ["int8"] * 4)
    check_logits(model, tmp_path, 0.05)


def test_a_loaded_model_is_unchanged_by_auto(tmp_path: Path) -> None:
    save_tiny(tmp_path, "llama", num_hidden_layers=1)
    source = resolve(str(tmp_path))
    model = load_model(source, torch.float32, CPU)
    settings = EngineSettings(model="", attention="triton", quantization="auto")
    assert convert_to_kernels(model, source, settings) == (model, "none")


@pytest.mark.parametrize(("quantization", "message"), [("int4", "these have none"), ("int8", "no multiple of 32")])
def test_what_does_not_fit_is_refused(quantization: str, message: str, tmp_path: Path) -> None:
    save_tiny(tmp_path, "llama", num_hidden_layers=1, hidden_size=36, num_attention_heads=6, head_dim=12)
    with pytest.raises(UnsupportedModel, match=message):
        on_triton(tmp_path, quantization=quantization)


@pytest.mark.parametrize("draft", [None, "1"])
def test_an_engine_with_quantised_weights_and_an_int8_cache(draft: str | None, tmp_path: Path) -> None:
    """A draft model of the first layers shares their quantised matrices."""
    config, write, *_ = LAYOUTS["awq"]
    save_quantised(tmp_path, config, write, num_hidden_layers=2)
    settings = EngineSettings(
        model=str(tmp_path),
        attention="triton",
        quantization="auto",
        kv_cache_dtype="int8",
        num_kv_blocks=40,
        max_model_len=80,
        draft_model=draft,
    )
    engine = Engine.from_settings(settings)
    assert engine.ready().quantization == "int4"
    model: Any = engine.runner
    decoder = model.runner.model
    assert [type(module) for module in decoder.modules() if isinstance(module, Linear)] == []
    assert {tensor.dtype for tensor in model.runner.attention.cache.keys} == {torch.int8}
    wanted = [request(f"r{i}", prompt, max_tokens=6) for i, prompt in enumerate(prompts(2, seed=6, longest=9))]
    reference = Engine.from_settings(
        EngineSettings(model=str(tmp_path), attention="reference", kv_cache_dtype="int8", num_kv_blocks=40)
    )
    assert ids(generate(engine, wanted)) == ids(generate(reference, wanted))
