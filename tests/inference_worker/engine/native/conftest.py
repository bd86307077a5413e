"""A machine with AMX whose instructions are emulated, for tests of its check."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inference_worker.engine.native import amx, library
from inference_worker.engine.native.build import INSTRUCTION_SETS, built_library
from inference_worker.engine.native.library import usable_instructions
from tests.inference_worker.engine.conftest import EMULATED, emulated_amx

_CHECK = """
import ctypes, sys
from inference_worker.engine.native import amx_check
from inference_worker.engine.native.build import INSTRUCTION_SETS, built_library
from tests.inference_worker.engine.conftest import EMULATED, emulated_amx

INSTRUCTION_SETS[EMULATED] = emulated_amx()
ctypes.CDLL(str(built_library(EMULATED))).headrace_emulate_defect({defect})
amx_check.main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
"""


def emulated_check(*, defect: bool = False) -> tuple[str, ...]:
    """The command that checks products by the emulated instructions, in place of `amx.CHECK`."""
    return sys.executable, "-c", _CHECK.format(defect=defect)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ctypes.CDLL]:
    """A machine whose processor has AMX, permitted and not checked yet; the library has `headrace_emulate_defect`."""
    if missing := INSTRUCTION_SETS["avx512bf16"].missing():
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    monkeypatch.setitem(INSTRUCTION_SETS, EMULATED, replace(emulated_amx(), tiles=True))
    monkeypatch.setattr(library, "best_instructions", lambda *, tiles=True: EMULATED if tiles else "avx512bf16")
    monkeypatch.setattr(library, "request_tiles", lambda: None)
    monkeypatch.setattr(amx, "CHECK", emulated_check())
    monkeypatch.setattr(amx, "cache_folder", lambda: tmp_path)
    usable_instructions.cache_clear()
    emulation = ctypes.CDLL(str(built_library(EMULATED)))
    yield emulation
    emulation.headrace_emulate_defect(False)
    usable_instructions.cache_clear()
