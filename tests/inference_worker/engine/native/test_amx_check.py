"""Tests of the check of products by AMX, whose emulated instructions are made to compute wrong products."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

from inference_worker.engine.native.amx_check import check_products
from inference_worker.engine.native.library import Kernels
from inference_worker.engine.native.packing import FLOATS, INT4, UNSIGNED8, PackedWeight
from inference_worker.errors import NativeUnavailable
from inference_worker.settings import ActivationBits
from tests.inference_worker.engine.conftest import AMX, EMULATED


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("instructions", AMX, indirect=True)
def test_right_products_pass(instructions: str, threads: int) -> None:
    kernels = Kernels(threads, instructions)
    check_products(kernels.linear, kernels.panel, threads)


@pytest.mark.parametrize(("form", "name"), [(INT4, "Int4Values"), (UNSIGNED8, "Int8Values")])
@pytest.mark.parametrize("bits", ["auto", 16, 8])
@pytest.mark.parametrize("of_prompt", [False, True])
def test_each_kind_of_products_is_checked(
    machine: ctypes.CDLL, form: int, name: str, bits: ActivationBits, of_prompt: bool
) -> None:
    kernels = Kernels(1, EMULATED)

    def linear(weight: PackedWeight, x: torch.Tensor, *, prompt: bool = False) -> torch.Tensor:
        machine.headrace_emulate_defect((weight.format, weight.activation_bits, prompt) == (form, bits, of_prompt))
        return kernels.linear(weight, x, prompt=prompt)

    with pytest.raises(NativeUnavailable, match=name):
        check_products(linear, kernels.panel)


def test_products_of_bfloat16_are_checked(machine: ctypes.CDLL) -> None:
    kernels = Kernels(1, EMULATED)

    def linear(weight: PackedWeight, x: torch.Tensor, **options: Any) -> torch.Tensor:
        machine.headrace_emulate_defect(weight.format == FLOATS[torch.bfloat16])
        return kernels.linear(weight, x, **options)

    with pytest.raises(NativeUnavailable, match="products of bfloat16 than PyTorch"):
        check_products(linear, kernels.panel)
