"""Tests of the choice of instructions: the fastest that work, or those of the setting and no others."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from typing import cast

import pytest
import torch
from structlog.testing import capture_logs

from inference_worker.engine.native import amx, library
from inference_worker.engine.native.amx import request_tiles
from inference_worker.engine.native.build import INSTRUCTION_SETS, own_instruction_sets
from inference_worker.engine.native.library import Kernels, usable_instructions
from inference_worker.errors import ModelError, NativeUnavailable
from inference_worker.settings import Instructions
from tests.inference_worker.engine.conftest import EMULATED
from tests.inference_worker.engine.native.conftest import emulated_check

CRASH = (sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
CRASHED = "the check of AMX was ended by signal 4, Illegal instruction"


@pytest.mark.usefixtures("machine")
def test_amx_is_used_once_its_products_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with capture_logs() as logs:
        assert usable_instructions("auto") == EMULATED
        usable_instructions.cache_clear()
        monkeypatch.setattr(amx, "CHECK", CRASH)  # the next process has it checked no more
        assert usable_instructions("auto") == EMULATED
    assert logs == []


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (emulated_check(defect=True), "AMX computes other products of Int4Values for many rows than for few"),
        (CRASH, CRASHED),
    ],
)
def test_amx_that_fails_its_check_is_not_used(
    monkeypatch: pytest.MonkeyPatch, check: tuple[str, ...], reason: str
) -> None:
    monkeypatch.setattr(amx, "CHECK", check)
    with capture_logs() as logs:
        assert usable_instructions("auto") == "avx512bf16"
        assert Kernels(1).instructions == "avx512bf16"
    assert logs == [{"event": "the kernels don't use AMX", "reason": reason, "log_level": "warning"}]


@pytest.mark.usefixtures("machine")
def test_without_permission_the_kernels_use_avx512_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "request_tiles", request_tiles)
    monkeypatch.setattr(amx, "_XTILEDATA", 63)  # no feature of any processor
    with capture_logs() as logs:
        assert usable_instructions("auto") == "avx512bf16"
    assert [line["reason"].partition(":")[0] for line in logs] == ["no permission to use AMX"]


def test_the_setting_selects_any_instructions_of_this_processor() -> None:
    names: list[Instructions] = ["avx2", "neon"]
    name = names[platform.machine() == "aarch64"]
    assert usable_instructions(name) == name


@pytest.mark.usefixtures("machine")
def test_amx_of_the_setting_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amx, "CHECK", CRASH)
    with pytest.raises(ModelError, match=f"^instructions {EMULATED}: {CRASHED}$"):
        usable_instructions(cast(Instructions, EMULATED))


def test_instructions_of_the_setting_that_the_processor_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[Instructions] = ["neon", "avx2"]
    foreign = names[platform.machine() == "aarch64"]
    with pytest.raises(ModelError, match=f"^instructions {foreign}: these kernels are for .*, and this machine is "):
        usable_instructions(foreign)
    own = own_instruction_sets()[-1]
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    with pytest.raises(ModelError, match=f"^instructions .*: this processor lacks {', '.join(own.needed)}$"):
        usable_instructions.__wrapped__(own.name)


def test_kernels_that_an_old_compiler_built_without_tiles_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    own = own_instruction_sets()[-1]
    monkeypatch.setitem(INSTRUCTION_SETS, own.name, replace(own, tiles=True))
    monkeypatch.setattr(library, "request_tiles", lambda: None)
    library._load.cache_clear()
    with pytest.raises(NativeUnavailable, match="without AMX's tiles"):
        Kernels(1, own.name)
