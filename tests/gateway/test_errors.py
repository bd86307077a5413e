"""The tree in the docstring of `gateway.errors` is complete."""

from __future__ import annotations

from gateway import errors
from gateway.errors import GatewayError


def subclasses(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(subclasses(sub) for sub in kind.__subclasses__()))


def test_every_error_is_in_the_docstrings_tree() -> None:
    for kind in subclasses(GatewayError):
        assert kind.__name__ in str(errors.__doc__)
