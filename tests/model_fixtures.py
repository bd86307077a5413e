"""The models that `make setup-dev` puts into the home, for tests that are marked `model`, and a tiny pipeline."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

MODELS = Path(__file__).parent.parent / ".headrace" / "models"
EMBEDDING_MODEL = Path(os.environ.get("HEADRACE_TEST_EMBEDDING_MODEL") or MODELS / "all-minilm-l6-v2")


@pytest.fixture(scope="session")
def model_file() -> Path:
    """SmolLM2's .gguf: `HEADRACE_TEST_MODEL`, or what `make setup-dev` fetched. Must be there in CI."""
    named = os.environ.get("HEADRACE_TEST_MODEL")
    path = Path(named) if named else next(MODELS.glob("SmolLM2*.gguf"), None)
    if path is not None and path.is_file():
        return path
    if os.environ.get("CI"):
        pytest.fail("no model file")
    pytest.skip("no model file")


@pytest.fixture(scope="session")
def embedding_folder() -> Path:
    """MiniLM's folder: `HEADRACE_TEST_EMBEDDING_MODEL`, or what `make setup-dev` fetched. Must be there in CI."""
    if (EMBEDDING_MODEL / "model.safetensors").is_file():
        return EMBEDDING_MODEL
    if os.environ.get("CI"):
        pytest.fail("no embedding model")
    pytest.skip("no embedding model")


@pytest.fixture(scope="session")
def pipeline_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random pipeline of the diffusers library, which takes seconds to build."""
    pytest.importorskip("diffusers")
    from tests.fakes.tiny_pipeline import save_pipeline

    return save_pipeline(tmp_path_factory.mktemp("pipeline"))


@pytest.fixture(scope="session")
def vision_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random vision-language model, of half a megabyte."""
    pytest.importorskip("PIL")
    from tests.fakes.tiny_vision_model import save_idefics

    return save_idefics(tmp_path_factory.mktemp("vision"))
