"""Reads processes' settings from environment variables at start-up; an unknown `HEADRACE_...` name is an error.

Otherwise a misspelt variable would silently leave a setting at its default.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from runtime.lifecycle import StartupError

PREFIX = "HEADRACE_"
SettingsT = TypeVar("SettingsT", bound=BaseSettings)


def variable(field: str) -> str:
    """Return the name of the environment variable of the settings field `field`: `HEADRACE_` and the field's name."""
    return PREFIX + field.upper()


def variables(settings: Iterable[type[BaseSettings]]) -> set[str]:
    """Return the names of the environment variables (`HEADRACE_...`) that set the fields of some settings classes."""
    return {variable(field) for each in settings for field in each.model_fields}


def check_names(environment: Mapping[str, str], known: set[str]) -> None:
    """Check at start-up that all `HEADRACE_...` variables in `environment` are among the `known` names.

    Raises:
        StartupError: a variable is unknown; the message suggests the nearest known one.
    """
    for name in sorted(environment):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.0)
            raise StartupError(f"{name} is not a setting; did you mean {near[0]}? (all: docs/configuration.md)")


def load(settings: type[SettingsT], **given: Any) -> SettingsT:
    """Create the `settings` of a process from the environment.

    Command line options `given` by field override it (`None`: no option).

    Raises:
        StartupError: a value is invalid; the message names the variable.
    """
    try:
        return settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = str(first["loc"][0]) if first["loc"] else "settings"
        value = "" if first["type"] == "missing" else f"={first['input']}"
        raise StartupError(f"{variable(field)}{value}: {first['msg']}") from error
