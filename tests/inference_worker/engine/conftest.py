"""The kernels in every instruction set that this processor has; AMX's by emulated instructions, ARM's by QEMU."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from inference_worker.engine.native import library
from inference_worker.engine.native.amx import request_tiles
from inference_worker.engine.native.build import INSTRUCTION_SETS, InstructionSet
from inference_worker.errors import NativeUnavailable
from tests.inference_worker.engine.emulated_library import EmulatedLibrary, compile_program, is_foreign

EMULATION = Path(__file__).parent / "native" / "amx_emulation.h"
EMULATED = "amx-emulated"
AMX = (EMULATED, "amx")
"""AMX's instruction sets for the fixture `instructions`: emulated, and the processor's own where it has them."""


def emulated_amx() -> InstructionSet:
    """The kernels for AMX, compiled with `EMULATION` in place of the processor's instructions."""
    version = hashlib.sha256(EMULATION.read_bytes()).hexdigest()  # compiled kernels are found by their flags
    flags = (*INSTRUCTION_SETS["amx"].flags, "-include", str(EMULATION), f"-DEMULATION_{version}")
    return replace(INSTRUCTION_SETS["amx"], needed=INSTRUCTION_SETS["avx512bf16"].needed, flags=flags, tiles=False)


@pytest.fixture(scope="session")
def served_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that runs ARM's kernels."""
    program = tmp_path_factory.mktemp("emulated") / "served_kernels"
    compile_program(program)
    return program


@pytest.fixture(scope="module", params=[*INSTRUCTION_SETS, EMULATED])
def instructions(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(INSTRUCTION_SETS, EMULATED, emulated_amx())
        if is_foreign(name) and INSTRUCTION_SETS[name].machine == "aarch64":
            patch.setattr(library, "_load", partial(EmulatedLibrary, request.getfixturevalue("served_kernels")))
        elif missing := INSTRUCTION_SETS[name].missing():
            pytest.skip(f"this processor lacks {', '.join(missing)}")
        try:
            if INSTRUCTION_SETS[name].tiles:
                request_tiles()
        except NativeUnavailable as reason:
            pytest.skip(str(reason))
        yield name
