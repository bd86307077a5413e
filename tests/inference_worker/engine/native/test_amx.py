"""Tests of AMX, by emulated instructions and the processor's own: products are as the manual says; its check."""

from __future__ import annotations

import ctypes
import errno
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from structlog.testing import capture_logs

from inference_worker.engine.native import amx
from inference_worker.engine.native.amx import check_in_child, request_tiles
from inference_worker.engine.native.amx_check import FEW
from inference_worker.engine.native.build import INSTRUCTION_SETS, SOURCES, find_compiler
from inference_worker.engine.native.library import Kernels
from inference_worker.engine.native.packing import GROUP, Int4Values, Int8Values, Values, pack
from inference_worker.errors import NativeUnavailable
from inference_worker.settings import ActivationBits
from tests.inference_worker.engine.conftest import AMX, EMULATED


def values_of(kind: type[Values], outputs: int, inputs: int) -> Values:
    generator = torch.Generator().manual_seed(outputs + inputs)
    if kind is Int8Values:
        return Int8Values.of(torch.randn(outputs, inputs, generator=generator))
    codes = torch.randint(0, 16, (outputs, inputs), generator=generator, dtype=torch.uint8)
    scales, minimums = torch.rand(2, outputs, inputs // GROUP, generator=generator)
    return Int4Values(codes, scales, -8 * minimums)


@pytest.mark.parametrize("instructions", AMX, indirect=True)
@pytest.mark.parametrize("kind", [Int4Values, Int8Values])
@pytest.mark.parametrize("bits", ["auto", 16, 8])
@pytest.mark.parametrize(("outputs", "inputs"), [(16, 32), (37, 96), (160, 224)])
def test_products_are_bit_for_bit_those_of_avx512(
    instructions: str, kind: type[Values], bits: ActivationBits, outputs: int, inputs: int
) -> None:
    tiles, vectors = Kernels(2, instructions), Kernels(2, "avx512")
    weight = pack(values_of(kind, outputs, inputs), torch.randn(outputs), panel=tiles.panel, activation_bits=bits)
    for rows in (1, FEW, FEW + 1, FEW + 2, 55, 300):
        x = torch.randn(rows, inputs) * torch.logspace(-3, 3, inputs)[torch.randperm(inputs)]
        x[rows // 2] = 0
        assert torch.equal(tiles.linear(weight, x), vectors.linear(weight, x))


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


@pytest.mark.parametrize("instructions", AMX, indirect=True)
def test_products_of_bfloat16_are_those_of_tiles_for_any_number_of_rows(instructions: str) -> None:
    kernels = Kernels(2, instructions)
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


@pytest.mark.parametrize("kind", [Int4Values, Int8Values])
def test_no_thread_keeps_its_tiles_configured(machine: ctypes.CDLL, kind: type[Values]) -> None:
    kernels = Kernels(3, EMULATED)
    weight = pack(values_of(kind, 400, 96), panel=kernels.panel, activation_bits="auto")
    before = machine.headrace_emulated_configurations()
    kernels.linear(weight, torch.randn(300, 96))
    assert machine.headrace_emulated_configurations() > before
    assert machine.headrace_emulated_users() == 0


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (errno.EPERM, "Operation not permitted"),
        (errno.EINVAL, "Linux is older than 5.16, or a sandbox hides AMX"),
        (errno.ENOSPC, "the alternate signal stack of a thread is too small"),
        (errno.EOPNOTSUPP, "Operation not supported"),
    ],
)
def test_permission_is_requested_for_tile_data(monkeypatch: pytest.MonkeyPatch, refusal: int, reason: str) -> None:
    calls: list[tuple[int, ...]] = []

    class System:
        def syscall(self, *arguments: ctypes.c_long) -> int:
            calls.append(tuple(each.value for each in arguments))
            ctypes.set_errno(refusal if len(calls) > 1 else 0)
            return -1 if len(calls) > 1 else 0

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: System())
    request_tiles()
    assert calls == [(158, 0x1023, 18)]
    with pytest.raises(NativeUnavailable, match=f"no permission to use AMX: {reason}"):
        request_tiles()


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file with the id of the machine's boot; results of checks are noted beside it."""
    path = tmp_path / "boot_id"
    path.write_text("first")
    monkeypatch.setattr(amx, "BOOT_ID", path)
    monkeypatch.setattr(amx, "cache_folder", lambda: tmp_path / "cache")
    return path


def set_check(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Set a stand-in for the check of products."""
    monkeypatch.setattr(amx, "CHECK", (sys.executable, "-c", f"import os, signal, sys, time; {script}"))


def test_a_library_is_checked_once_per_boot_and_processor(
    monkeypatch: pytest.MonkeyPatch, boot: Path, tmp_path: Path
) -> None:
    runs, processors = tmp_path / "runs", tmp_path / "cpuinfo"
    monkeypatch.setattr(amx, "PROCESSORS", processors)
    set_check(monkeypatch, f"print(*sys.argv[2:], file=open({str(runs)!r}, 'a'))")
    for name, microcode in (("first", 1), ("first", 1), ("second", 1), ("second", 2)):
        boot.write_text(name)
        processors.write_text(f"processor: 0\nmicrocode: {microcode}\ncpu MHz: {time.monotonic()}\n\nprocessor: 1\n")
        check_in_child("amx", Path("kernels-amx.so"), threads=2)
    assert runs.read_text() == "amx 2\n" * 3
    check_in_child("amx", Path("kernels-amx-of-other-sources.so"), threads=2)
    assert len(runs.read_text().splitlines()) == 4


@pytest.mark.usefixtures("boot")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGILL)", "ended by signal 4, Illegal instruction"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by signal 11, Segmentation fault"),
        ("sys.exit('wrong products')", "^wrong products$"),
        ("raise OSError('no disk')", "^OSError: no disk$"),
        ("os._exit(3)", "without a message"),
        ("time.sleep(60)", "can't check AMX: .* timed out"),
    ],
)
def test_a_failed_check_says_why_and_is_repeated(monkeypatch: pytest.MonkeyPatch, script: str, reason: str) -> None:
    if "sleep" in script:
        monkeypatch.setattr(amx, "_TIMEOUT", 0.2)
    set_check(monkeypatch, script)
    for _ in range(2):
        with pytest.raises(NativeUnavailable, match=reason):
            check_in_child("amx", Path("kernels-amx.so"), threads=2)


@pytest.mark.usefixtures("boot")
def test_a_result_that_can_not_be_noted_is_logged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cache").touch()  # no folder
    set_check(monkeypatch, "pass")
    with capture_logs() as logs:
        check_in_child("amx", Path("kernels-amx.so"), threads=2)
    assert [line["event"] for line in logs] == ["AMX is checked again at the next start"]


def test_the_processors_own_instructions_compile(tmp_path: Path) -> None:
    """Not optimised, which takes less time; what they compute is tested where a processor has them."""
    flags = ["-std=c++20", "-fPIC", "-shared", *INSTRUCTION_SETS["amx"].flags]
    target = tmp_path / "kernels.so"
    command = [find_compiler(), *flags, "-o", str(target), *map(str, SOURCES.glob("*.cpp"))]
    assert subprocess.run(command, check=False, capture_output=True, text=True).stderr == ""
    assert target.is_file()
