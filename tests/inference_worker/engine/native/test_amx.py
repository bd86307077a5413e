"""Tests of AMX, by emulated instructions: products are as the manual says, and without it the kernels use AVX-512."""

from __future__ import annotations

import ctypes
import errno
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from structlog.testing import capture_logs

from inference_worker.engine.native import amx, library
from inference_worker.engine.native.amx import FEW, check_products, request_tiles
from inference_worker.engine.native.build import INSTRUCTION_SETS, SOURCES, built_library, find_compiler
from inference_worker.engine.native.library import Kernels, usable_instructions
from inference_worker.engine.native.packing import (
    FLOATS,
    GROUP,
    INT4,
    UNSIGNED8,
    Int4Values,
    Int8Values,
    PackedWeight,
    Values,
    pack,
)
from inference_worker.errors import NativeUnavailable
from inference_worker.settings import ActivationBits
from tests.inference_worker.engine.conftest import EMULATED, emulated_amx

FORMATS: dict[type[Values], int] = {Int4Values: INT4, Int8Values: UNSIGNED8}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    """A machine whose processor has AMX, permitted; the library has `headrace_emulate_defect`."""
    if missing := INSTRUCTION_SETS["avx512bf16"].missing():
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    monkeypatch.setitem(INSTRUCTION_SETS, EMULATED, replace(emulated_amx(), tiles=True))
    monkeypatch.setattr(library, "best_instructions", lambda: EMULATED)
    monkeypatch.setattr(library, "request_tiles", lambda: None)
    usable_instructions.cache_clear()
    emulation = ctypes.CDLL(str(built_library(EMULATED)))
    yield emulation
    emulation.headrace_emulate_defect(False)
    usable_instructions.cache_clear()


