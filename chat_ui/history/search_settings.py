"""Defines the settings of a search for an answer with test-time compute, as conversations store them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchSettings:
    """How answers are searched for, with names as in `test_time_compute` of `/v1/chat/completions`."""

    method: str
    """Value of a `SearchMethod`."""
    n: int | None = None
    """Number of paths; `None`: the method's default."""
    verifier: str = ""
    """Name of the model that scores paths; "" for methods without one."""
