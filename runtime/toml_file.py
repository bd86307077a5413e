"""Reads TOML files, such as the catalogues of the proxy and the assistant, into validated pydantic models."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from runtime.lifecycle import StartupError

ModelT = TypeVar("ModelT", bound=BaseModel)


def read_toml(path: Path, kind: type[ModelT]) -> ModelT:
    """Read the TOML file at `path`, and return its content validated as an instance of the pydantic model `kind`.

    Raises:
        StartupError: the file is missing, is not TOML, or its content is not valid; the message names the place.
    """
    try:
        return kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise StartupError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartupError(f"{path} is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise StartupError(f"{path}: {where + ': ' if where else ''}{first['msg']}") from error
