"""Images of an upstream: as many PNG files as requested, or an error."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from proxy import images
from proxy.errors import InvalidAnswer
from proxy.images import PNG_SIGNATURE, parse
from router.messages import Usage
from tests.fakes.scripted_upstream import Script, status
from tests.proxy.conftest import MODEL, ProxySetup, StartProxy

SIZES = ["512x512", "512x256"]
FILES = [PNG_SIGNATURE + b"one", PNG_SIGNATURE + b"two"]


def coded(file: bytes, **fields: Any) -> dict[str, Any]:
    return {"b64_json": base64.b64encode(file).decode(), **fields}


BOTH = {"created": 1, "data": [coded(FILES[0], revised_prompt="A tall one"), coded(FILES[1])]}


def test_files_and_revised_prompts_are_read() -> None:
    assert parse(json.dumps(BOTH).encode(), 2) == [(FILES[0], "A tall one"), (FILES[1], "")]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"data": []},
        {"data": [coded(FILES[0])]},
        {"data": [coded(FILES[0])] * 3},
        {"data": [coded(FILES[0]), {"url": "https://example.com/image.png"}]},
        {"data": [coded(FILES[0]), coded(b"RIFFWEBP")]},
        {"data": [coded(FILES[0]), {"b64_json": "!"}]},
        {"data": [coded(FILES[0]), {"b64_json": None}]},
        {"data": [coded(FILES[0]), coded(FILES[0], revised_prompt="x" * 100_000)]},
    ],
    ids=lambda answer: str(answer)[:40],
)
def test_an_answer_without_one_png_file_per_image_is_an_error(answer: dict[str, Any]) -> None:
    with pytest.raises(InvalidAnswer):
        parse(json.dumps(answer).encode(), 2)


def test_an_image_that_no_message_could_carry_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_IMAGE_BYTES", 10)
    with pytest.raises(InvalidAnswer, match="too large"):
        parse(json.dumps(BOTH).encode(), 2)


async def draw(setup: ProxySetup, **fields: Any) -> Any:
    body = {"model": MODEL, "prompt": "A lighthouse", "n": 2, **fields}
    return await setup.client.post("/v1/images/generations", json=body)


async def test_through_the_gateway(start_proxy: StartProxy) -> None:
    setup = await start_proxy(status(200, BOTH), task="image", image_sizes=SIZES)
    answer = (await draw(setup, size="512x256")).json()
    assert [base64.b64decode(each["b64_json"]) for each in answer["data"]] == FILES
    assert [each.get("revised_prompt") for each in answer["data"]] == ["A tall one", None]
    (request,) = setup.upstreams[0].requests
    assert request.path == "/v1/images/generations"
    assert request.body == {
        "model": "their-0",
        "prompt": "A lighthouse",
        "size": "512x256",
        "response_format": "b64_json",
        "n": 2,
    }
    assert (await setup.record()).usage == Usage(prompt_tokens=0, units={"512x256": 2})
    assert (await draw(setup, size="64x64")).status_code == 400
    assert (await setup.chat()).status_code == 400  # it only draws


@pytest.mark.parametrize(
    ("script", "expected"),
    [(status(200, {"data": []}), 502), (status(200, b"<html>"), 502), (status(500), 502)],
)
async def test_faults(start_proxy: StartProxy, script: Script, expected: int) -> None:
    setup = await start_proxy(script, task="image", image_sizes=SIZES, tries=1)
    response = await draw(setup)
    assert (response.status_code, response.json()["error"]["code"]) == (expected, "upstream_error")
    assert (await setup.record()).usage == Usage(prompt_tokens=0)


async def test_a_refused_prompt_is_reported(start_proxy: StartProxy) -> None:
    refusal = {"error": {"message": "Your prompt was refused.", "code": "moderation_blocked", "param": "prompt"}}
    setup = await start_proxy(status(400, refusal), task="image", image_sizes=SIZES)
    response = await draw(setup)
    assert (response.status_code, response.json()["error"]["message"]) == (400, "Your prompt was refused.")


async def test_a_second_route_draws_if_the_first_fails(start_proxy: StartProxy) -> None:
    setup = await start_proxy(status(500), status(200, BOTH), task="image", image_sizes=SIZES, tries=1)
    assert (await draw(setup)).status_code == 200
    assert setup.request_counts == [1, 1]
