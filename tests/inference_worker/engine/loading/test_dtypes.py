"""Tests of dtypes: the meaning of `auto` for the KV cache, and unknown names."""

from __future__ import annotations

import pytest
import torch

from inference_worker.engine.loading.dtypes import kv_cache_dtype_for
from inference_worker.errors import ModelError
from inference_worker.settings import ActivationBits

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "quantization", "activation_bits", "expected"),
    [
        ("auto", "none", 16, torch.bfloat16),
        ("auto", "none", 8, torch.bfloat16),
        ("auto", "int4", 16, torch.float16),
        ("auto", "int4", "auto", torch.float16),
        ("auto", "int4", 8, torch.int8),
        ("float16", "int4", 8, torch.float16),
        ("int8", "none", 16, torch.int8),
    ],
)
def test_the_auto_cache_dtype_follows_weights_and_activations(
    name: str, quantization: str, activation_bits: ActivationBits, expected: torch.dtype
) -> None:
    assert kv_cache_dtype_for(name, torch.bfloat16, quantization, activation_bits, CPU) is expected


def test_the_auto_cache_dtype_on_cuda_is_that_of_the_activations() -> None:
    assert kv_cache_dtype_for("auto", torch.bfloat16, "int4", 8, torch.device("cuda")) is torch.bfloat16


def test_an_unknown_name_is_rejected() -> None:
    with pytest.raises(ModelError, match="unknown dtype 'int3'"):
        kv_cache_dtype_for("int3", torch.float32, "none", 16, CPU)
