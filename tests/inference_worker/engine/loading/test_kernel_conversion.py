"""Tests of the conversion to the CPU kernels: quantised weights are kept, and unsupported models are reported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from transformers import AutoModelForCausalLM

from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.layers import native_decoder
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.native_decoder import NativeDecoder
from inference_worker.engine.loading.kernel_conversion import convert_to_kernels, load_or_describe
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.native.packing import Int4Values, Int8Values, PackedWeight, Values, pack
from inference_worker.engine.weights.gguf_file import GGUFFile
from inference_worker.errors import UnsupportedModel
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import ActivationBits, EngineSettings
from tests.fakes.gguf_models import FILES
from tests.fakes.packed_steps import packed_logits, random_sequences
from tests.fakes.tiny_models import save_tiny
from tests.inference_worker.engine.weights.test_gguf_file import write_gguf

WIDE = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16}


def tiny_gguf(folder: Path, kind: str, **changes: Any) -> Path:
    path = folder / "tiny.gguf"
    theirs = save_tiny(folder / "theirs", changes.pop("model_type", "llama"), **{**WIDE, **changes})
    write_gguf(path, theirs, kind=gguf.GGMLQuantizationType[kind])
    return path


def compiled(path: Path, **settings: Any) -> tuple[CausalLM, str]:
    source = resolve(str(path))
    engine_settings = EngineSettings(model=str(path), **settings)
    model = load_or_describe(source, torch.float32, engine_settings)
    return convert_to_kernels(model, source, engine_settings)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_quantised_values_are_the_dequantised_weights(kind: str, tmp_path: Path) -> None:
    file = GGUFFile(tiny_gguf(tmp_path, kind))
    values = {name: found for name in file.shapes() if (found := file.quantised(name)) is not None}
    assert len(values) == 4 * 7 + 2  # the layers' matrices, embedding and head
    for name, found in values.items():
        assert torch.equal(found.dequantise(), file.read(name)), name


@pytest.mark.parametrize(
    ("kind", "asked", "chosen", "error"),
    [
        ("Q4_0", "int4", "int4", 0.05),
        ("Q4_1", "auto", "int4", 0.05),
        ("Q4_1", "int8", "int8", 0.05),
        ("Q8_0", "auto", "int8", 0.001),
        ("F16", "int8", "int8", 0.05),
        ("F16", "auto", "none", 0.0001),
        ("Q4_1", "none", "none", 0.0001),
    ],
)
def test_logits_are_those_of_the_dense_model(kind: str, asked: str, chosen: str, error: float, tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path, kind)
    model, scheme = compiled(path, quantization=asked, activation_bits=16)
    assert (scheme, type(model)) == (chosen, NativeDecoder)
    sequences = random_sequences(97)
    expected = packed_logits(load_model(resolve(str(path)), torch.float32, torch.device("cpu")), sequences, [40])
    for plan in ([4], [40]):  # few rows a step, and many
        for rows, dense in zip(packed_logits(model, sequences, plan), expected, strict=True):
            assert (rows - dense).norm() / dense.norm() < error


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("Q4_K_M", "int4"),  # of Q4_K and Q6_K
        ("Q5_K_M", "int8"),
        ("Q3_K_M", "int4"),  # of Q3_K, Q4_K and Q5_K
        ("Q2_K", "int4"),  # of Q2_K, Q3_K and Q4_K
        ("Q6_K", "int8"),
        ("IQ4_NL", "int8"),
        ("IQ4_XS", "int8"),
    ],
)
@pytest.mark.parametrize("activation_bits", [16, 8, "auto"])
def test_files_as_people_have_them_stay_quantised(
    name: str, chosen: str, activation_bits: ActivationBits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written by `llama-quantize`; the model of the file's dequantised weights in `transformers` is the reference."""
    packed: list[type] = []

    def recorded(values: Values, *rest: Any, **named: Any) -> PackedWeight:
        packed.append(type(values))
        return pack(values, *rest, **named)

    monkeypatch.setattr(native_decoder, "pack", recorded)
    path = FILES / f"wide.{name}.gguf"
    model, scheme = compiled(path, quantization="auto", activation_bits=activation_bits)
    assert scheme == chosen
    assert len(packed) == 2 * 4 + 2
    assert set(packed) <= {Int4Values, Int8Values}
    file = GGUFFile(path)
    theirs = AutoModelForCausalLM.from_config(file.config()).float().eval()
    theirs.load_state_dict({name: file.read(name) for name in file.shapes()})
    sequences = random_sequences(97)
    for plan in ([4], [40]):
        for rows, ids in zip(packed_logits(model, sequences, plan), sequences, strict=True):
            with torch.inference_mode():
                expected = theirs(torch.tensor([ids])).logits[0]
            assert (rows - expected).norm() / expected.norm() < (0.03 if activation_bits == 8 else 0.015)
            # Greedy tokens are the reference's, except where it has another of nearly the same logit.
            chosen_logits = expected.gather(1, rows.argmax(dim=-1, keepdim=True))
            assert (expected.amax(dim=-1, keepdim=True) - chosen_logits).max() < 0.05 * expected.std()


