"""Set-up steps that create virtual environments and install Python packages from `infra/install/locks/`.

Must use the standard library only.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from infra.install.step import (
    ROOT,
    STAMP,
    Installation,
    Step,
    StepFailed,
    apt_install,
    can_use_apt,
    fingerprint,
    has_stamp,
    run,
    succeeds,
)

VENV = ROOT / ".venv"
LOCKS = Path(__file__).parent / "locks"
"""Folder of the requirement files that `make lock` writes."""

STORE_PACKAGE = "secantusdb==0.7.0b3"
"""The embedded store: a separate program (GPL-2.0) in a separate virtual environment (docs/adr/0005)."""

PIP_INSTALL = ("-m", "pip", "install", "--no-deps")


def make_venv(folder: Path, log: Path) -> None:
    """Create a virtual environment in `folder`.

    If Debian's `python3-venv` is missing and this user is root, install that.
    """
    try:
        run([sys.executable, "-m", "venv", "--clear", str(folder)], log)
    except StepFailed as error:
        if not _lacks_ensurepip():
            raise
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        if not can_use_apt():
            raise StepFailed(
                f"this Python can't make virtual environments: `sudo apt-get install {package}`"
            ) from error
        apt_install([package], log)
        run([sys.executable, "-m", "venv", "--clear", str(folder)], log)


def _lacks_ensurepip() -> bool:
    return not succeeds([sys.executable, "-c", "import ensurepip, venv"])


def _usable(python: Path) -> bool:
    """Whether an environment is complete: an interrupted one has no pip, a moved one has no Python."""
    if not python.exists():
        return False
    same = tuple(sys.version_info[:2])
    return succeeds([str(python), "-c", f"import pip, sys; sys.exit(sys.version_info[:2] != {same})"])


def environment_step(_: Installation, log: Path) -> Step:
    """Create the set-up step that creates the virtual environment `.venv`, unless it is usable."""
    return Step("virtual environment", lambda: _usable(VENV / "bin/python"), lambda: make_venv(VENV, log))


def packages_step(installation: Installation, log: Path) -> Step:
    """Create the set-up step that installs the locked packages, PyTorch, and Headrace itself, editable."""
    lock = LOCKS / ("dev.txt" if installation.dev else "all.txt")
    stamp = VENV / STAMP
    value = fingerprint([ROOT / "pyproject.toml", *LOCKS.glob("*.txt")], sys.version, str(ROOT))
    python = VENV / "bin/python"

    def done() -> bool:
        return has_stamp(stamp, f"{value} dev") or (not installation.dev and has_stamp(stamp, value))

    def do() -> None:
        install_lock(python, LOCKS / "build.txt", log)
        install_lock(python, lock, log)
        install_lock(python, torch_lock(python, log), log)
        run([str(python), *PIP_INSTALL, "--no-build-isolation", "--editable", str(ROOT)], log)
        stamp.write_text(f"{value} dev" if installation.dev else value)

    return Step("Python packages (PyTorch is large: minutes on a slow line)", done, do)


def install_lock(python: Path, lock: Path, log: Path) -> None:
    """Install the packages of one lock file from wheels, by pip of `python`; pip verifies all if one has a hash."""
    run([str(python), *PIP_INSTALL, "--only-binary", ":all:", "--requirement", str(lock)], log)


def torch_lock(python: Path, log: Path) -> Path:
    """Return the lock file of the PyTorch build that pip selects: `torch-cuda.txt` or `torch-cpu.txt`.

    Installs nothing. It is `torch-cuda.txt` if that lists the selected file's hash.
    """
    cpu, cuda = LOCKS / "torch-cpu.txt", LOCKS / "torch-cuda.txt"
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        select = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--report", str(report)]
        run([str(python), *PIP_INSTALL, *select, "--requirement", str(cpu)], log)
        selected = json.loads(report.read_text())["install"][0]["download_info"]
    sha256 = selected.get("archive_info", {}).get("hashes", {}).get("sha256")
    return cuda if sha256 is not None and f"--hash=sha256:{sha256}" in cuda.read_text() else cpu


def store_step(installation: Installation, log: Path) -> Step:
    """Create the set-up step that installs the embedded store's program in a separate virtual environment."""
    folder = installation.home / "store-venv"
    stamp = folder / STAMP
    lock = LOCKS / "store.txt"
    value = fingerprint([lock], sys.version)

    def do() -> None:
        make_venv(folder, log)
        install_lock(folder / "bin/python", lock, log)
        stamp.write_text(value)

    return Step("store program", lambda: has_stamp(stamp, value), do)
