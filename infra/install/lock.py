"""Writes the lock files of Python packages in `infra/install/locks/` with uv; run by `make lock`.

Must use the standard library only.

One resolution of all extras and groups decides the versions, so that every lock has the same ones. A version that is
locked already is kept while pyproject.toml allows it; `python3 -m infra.install.lock --upgrade` takes the newest.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from infra.install.python_packages import LOCKS, STORE_PACKAGE
from infra.install.step import ROOT

UV = "uv==0.13.9"
PROJECT = str(ROOT / "pyproject.toml")
RESOLVE = ("--universal", "--python-version", "3.11", "--no-build", "--fork-strategy", "fewest")
GROUPS = {
    "gateway": ["--extra", "gateway", "--extra", "s3"],
    "billing": ["--extra", "billing"],
    "worker": ["--extra", "worker"],
    "proxy": ["--extra", "proxy"],
    "assistant": ["--extra", "assistant", "--extra", "s3"],
    "images": ["--extra", "worker", "--extra", "images"],
    "all": ["--extra", "all"],
    "dev": ["--extra", "all", "--extra", "images", "--extra", "s3", "--group", "dev"],
}
"""uv's options that select the dependencies of each lock, by the lock's name."""

CUDA_PACKAGE = re.compile(r"nvidia-|cuda-|triton$")
"""Matches the names of the packages that only PyTorch's builds for CUDA require."""

HEADER = "# Written by `make lock` from pyproject.toml: edit that instead.\n"
CPU_HEADER = (
    HEADER
    + """# Without a hash: builds for the CPU are published outside of PyPI, as other files with other hashes. pip's
# configuration selects the file (an extra index or a folder of wheels). torch-cuda.txt has the builds of PyPI.
"""
)


class Resolver:
    """Resolves package versions with uv in a temporary virtual environment, and writes lock files of them."""

    def __init__(self, folder: Path, *, upgrade: bool) -> None:
        """Create a virtual environment with uv in `folder`; `upgrade` prefers newest versions over locked ones."""
        self._folder = folder
        self._upgrade = upgrade
        self._versions = folder / "versions.txt"
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        subprocess.run([str(folder / "venv/bin/python"), "-m", "pip", "install", "--quiet", UV], check=True)

    def resolve(self) -> dict[str, str]:
        """Resolve all dependencies of the project, and return the version of each package by name."""
        if not self._upgrade:  # uv prefers the versions of an existing output file
            locked = {line for lock in LOCKS.glob("*.txt") for line in _requirements(lock.read_text())}
            self._versions.write_text("".join(f"{line}\n" for line in sorted(locked)))
        self._compile(self._versions, [PROJECT, *GROUPS["dev"], *RESOLVE])
        lines = _requirements(self._versions.read_text())
        return dict(line.partition(";")[0].strip().split("==") for line in lines)

    def write(self, lock: str, arguments: Sequence[str], leave_out: Sequence[str]) -> None:
        """Write the lock file `lock` of the dependencies: versions with hashes, without those in `leave_out`."""
        target = LOCKS / f"{lock}.txt"
        if self._upgrade:
            target.unlink(missing_ok=True)
        omitted = [option for name in leave_out for option in ("--no-emit-package", name)]
        self._compile(
            target, [*arguments, *RESOLVE, "--constraints", str(self._versions), "--generate-hashes", *omitted]
        )
        target.write_text(HEADER + target.read_text())

    def write_requirements(self, lock: str, requirements: Sequence[str], leave_out: Sequence[str] = ()) -> None:
        """Write the lock file `lock` of `requirements`: versions with hashes, without the packages `leave_out`."""
        source = self._folder / f"{lock}.in"
        source.write_text("\n".join(requirements))
        self.write(lock, [str(source)], leave_out)

    def _compile(self, target: Path, arguments: Sequence[str]) -> None:
        uv = [str(self._folder / "venv/bin/uv"), "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
        subprocess.run([*uv, *arguments, "--output-file", str(target)], check=True, stdout=subprocess.DEVNULL)


def _requirements(lock: str) -> list[str]:
    """Return the requirements of a lock, `name==version ; marker`, without hashes and comments."""
    return [line.rstrip(" \\") for line in lock.splitlines() if re.match(r"[a-z0-9.-]+==", line)]


def write_locks(*, upgrade: bool) -> None:
    """Write all lock files of the project; with `upgrade` to the newest versions instead of those locked already."""
    project = tomllib.loads(Path(PROJECT).read_text())
    LOCKS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        resolver = Resolver(Path(scratch), upgrade=upgrade)
        versions = resolver.resolve()
        cuda = [name for name in versions if CUDA_PACKAGE.match(name)]
        for name, arguments in GROUPS.items():
            # The tests interpret Triton's kernels on the CPU.
            left_out = [package for package in cuda if name != "dev" or package != "triton"]
            resolver.write(name, [PROJECT, *arguments], ["torch", *left_out])
        torch = f"torch=={versions['torch']}"
        resolver.write_requirements("torch-cuda", [torch], sorted(versions.keys() - {"torch", *cuda}))
        (LOCKS / "torch-cpu.txt").write_text(f"{CPU_HEADER}{torch}\n")
        resolver.write_requirements("build", ["pip>=25.1", *project["build-system"]["requires"]])
        resolver.write_requirements("sbom", project["dependency-groups"]["sbom"])
        resolver.write_requirements("store", [STORE_PACKAGE])


def main() -> int:
    """Run `python3 -m infra.install.lock [--upgrade]`: write all lock files and return the exit status."""
    parser = argparse.ArgumentParser(prog="infra.install.lock", description="Write the locks of Python packages.")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that pyproject.toml allows")
    try:
        write_locks(upgrade=parser.parse_args().upgrade)
    except subprocess.CalledProcessError as error:
        print(f"headrace: `{' '.join(error.cmd[:4])} ...` failed with status {error.returncode}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
