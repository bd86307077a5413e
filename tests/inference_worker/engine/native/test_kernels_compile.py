"""The Triton kernels compile for a GPU. What they compute is tested beside what uses them, in the interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="there are builds of Triton for Linux only")


@pytest.mark.parametrize("capability", [80, 90])
def test_compiles(capability: int, tmp_path: Path) -> None:
    """Compile in a new process, because this one's kernels run in the interpreter."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    script = "tests.inference_worker.compile_kernels"
    done = subprocess.run(
        [sys.executable, "-m", script, str(capability)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(size > 0 for size in json.loads(done.stdout).values())
