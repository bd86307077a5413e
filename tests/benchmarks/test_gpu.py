"""The program of the GPU benchmark runs on the CPU, in Triton's interpreter, and writes no result there."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton", reason="there are builds of Triton for Linux only")

from benchmarks import gpu
from benchmarks.gpu_models import STORAGES


def test_formats_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.main(["--device", "cpu", "--quick", "--formats", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    for storage in STORAGES:
        assert storage.weights in printed
    assert "prefill" in printed
    assert not list(tmp_path.iterdir())


def test_the_cpu_runs_the_quick_plan_only() -> None:
    with pytest.raises(SystemExit, match="only `--quick` runs"):
        gpu.main(["--device", "cpu"])
