"""The kernels are compiled once, and a machine that can't do it is told why."""

from __future__ import annotations

import os
import stat

import pytest
import torch

from inference_worker.errors import NativeUnavailable
from inference_worker.native import build


def compiler(folder, script: str):
    """A stand-in for g++."""
    path = folder / "c++"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "headrace"


def test_compiles_once(tmp_path, cache, monkeypatch):
    log = tmp_path / "log"
    copy = 'while [ "$1" != -o ]; do shift; done; echo built > "$2"'
    monkeypatch.setenv("CXX", compiler(tmp_path, f'[ "$1" = --version ] && exit; echo run >> {log}; {copy}'))
    first = build.built_library()
    assert (first, first.read_text()) == (build.built_library(), "built\n")
    assert log.read_text() == "run\n"
    assert [path.name for path in cache.iterdir()] == [first.name]


def test_another_compiler_makes_another_file(tmp_path, cache, monkeypatch):
    copy = 'while [ "$1" != -o ]; do shift; done; : > "$2"'
    names = set()
    for version in ("1", "2"):
        monkeypatch.setenv("CXX", compiler(tmp_path, f'[ "$1" = --version ] && echo {version} && exit; {copy}'))
        names.add(build.built_library().name)
    assert len(names) == 2


def test_a_failing_compiler_is_quoted(tmp_path, cache, monkeypatch):
    script = '[ "$1" = --version ] && exit; echo "error: no such thing" >&2; exit 1'
    monkeypatch.setenv("CXX", compiler(tmp_path, script))
    with pytest.raises(NativeUnavailable, match="error: no such thing"):
        build.built_library()
    assert list(cache.iterdir()) == []


def test_no_compiler(cache, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(NativeUnavailable, match="g\\+\\+ or clang\\+\\+ is not installed"):
        build.built_library()


def test_another_processor(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": False, "fma3": True})
    with pytest.raises(NativeUnavailable, match="lacks avx2, f16c"):
        build.built_library()
