"""Invalid settings are rejected at start-up."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from inference_worker.engine.native.build import INSTRUCTION_SETS
from inference_worker.settings import Instructions, WorkerSettings, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2 * 1024**3), ("1.5 MiB", 1536 * 1024), ("500MB", 500 * 10**6), ("4096", 4096), ("7B", 7), ("1k", 1000)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert WorkerSettings(model="m", kv_cache_memory=text).engine().kv_cache_memory == size


@pytest.mark.parametrize(
    "wrong",
    [
        {"kv_cache_memory": "lots"},
        {"kv_cache_memory": 0},
        {"served_model_name": "a*"},
        {"served_model_name": "a b"},
        {"served_model_name": "#"},
        {"id": "worker.1"},
        {"device": "tpu"},
        {"max_num_seqs": 0},
        {"image_sizes": "large"},
        {"image_sizes": "512x512,0x1"},
        {"image_steps": 0},
        {"image_guidance": -1},
        {"unknown": 1},
    ],
)
def test_invalid_settings_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WorkerSettings(model="m", **wrong)


def test_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_MODEL", "org/model:v1.2_x")
    monkeypatch.setenv("HEADRACE_SERVED_MODEL_NAME", "org/model:v1.2_x")
    monkeypatch.setenv("HEADRACE_MAX_NUM_SEQS", "3")
    settings = WorkerSettings()
    assert (settings.served_model_name, settings.engine().max_num_seqs) == ("org/model:v1.2_x", 3)


def test_every_field_is_described() -> None:
    assert all(field.description for field in WorkerSettings.model_fields.values())


def test_activation_bits_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert WorkerSettings(model="m").engine().activation_bits == "auto"
    monkeypatch.setenv("HEADRACE_ACTIVATION_BITS", "8")
    assert WorkerSettings(model="m").engine().activation_bits == 8
    for wrong in ("12", "eight"):
        monkeypatch.setenv("HEADRACE_ACTIVATION_BITS", wrong)
        with pytest.raises(ValidationError, match="Input should be 'auto', 16 or 8"):
            WorkerSettings(model="m")


def test_instructions_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_args(Instructions) == ("auto", *INSTRUCTION_SETS)
    assert WorkerSettings(model="m").engine().instructions == "auto"
    monkeypatch.setenv("HEADRACE_INSTRUCTIONS", "avx512")
    assert WorkerSettings(model="m").engine().instructions == "avx512"
    monkeypatch.setenv("HEADRACE_INSTRUCTIONS", "avx-512")
    with pytest.raises(ValidationError, match="Input should be 'auto', 'amx', "):
        WorkerSettings(model="m")


def test_image_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert WorkerSettings(model="m").engine().image_sizes == ()
    monkeypatch.setenv("HEADRACE_IMAGE_SIZES", "512x512, 512x256")
    monkeypatch.setenv("HEADRACE_IMAGE_STEPS", "4")
    monkeypatch.setenv("HEADRACE_IMAGE_GUIDANCE", "0")
    engine = WorkerSettings(model="m").engine()
    assert (engine.image_sizes, engine.image_steps, engine.image_guidance) == (("512x512", "512x256"), 4, 0.0)
