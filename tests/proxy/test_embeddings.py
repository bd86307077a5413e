"""Embeddings of an upstream: all vectors as requested, or an error."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

from proxy.embeddings import parse
from proxy.errors import InvalidAnswer
from tests.fakes.scripted_upstream import Script, silence, status
from tests.proxy.conftest import MODEL, ProxySetup, StartProxy


def base64_of(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def body(*vectors: Any, **more: Any) -> dict[str, Any]:
    return {"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)], **more}


def test_floats_and_base64_in_any_order() -> None:
    answer = body([1.0, 0.5], base64_of(0.25, 2.0))
    answer["data"].reverse()
    vectors = parse(json.dumps(answer).encode(), 2, None).vectors
    assert [struct.unpack("<2f", vector) for vector in vectors] == [(1.0, 0.5), (0.25, 2.0)]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"data": []},
        body([1.0]),
        body([1.0], [1.0, 2.0]),
        body([], []),
        body([1.0], [1e300]),
        body([1.0], "!"),
        body([1.0], base64.b64encode(b"abc").decode()),
        body(base64_of(1.0), base64_of(float("nan"))),
        body([1.0], ["x"]),
        {"data": [{"index": 0, "embedding": [1.0]}] * 2},
        {"data": [{"index": -1, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]},
    ],
    ids=str,
)
def test_an_answer_without_one_valid_vector_per_input_is_an_error(answer: dict[str, Any]) -> None:
    with pytest.raises(InvalidAnswer):
        parse(json.dumps(answer).encode(), 2, None)


def test_other_dimensions_than_requested_are_an_error() -> None:
    with pytest.raises(InvalidAnswer):
        parse(json.dumps(body([1.0])).encode(), 1, 2)


async def embed(setup: ProxySetup) -> Any:
    return await setup.client.post(
        "/v1/embeddings", json={"model": MODEL, "input": ["one", "two"], "encoding_format": "float"}
    )


async def test_through_the_gateway(start_proxy: StartProxy) -> None:
    script = status(200, body([1.0, 0.0], base64_of(0.0, 1.0), usage={"prompt_tokens": 9, "total_tokens": 9}))
    setup = await start_proxy(script, task="embed")
    answer = (await embed(setup)).json()
    assert [each["embedding"] for each in answer["data"]] == [[1.0, 0.0], [0.0, 1.0]]
    assert answer["usage"]["prompt_tokens"] == 9
    (request,) = setup.upstreams[0].requests
    assert (request.path, request.body["model"], request.body["input"]) == ("/v1/embeddings", "their-0", ["one", "two"])
    assert (await setup.record()).usage.prompt_tokens == 9
    assert (await setup.chat()).status_code == 400  # it only embeds


@pytest.mark.parametrize(
    ("script", "expected"),
    [(status(200, body([1.0])), 502), (status(200, b"<html>"), 502), (silence, 504), (status(500), 502)],
)
async def test_faults(start_proxy: StartProxy, script: Script, expected: int) -> None:
    setup = await start_proxy(script, task="embed", first_event=0.2 if expected == 504 else 20, tries=1)
    response = await embed(setup)
    assert (response.status_code, response.json()["error"]["code"]) == (expected, "upstream_error")


async def test_implausible_usage_is_estimated(start_proxy: StartProxy) -> None:
    setup = await start_proxy(status(200, body([1.0], [1.0], usage={"prompt_tokens": 10**9})), task="embed")
    assert (await embed(setup)).json()["usage"]["prompt_tokens"] == 2
