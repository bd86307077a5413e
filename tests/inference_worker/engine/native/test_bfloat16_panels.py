"""Tests of panels of bfloat16, which prompts use with int4 and int8 weights on AMX.

Results are near the dense model's, and a row's do not depend on the rows beside it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.native_decoder import NativeDecoder
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.native.library import Kernels
from inference_worker.engine.native.packing import Int8Values, Values
from inference_worker.engine.weights.weights import parameters_by_name
from inference_worker.model_files.model_source import resolve
from tests.fakes.int4_weights import matrices, rounded
from tests.fakes.packed_steps import first_step, packed_logits
from tests.fakes.tiny_models import save_tiny
from tests.inference_worker.engine.conftest import AMX

SIZES = {"hidden_size": 96, "intermediate_size": 160, "head_dim": 16, "hidden_act": "silu"}
LENGTHS = (40, 1, 33, 130, 18)
"""Tokens of prompts that share a step: 32 rows of tiles and a rest, of more than 16 or fewer."""


def tiny(folder: Path, int8: bool) -> tuple[Decoder, dict[str, Values]]:
    """Return a model and its weights, with matrices of int8 or int4 values."""
    save_tiny(folder, "llama", **SIZES)
    model = load_model(resolve(str(folder)), torch.float32, torch.device("cpu"))
    assert isinstance(model, Decoder)
    weights: dict[str, Values] = {**parameters_by_name(model)}
    for name, weight in matrices(model):
        values = Int8Values.of(weight) if int8 else rounded(weight)
        weights[name] = values
        weight.copy_(values.dequantise())
    return model, weights


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("instructions", AMX, indirect=True)
def test_prompts_are_nearer_to_the_dense_model_than_generated_tokens_which_are_as_without_amx(
    instructions: str, int8: bool, tmp_path: Path
) -> None:
    model, weights = tiny(tmp_path, int8)
    native, vectors = (
        NativeDecoder(model, weights.__getitem__, Kernels(2, each), activation_bits="auto")
        for each in (instructions, "avx512")
    )
    ids = [torch.arange(70).mul(7).remainder(97).tolist()]
    (expected,), (prompt,) = (packed_logits(each, ids, [64]) for each in (model, native))
    (generated,), (before,) = (packed_logits(each, ids, [8], prompt_length=0) for each in (native, vectors))
    error, of_bytes = ((each - expected).norm() / expected.norm() for each in (prompt, generated))
    assert error < min(0.02, 0.7 * of_bytes)
    assert torch.equal(generated, before)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("instructions", AMX, indirect=True)
def test_a_row_does_not_depend_on_the_rows_beside_it(instructions: str, int8: bool, tmp_path: Path) -> None:
    """Also not in the last layer, in which the rows that are read of several prompts share a block."""
    model, weights = tiny(tmp_path, int8)
    native = NativeDecoder(model, weights.__getitem__, Kernels(2, instructions), activation_bits="auto")
    prompts = [torch.arange(length).mul(7 + length).remainder(97).tolist() for length in LENGTHS]
    alone = [first_step(native, [each])[0] for each in prompts]
    together = first_step(native, prompts)[0].split(LENGTHS)
    read = first_step(native, prompts, read=[1] * len(LENGTHS))[0].split(LENGTHS)
    assert all(map(torch.equal, together, alone))
    assert all(torch.equal(some[-1], each[-1]) for some, each in zip(read, alone, strict=True))
    partly = [packed_logits(native, prompts, [chunk], prompt_length=20) for chunk in (7, 64)]
    assert all(map(torch.equal, *partly))
