"""Restricts a benchmark's programs to AVX2, to measure on a processor with AVX-512 what one without it would do.

    PYTHONPATH=benchmarks/avx2_only python -m benchmarks.server --server headrace --server vllm

The names of its results end in `-avx2`. Python runs this module at the start of each process. PyTorch and oneDNN obey
variables; our kernels and vLLM ask `torch.cpu`, whose answers are replaced when it is imported. llama.cpp has a build
of its own for this (`peers/llama_cpp.py`); OpenVINO is not restricted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import MappingProxyType, ModuleType

MISSING_FEATURES = ("avx512", "avx10", "avx_vnni", "avx_ne", "amx")
"""Prefixes of the names of processor features that are reported as missing."""


class _Finder(MetaPathFinder):
    """Finds `torch.cpu`, whose answers are replaced once it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch.cpu":
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_replace(module: ModuleType) -> None:
                load(module)
                _replace_answers(module)

            spec.loader.exec_module = load_and_replace  # type: ignore[method-assign]
        return spec


def _replace_answers(cpu: ModuleType) -> None:
    every = cpu.get_capabilities
    cpu.get_capabilities = lambda: MappingProxyType(  # type: ignore[attr-defined]
        {name: has and not name.startswith(MISSING_FEATURES) for name, has in every().items()}
    )
    for name in ("avx512", "avx512_bf16", "vnni", "amx_tile", "amx_fp16"):
        setattr(cpu, f"_is_{name}_supported", lambda: False)


os.environ |= {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "PYTHONPATH": str(Path(__file__).resolve().parent),  # for processes with another working folder
}
sys.meta_path.insert(0, _Finder())
