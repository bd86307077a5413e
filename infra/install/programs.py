"""Set-up steps that compile the engine's CPU kernels, and install programs for the tests, such as RabbitMQ.

Must use the standard library only.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from infra.install.python_packages import VENV
from infra.install.step import (
    ROOT,
    Installation,
    Step,
    apt_install,
    can_use_apt,
    fingerprint,
    has_stamp,
    run,
)

_PROGRAMS = {
    "rabbitmq-server": "rabbitmq-server",
    "chromium": "chromium",
    "tesseract-ocr": "tesseract",
    "g++-aarch64-linux-gnu": "aarch64-linux-gnu-g++",
    "qemu-user": "qemu-aarch64",
}
"""Programs by the Debian package that has them."""
_LANGUAGE_DATA = Path("/usr/share/tesseract-ocr")


def kernels_step(_: Installation, log: Path) -> Step:
    """Create the set-up step that compiles the engine's CPU kernels; without them the engine uses PyTorch's."""
    stamp = VENV / "kernels.stamp"
    native = ROOT / "inference_worker/engine/native"
    value = fingerprint([native / "build.py", *(native / "src").iterdir()], sys.version)

    def do() -> None:
        if can_use_apt() and shutil.which("g++") is None and shutil.which("clang++") is None:
            apt_install(["g++"], log)
        run([str(VENV / "bin/python"), "-m", "inference_worker.engine.native.build"], log)
        stamp.write_text(value)

    return Step("compiled kernels of the engine", lambda: has_stamp(stamp, value), do)


def programs_for_tests_step(installation: Installation, log: Path) -> Step:
    """Create the set-up step that installs the programs that tests use, if `make test` may install them."""

    def missing() -> list[str]:
        # Debian installs RabbitMQ's programs in a directory on root's PATH only.
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
        packages = [package for package, program in _PROGRAMS.items() if shutil.which(program, path=path) is None]
        return packages if list(_LANGUAGE_DATA.glob("*/tessdata/pol.traineddata")) else [*packages, "tesseract-ocr-pol"]

    def do() -> None:
        if not can_use_apt():
            print(f"tests that need them will be skipped: `sudo apt-get install {' '.join(missing())}`", flush=True)
            return
        apt_install(missing(), log)

    return Step("programs for the tests", lambda: not installation.dev or not missing(), do)
