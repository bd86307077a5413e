"""Reads the fields of a checkpoint's `quantization_config`, and refuses values that the engine can't load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from inference_worker.errors import UnsupportedModel

T = TypeVar("T")


def refuse(name: str, found: str) -> NoReturn:
    """Raise `UnsupportedModel`: the field `name` of the configuration says that the weights are `found`."""
    raise UnsupportedModel(f"quantization_config.{name}: {found} can't be loaded")


def field(config: Mapping[str, Any], name: str, known: Sequence[T], *, default: T | None = None) -> T:
    """Return the value of field `name`, which must be one of `known`; `default` if it is missing or null.

    Raises:
        UnsupportedModel: it has another value.
    """
    value = config.get(name)
    value = default if value is None else value
    for one in known:
        if type(one) is type(value) and one == value:
            return one
    return refuse(name, f"{value!r} (known: {', '.join(map(repr, known))})")
