"""Sources of client libraries with their tests, downloaded from the package index into `HEADRACE_HOME`."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.platform_stack import INSTALLED

SUITES = INSTALLED / "suites"


class SourceUnavailable(Exception):
    """Raised when a package can't be downloaded; the message is pip's."""


def source(package: str) -> Path:
    """Return the folder with the source of `package` in the version that is installed here; download it once.

    Raises:
        SourceUnavailable: The package index can't be reached, or has no source of this version.
    """
    version = metadata.version(package)
    folder = SUITES / f"{package}-{version}"
    if not folder.is_dir():
        options = ["--no-deps", "--no-binary", ":all:", "--dest", str(SUITES)]
        _pip(sys.executable, "download", *options, f"{package}=={version}")
        with tarfile.open(SUITES / f"{folder.name}.tar.gz") as archive:
            archive.extractall(SUITES, filter="data")
    return folder


def environment_of(name: str, requirements: Sequence[str]) -> Path:
    """Return the Python of a virtual environment with `requirements`; install it once for each list of them.

    Raises:
        SourceUnavailable: The package index can't be reached, or has not all of them.
    """
    folder = SUITES / name
    python, stamp = folder / "bin" / "python", folder / "requirements.txt"
    wanted = "\n".join(requirements)
    if not stamp.is_file() or stamp.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        _pip(str(python), "install", *requirements)
        stamp.write_text(wanted)
    return python


def _pip(python: str, *arguments: str) -> None:
    SUITES.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([python, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SourceUnavailable(done.stderr.strip()[-500:])
