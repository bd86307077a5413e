"""The default model's file, for tests that are marked `model`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

MODELS = Path(__file__).parent.parent / ".headrace" / "models"


@pytest.fixture(scope="session")
def model_file() -> Path:
    """SmolLM2's .gguf: `HEADRACE_TEST_MODEL`, or what `make install` fetched. Must be there in CI."""
    named = os.environ.get("HEADRACE_TEST_MODEL")
    path = Path(named) if named else next(MODELS.glob("SmolLM2*.gguf"), None)
    if path is not None and path.is_file():
        return path
    if os.environ.get("CI"):
        pytest.fail("no model file")
    pytest.skip("no model file")
