"""Every request body of the organisation API and of the operator API is in the list for the OpenAPI document."""

from __future__ import annotations

from gateway.openai.base import RequestBody
from gateway.openai.organization.request_bodies import BODIES
from gateway.openai.query_parameters import QueryParameters


def subclasses(kind: type[RequestBody]) -> set[type[RequestBody]]:
    return {kind}.union(*(subclasses(each) for each in kind.__subclasses__()))


def test_the_list_is_complete() -> None:
    modules = ("gateway.openai.organization", "gateway.openai.operator")
    defined = {each for each in subclasses(RequestBody) if each.__module__.startswith(modules)}
    assert {each for each in defined if not issubclass(each, QueryParameters)} == set(BODIES)