def values_of(kind: type[Values], outputs: int, inputs: int) -> Values:
    generator = torch.Generator().manual_seed(outputs + inputs)
    if kind is Int8Values:
        return Int8Values.of(torch.randn(outputs, inputs, generator=generator))
    codes = torch.randint(0, 16, (outputs, inputs), generator=generator, dtype=torch.uint8)
    scales, minimums = torch.rand(2, outputs, inputs // GROUP, generator=generator)
    return Int4Values(codes, scales, -8 * minimums)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("bits", ["auto", 16, 8])
@pytest.mark.parametrize(("outputs", "inputs"), [(16, 32), (37, 96), (160, 224)])
def test_products_are_bit_for_bit_those_of_avx512(
    kind: type[Values], bits: ActivationBits, outputs: int, inputs: int
) -> None:
    tiles, vectors = Kernels(2, EMULATED), Kernels(2, "avx512")
    weight = pack(values_of(kind, outputs, inputs), torch.randn(outputs), panel=tiles.panel, activation_bits=bits)
    for rows in (1, FEW, FEW + 1, FEW + 2, 55, 300):
        x = torch.randn(rows, inputs) * torch.logspace(-3, 3, inputs)[torch.randperm(inputs)]
        x[rows // 2] = 0
        assert torch.equal(tiles.linear(weight, x), vectors.linear(weight, x))


def test_products_are_checked_at_the_start(machine: ctypes.CDLL) -> None:
    with capture_logs() as logs:
        assert usable_instructions() == EMULATED
    assert logs == []
    usable_instructions.cache_clear()
    machine.headrace_emulate_defect(True)
    with capture_logs() as logs:
        assert usable_instructions() == "avx512bf16"
    assert [(line["event"], line["reason"]) for line in logs] == [
        ("the kernels don't use AMX", "AMX computes other products of Int4Values than AVX-512")
    ]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("bits", ["auto", 16, 8])
def test_the_check_covers_each_kind_of_products(machine: ctypes.CDLL, kind: type[Values], bits: ActivationBits) -> None:
    kernels = Kernels(1, EMULATED)

    def linear(weight: PackedWeight, x: torch.Tensor) -> torch.Tensor:
        machine.headrace_emulate_defect((weight.format, weight.activation_bits) == (FORMATS[kind], bits))
        return kernels.linear(weight, x)

    with pytest.raises(NativeUnavailable, match=kind.__name__):
        check_products(linear, kernels.panel)


def test_the_check_covers_bfloat16(machine: ctypes.CDLL) -> None:
    kernels = Kernels(1, EMULATED)

    def linear(weight: PackedWeight, x: torch.Tensor) -> torch.Tensor:
        machine.headrace_emulate_defect(weight.format == FLOATS[torch.bfloat16])
        return kernels.linear(weight, x)

    with pytest.raises(NativeUnavailable, match="products of bfloat16 than PyTorch"):
        check_products(linear, kernels.panel)


def tile_product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Products in the order of TDPBF16PS: even and odd inputs of 32 by FMA, both added, then added to the sum."""
    total = torch.zeros(len(x), len(weight))
    for start in range(0, x.shape[1], GROUP):
        parts = torch.zeros(2, len(x), len(weight))
        for i in range(start, start + GROUP):  # products of bfloat16 are exact in float64, and a sum is rounded once
            fused = x[:, i, None].double() * weight[None, :, i].double() + parts[i % 2].double()
            parts[i % 2] = fused.float()
        total += parts[0] + parts[1]
    return total


@pytest.mark.usefixtures("machine")
def test_products_of_bfloat16_are_those_of_tiles_for_any_number_of_rows() -> None:
    kernels = Kernels(2, EMULATED)
    weight, x = torch.randn(48, 3 * GROUP).bfloat16(), torch.randn(2 * 32 + 18, 3 * GROUP)
    expected = tile_product(x.bfloat16().float(), weight.float())
    packed = pack(weight, panel=kernels.panel, paired=kernels.multiplies_bfloat16)
    for rows in range(1, len(x) + 1):
        assert torch.equal(kernels.linear(packed, x[:rows]), expected[:rows])


@pytest.mark.parametrize(("rows", "shapes"), [(64, 1), (15, 1), (32 + 20, 2), (32 + 5, 2)])
def test_tiles_are_configured_when_the_number_of_rows_changes_and_released_at_the_end(
    machine: ctypes.CDLL, rows: int, shapes: int
) -> None:
    kernels, panels = Kernels(1, EMULATED), 5
    weight = pack(torch.randn(panels * kernels.panel, GROUP).bfloat16(), panel=kernels.panel, paired=True)
    before = machine.headrace_emulated_configurations()
    kernels.linear(weight, torch.randn(rows, GROUP))
    loaded = machine.headrace_emulated_configurations() - before
    assert loaded == (1 if shapes == 1 else panels * shapes)
    assert machine.headrace_emulated_users() == 0


@pytest.mark.parametrize("kind", FORMATS)
def test_no_thread_keeps_its_tiles_configured(machine: ctypes.CDLL, kind: type[Values]) -> None:
    kernels = Kernels(3, EMULATED)
    weight = pack(values_of(kind, 400, 96), panel=kernels.panel, activation_bits="auto")
    kernels.linear(weight, torch.randn(300, 96))
    assert machine.headrace_emulated_configurations() > 0
    assert machine.headrace_emulated_users() == 0


@pytest.mark.usefixtures("machine")
def test_without_permission_the_kernels_use_avx512_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "request_tiles", request_tiles)
    monkeypatch.setattr(amx, "_XTILEDATA", 63)  # no feature of any processor
    with capture_logs() as logs:
        assert usable_instructions() == "avx512bf16"
        assert Kernels(1).instructions == "avx512bf16"
    assert len(logs) == 1
    assert logs[0]["log_level"] == "warning"
    assert logs[0]["reason"].startswith("no permission to use AMX: ")


@pytest.mark.parametrize("refusal", [errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP])
def test_permission_is_requested_for_tile_data(monkeypatch: pytest.MonkeyPatch, refusal: int) -> None:
    calls: list[tuple[int, ...]] = []

    class System:
        def syscall(self, *arguments: ctypes.c_long) -> int:
            calls.append(tuple(each.value for each in arguments))
            ctypes.set_errno(refusal if len(calls) > 1 else 0)
            return -1 if len(calls) > 1 else 0

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: System())
    request_tiles()
    assert calls == [(158, 0x1023, 18)]
    with pytest.raises(NativeUnavailable, match="no permission to use AMX"):
        request_tiles()


def test_the_processors_own_instructions_compile(tmp_path: Path) -> None:
    """Not optimised, which takes less time; what they compute is tested where a processor has them."""
    flags = ["-std=c++20", "-fPIC", "-shared", *INSTRUCTION_SETS["amx"].flags]
    target = tmp_path / "kernels.so"
    command = [find_compiler(), *flags, "-o", str(target), *map(str, SOURCES.glob("*.cpp"))]
    assert subprocess.run(command, check=False, capture_output=True, text=True).stderr == ""
    assert target.is_file()
