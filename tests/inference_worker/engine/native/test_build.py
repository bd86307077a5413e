"""Tests of the build: kernels are compiled once, and failures are reported."""

from __future__ import annotations

import os
import platform
import stat
from pathlib import Path

import pytest
import torch

from inference_worker.engine.native import build
from inference_worker.errors import NativeUnavailable


def compiler(folder: Path, script: str) -> str:
    """A fake g++."""
    path = folder / "c++"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "headrace"


def test_compiles_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    copy = 'while [ "$1" != -o ]; do shift; done; echo built > "$2"'
    monkeypatch.setenv("CXX", compiler(tmp_path, f'[ "$1" = --version ] && exit; echo run >> {log}; {copy}'))
    first = build.built_library("avx2")
    assert (first, first.read_text()) == (build.built_library("avx2"), "built\n")
    assert log.read_text() == "run\n"
    assert [path.name for path in cache.iterdir()] == [first.name]


def test_another_compiler_has_another_file(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = 'while [ "$1" != -o ]; do shift; done; : > "$2"'
    names = set()
    for version in ("1", "2"):
        monkeypatch.setenv("CXX", compiler(tmp_path, f'[ "$1" = --version ] && echo {version} && exit; {copy}'))
        names.add(build.built_library("avx2").name)
    assert len(names) == 2


def test_a_compiler_error_is_in_the_message(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = '[ "$1" = --version ] && exit; echo "error: no such thing" >&2; exit 1'
    monkeypatch.setenv("CXX", compiler(tmp_path, script))
    with pytest.raises(NativeUnavailable, match="error: no such thing"):
        build.built_library("avx2")
    assert list(cache.iterdir()) == []


def test_no_compiler(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(NativeUnavailable, match="g\\+\\+ or clang\\+\\+ is not installed"):
        build.built_library("avx2")


def test_each_instruction_set_has_its_own_file(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = 'all=$*; while [ "$1" != -o ]; do shift; done; echo "$all" > "$2"'
    monkeypatch.setenv("CXX", compiler(tmp_path, f'[ "$1" = --version ] && exit; {copy}'))
    commands = {name: build.built_library(name).read_text() for name in build.INSTRUCTION_SETS}
    assert len(set(commands.values())) == len(commands)
    assert {name for name, command in commands.items() if "-mavx512vnni" in command} == {"avx512", "avx512bf16", "amx"}
    assert {name for name, command in commands.items() if "-mavx512bf16" in command} == {"avx512bf16", "amx"}
    assert {name for name, command in commands.items() if "-mamx-int8" in command} == {"amx"}
    assert {name for name, command in commands.items() if "-mavx2" in command} == {
        "avx2",
        "avx512",
        "avx512bf16",
        "amx",
    }
    assert {name for name, command in commands.items() if "+i8mm" in command} == {"i8mm"}
    assert {name for name, command in commands.items() if "-march=armv8.2-a+dotprod" in command} == {"neon", "i8mm"}


@pytest.mark.parametrize(
    ("machine", "names"),
    [("x86_64", ["amx", "avx512bf16", "avx512", "avx2"]), ("aarch64", ["i8mm", "neon"])],
)
def test_an_image_ships_its_architectures_instruction_sets_and_needs_no_compiler(
    machine: str, names: list[str], tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    copy = 'while [ "$1" != -o ]; do shift; done; echo built > "$2"'
    monkeypatch.setattr(build, "PREBUILT", tmp_path / "prebuilt")
    monkeypatch.setenv("CXX", compiler(tmp_path, copy))
    shipped = build.prebuild()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", os.devnull)
    assert [build.built_library(name) for name in names] == shipped
    assert len({path.name for path in shipped}) == len(names)
    assert not cache.exists()


def test_shipped_kernels_of_other_sources_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = 'while [ "$1" != -o ]; do shift; done; echo built > "$2"'
    monkeypatch.setattr(build, "PREBUILT", tmp_path / "prebuilt")
    monkeypatch.setenv("CXX", compiler(tmp_path, copy))
    build.prebuild()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr(build, "FLAGS", ("-O2",))
    with pytest.raises(NativeUnavailable, match="is not installed"):
        build.built_library(build.own_instruction_sets()[0].name)


AVX2 = dict.fromkeys(("avx2", "fma3", "f16c"), True)
AVX512 = AVX2 | dict.fromkeys(("avx512_f", "avx512_bw", "avx512_dq", "avx512_vl", "avx512_vnni"), True)
AVX512_BF16 = AVX512 | {"avx512_bf16": True}
AMX = AVX512_BF16 | {"amx_tile": True, "amx_int8": True, "amx_bf16": True}
NEON = {"neon": True, "dot": True}


@pytest.mark.parametrize(
    ("machine", "has", "best"),
    [
        ("x86_64", AMX, "amx"),
        ("x86_64", AMX | {"amx_int8": False}, "avx512bf16"),
        ("x86_64", AMX | {"amx_bf16": False}, "avx512bf16"),
        ("x86_64", AVX512, "avx512"),
        ("x86_64", AVX512 | {"avx512_vnni": False}, "avx2"),
        ("x86_64", AVX2, "avx2"),
        ("aarch64", NEON | {"i8mm": True}, "i8mm"),
        ("aarch64", NEON, "neon"),
    ],
)
def test_the_fastest_available_instruction_set_is_used(
    monkeypatch: pytest.MonkeyPatch, machine: str, has: dict[str, bool], best: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)
    assert build.best_instructions() == best


def test_the_fastest_instruction_set_without_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: AMX)
    assert build.best_instructions(tiles=False) == "avx512bf16"


@pytest.mark.parametrize(
    ("machine", "has", "reason"),
    [
        ("x86_64", {"avx2": False, "fma3": True}, "lacks avx2, f16c"),
        ("aarch64", {"neon": True, "dot": False, "i8mm": True}, "lacks dot"),
        ("riscv64", AMX | NEON, "no kernels for riscv64"),
    ],
)
def test_an_unsupported_processor(
    monkeypatch: pytest.MonkeyPatch, machine: str, has: dict[str, bool], reason: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)
    with pytest.raises(NativeUnavailable, match=reason):
        build.best_instructions()