@pytest.mark.parametrize("kind", ["Q5_0", "Q5_1", "MXFP4", "Q8_0"])
def test_int4_and_other_kinds_can_be_mixed(kind: str, tmp_path: Path) -> None:
    """The projections of one input are one weight for the kernels."""
    theirs = save_tiny(tmp_path / "theirs", "llama", **WIDE)
    kinds = {"attn_v": gguf.GGMLQuantizationType[kind]}
    path = tmp_path / "tiny.gguf"
    write_gguf(path, theirs, kind=gguf.GGMLQuantizationType.Q4_1, kinds=kinds)
    model, scheme = compiled(path, quantization="auto")
    assert scheme == "int4"
    sequences = random_sequences(97)
    expected = packed_logits(load_model(resolve(str(path)), torch.float32, torch.device("cpu")), sequences, [40])
    for rows, dense in zip(packed_logits(model, sequences, [40]), expected, strict=True):
        assert (rows - dense).norm() / dense.norm() < 0.04


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
def test_int4_is_only_for_files_that_have_it(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="quantization int4 keeps int4 weights"):
        compiled(tiny_gguf(tmp_path, kind), quantization="int4")


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "F16"])
def test_shared_weights_are_those_of_the_process(kind: str, tmp_path: Path) -> None:
    """Written by the first, mapped by the second; a changed file has another identity."""
    path, sequences = tiny_gguf(tmp_path, kind, model_type="qwen2"), random_sequences(97)
    expected = packed_logits(compiled(path, quantization="auto")[0], sequences, [40])
    shared = {"quantization": "auto", "shared_weights": str(tmp_path / "shared")}
    kept = [compiled(path, **shared)[0] for _ in range(2)]
    for model in kept:
        for rows, reference in zip(packed_logits(model, sequences, [40]), expected, strict=True):
            assert torch.equal(rows, reference)
    assert len(list((tmp_path / "shared").glob("*.weights"))) == 1
    os.utime(path, (1, 1))
    kept.append(compiled(path, **shared)[0])
    assert len(list((tmp_path / "shared").glob("*.weights"))) == 2


@pytest.mark.parametrize(
    ("changes", "settings", "reason"),
    [
        ({"head_dim": 8}, {}, "head size 8"),
        ({}, {"device": "cuda", "attention": "sdpa"}, "are the CPU's"),
        ({}, {"attention": "sdpa"}, "the settings require attention 'sdpa'"),
    ],
)
def test_unsupported_models_stay_with_pytorch(
    changes: dict[str, Any], settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    path = tiny_gguf(tmp_path, "Q4_1", **changes)
    source = resolve(str(path))
    loaded = load_model(source, torch.float32, torch.device("cpu"))
    kept = convert_to_kernels(loaded, source, EngineSettings(model=str(path), quantization="auto", **settings))
    assert kept == (loaded, "none")
    with pytest.raises(UnsupportedModel, match=reason):
        convert_to_kernels(loaded, source, EngineSettings(model=str(path), quantization="int4", **settings))


def test_a_model_that_pytorch_computes_is_loaded(tmp_path: Path) -> None:
    model, scheme = compiled(tiny_gguf(tmp_path, "Q4_1"), quantization="auto", attention="sdpa")
    assert isinstance(model, Decoder)
    assert scheme == "none"
    assert not model.model.norm.weight.is_meta
