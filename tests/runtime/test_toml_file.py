"""Errors of configuration files name the file and the place."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from runtime.lifecycle import StartupError
from runtime.toml_file import read_toml


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int


class File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    parts: dict[str, Part]


def write(folder: Path, content: bytes) -> Path:
    path = folder / "file.toml"
    path.write_bytes(content)
    return path


def test_a_valid_file_is_read(tmp_path: Path) -> None:
    assert read_toml(write(tmp_path, b"[parts.a]\nsize = 3"), File) == File(parts={"a": Part(size=3)})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[parts.a]\nsize = 'x'", "file.toml: parts.a.size: Input should be a valid integer"),
        (b"[parts.a]\nsize = 1\nother = 2", "file.toml: parts.a.other: Extra inputs are not permitted"),
        (b"[parts", "is not TOML"),
        (b"\xff", "is not TOML"),
    ],
)
def test_errors_name_the_place(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(StartupError) as error:
        read_toml(write(tmp_path, content), File)
    assert said in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"cannot read .*absent\.toml: No such file"):
        read_toml(tmp_path / "absent.toml", File)
