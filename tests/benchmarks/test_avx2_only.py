from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest

from benchmarks.results import AVX2_ONLY, ROOT

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="needs a processor with AVX2")

ASK = """
import json, os, torch
from benchmarks.results import make_result, this_command, this_machine
from inference_worker.engine.native.build import best_instructions
from inference_worker.engine.loading.dtypes import weight_dtype

print(json.dumps({
    "kernels": best_instructions(),
    "pytorch": torch.backends.cpu.get_cpu_capability(),
    "vllm": torch.cpu._is_avx512_supported(),
    "dtype": str(weight_dtype("auto", torch.device("cpu"))),
    "isa": this_machine().isa,
    "name": make_result("speed", {}, []).name,
    "repeated": "PYTHONPATH=benchmarks/avx2_only" in this_command().split(),
    "inherited": os.environ["PYTHONPATH"],
}))
"""


def test_every_program_of_the_measurement_takes_the_processor_for_one_without_wider_vectors() -> None:
    variables = {**os.environ, "PYTHONPATH": "benchmarks/avx2_only"}
    asked = subprocess.run([sys.executable, "-c", ASK], cwd=ROOT, env=variables, capture_output=True, check=True)
    assert json.loads(asked.stdout) == {
        "kernels": "avx2",
        "pytorch": "AVX2",
        "vllm": False,
        "dtype": "torch.float32",
        "isa": ["avx2", "f16c", "fma"],
        "name": "speed-avx2",
        "repeated": True,
        "inherited": str(AVX2_ONLY),
    }
