"""Tests of byte panels (prompts with int4 weights and 8-bit rows): near the dense model, the same for any chunks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.native_decoder import NativeDecoder
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.native.library import Kernels
from inference_worker.engine.native.packing import Values
from inference_worker.engine.weights.weights import parameters_by_name
from inference_worker.model_files.model_source import resolve
from tests.fakes.int4_weights import matrices, rounded
from tests.fakes.packed_steps import packed_logits
from tests.fakes.tiny_models import save_tiny
from tests.inference_worker.engine.conftest import AMX

VOCABULARY = 97
SIZES = {"hidden_size": 96, "intermediate_size": 160, "head_dim": 16, "hidden_act": "silu"}
"""Rows whose scales are shared by 64 inputs end with 32 of them."""


def tiny(folder: Path) -> Decoder:
    save_tiny(folder, "llama", **SIZES)
    model = load_model(resolve(str(folder)), torch.float32, torch.device("cpu"))
    assert isinstance(model, Decoder)
    return model


@pytest.fixture
def models(instructions: str, tmp_path: Path) -> tuple[Decoder, NativeDecoder]:
    """One of PyTorch's modules and one of the kernels, whose matrices are the same int4 values."""
    model = tiny(tmp_path)
    native = int4(model, Kernels(2, instructions))
    for _, weight in matrices(model):
        weight.copy_(rounded(weight).dequantise())
    return model, native


def int4(model: Decoder, kernels: Kernels) -> NativeDecoder:
    values = {name: rounded(weight) for name, weight in matrices(model)}
    return native_decoder(model, values, kernels)


def native_decoder(model: Decoder, values: Mapping[str, Values], kernels: Kernels) -> NativeDecoder:
    """The model on the kernels, with `values` in place of its own matrices."""
    weights: dict[str, Values] = {**parameters_by_name(model), **values}
    return NativeDecoder(model, weights.__getitem__, kernels, activation_bits=8)


def prompts(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, VOCABULARY, (length,), generator=generator).tolist() for length in lengths]


def test_a_prompt_is_near_that_of_the_dense_model(models: tuple[Decoder, NativeDecoder]) -> None:
    dense, native = models
    prompt = prompts(110)
    (expected,) = packed_logits(dense, prompt, [128])
    (found,), (generated,) = (packed_logits(native, prompt, [128], prompt_length=length) for length in (110, 0))
    error, least = ((each - expected).norm() / expected.norm() for each in (found, generated))
    assert error < 2 * least
    assert least < 0.06


def test_a_row_depends_on_whether_it_is_of_a_prompt_but_not_on_the_rows_beside_it(
    models: tuple[Decoder, NativeDecoder], instructions: str
) -> None:
    _, native = models
    both, prompt_length = prompts(40, 44), 30
    alone = [packed_logits(native, [each], [1], prompt_length=prompt_length)[0] for each in both]
    for chunks in ([64], [17], [3, 1, 20]):
        found = packed_logits(native, both, chunks, prompt_length=prompt_length)
        assert all(map(torch.equal, found, alone))
    (generated,) = packed_logits(native, both[:1], [64], prompt_length=0)
    assert torch.equal(generated[:1], alone[0][:1]) != Kernels(1, instructions).multiplies_bytes


@pytest.mark.parametrize("instructions", AMX, indirect=True)
def test_amx_and_avx512_compute_the_same(instructions: str, tmp_path: Path) -> None:
    model = tiny(tmp_path)
    tiles, vectors = (int4(model, Kernels(2, each)) for each in (instructions, "avx512"))
    together = prompts(40, 3, 110, 18)
    for chunks in ([256], [37]):
        found, expected = (packed_logits(each, together, chunks) for each in (tiles, vectors))
        assert all(map(torch.equal, found, expected))


def test_weights_of_zeros_give_zeros(instructions: str, tmp_path: Path) -> None:
    model = tiny(tmp_path)
    values: dict[str, Values] = {}
    for name, weight in matrices(model):
        weight.zero_()
        values[name] = rounded(weight)
    native = native_decoder(model, values, Kernels(2, instructions))
    (found,), (expected,) = (packed_logits(each, prompts(30), [64]) for each in (native, model))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
