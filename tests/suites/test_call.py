"""Requests of a suite are taken apart by route, and put together again."""

from __future__ import annotations

from tests.suites.call import Call, call_of

ROUTES = ["GET /v1/files/{file_id}", "POST /v1/files"]
JSON = {"content-type": "application/json"}


def call(method: str, path: str, content: bytes = b"") -> Call:
    return call_of(ROUTES, method, path, [("limit", "0"), ("a[b]", "c")], content, JSON)


def test_a_path_has_the_ids_of_its_route() -> None:
    found = call("GET", "/v1/files/file_id")
    assert (found.route, found.ids) == ("GET /v1/files/{file_id}", {"file_id": "file_id"})
    found.ids["file_id"] = "org/a"
    assert found.path == "/v1/files/org%2Fa"


def test_a_path_without_a_route_is_its_own() -> None:
    found = call("DELETE", "/v1/files/file_id")
    assert (found.route, found.ids, found.path) == ("DELETE /v1/files/file_id", {}, "/v1/files/file_id")


def test_a_field_is_left_out_of_body_or_query_by_the_name_that_an_error_has() -> None:
    found = call("POST", "/v1/files", b'{"tools": [1], "user": "u"}')
    assert (found.leave_out("tools[0].type"), found.payload) == ("tools", b'{"user": "u"}')
    assert (found.leave_out("a.b"), found.query) == ("a", [("limit", "0")])
    assert found.leave_out("missing") is None
    assert found.leave_out("") is None
