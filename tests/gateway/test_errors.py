"""The tree of the gateway's errors is the one that its module's docstring draws."""

from __future__ import annotations

from gateway import errors
from gateway.errors import GatewayError


def subclasses(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(subclasses(sub) for sub in kind.__subclasses__()))


def test_the_drawn_tree_is_the_tree() -> None:
    for kind in subclasses(GatewayError):
        assert kind.__name__ in str(errors.__doc__)
