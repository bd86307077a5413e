"""Hostile requests, class by class: refused with the right status in OpenAI's shape, quietly, before any work is done.

`hostile_index.py` says which test covers which class. What needs a real connection is in `http/test_http_protocol.py`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from tests.gateway.conftest import KEY, MODEL, SetStage, Stage, stage

CHAT = "/v1/chat/completions"
CANARY = "canary-7f3a91"
"""Is in every request, and in nothing that comes of it."""
HI = [{"role": "user", "content": CANARY}]
JSON = {"content-type": "application/json"}
CPU_TIME_LIMIT = 10.0
"""A refusal costs far less, of CPU time; what explodes costs more on any machine."""


class Case(NamedTuple):
    name: str
    body: bytes
    status: int = 400
    code: str | None = None
    headers: dict[str, str] = JSON
    path: str = CHAT


def field(name: str, value: Any, status: int = 400, code: str | None = None, **others: Any) -> Case:
    """A chat completion with one field that is wrong."""
    body = {"model": MODEL, "messages": HI, **others, name: value}
    shown = re.sub(r"[^\w.,:+-]+", " ", json.dumps(value))[:24].strip()
    return Case(f"{name} {shown}", json.dumps(body).encode(), status, code)


def raw(name: str, text: str | bytes, status: int = 400, code: str | None = "invalid_json") -> Case:
    """A body as it is."""
    return Case(name, text if isinstance(text, bytes) else text.encode(), status, code)


def sent_as(name: str, status: int, headers: dict[str, str]) -> Case:
    body = json.dumps({"model": MODEL, "messages": HI}).encode()
    return Case(name, body, status, "unsupported_media_type", headers)


def number(text: str) -> str:
    """A chat completion with a number that is spelled so."""
    return f'{{"model": "{MODEL}", "messages": {json.dumps(HI)}, "temperature": {text}}}'


def message(fields: Any, code: str | None = None) -> Case:
    return field("messages", [fields], code=code)


PARTS = [{"type": "text", "text": CANARY}]


def _tool(name: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


CASES: dict[str, list[Case]] = {
    "H1": [
        raw("empty", b""),
        raw("blank", b" \n"),
        *(raw(text, text, code="invalid_type") for text in ("null", "[]", '"x"', "5", "true")),
        raw("{}", "{}", code="missing_required_parameter"),
    ],
    "H2": [
        raw("garbage", number("1") + "x"),
        raw("another object", number("1") * 2),
        raw("NUL", number("1") + "\0"),
        raw("the same key twice", number('1, "temperature": 2')),
        raw("the same key, spelled differently", '{"n": 1, "\\u006e": 2}'),
    ],
    "H3": [
        Case("5 MB declared", b"{}", 413, "request_too_large", {**JSON, "content-length": str(5 * 10**6)}),
        Case("50 MB declared", b"{}", 413, "request_too_large", {**JSON, "content-length": str(5 * 10**7)}),
        Case("5 MB", b" " * (5 * 10**6), 413, "request_too_large"),
    ],
    "H8": [
        sent_as(coding, 415, {**JSON, "content-encoding": coding})
        for coding in ("gzip", "x-gzip", "deflate", "br", "zstd", "identity, gzip", "GZIP", "nonsense")
    ],
    "H9": [
        sent_as(kind or "none", 415, {"content-type": kind} if kind else {})
        for kind in (
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "text/plain; application/json",
            "application/json-patch+json",
            "application/json; charset=utf-16",
            "application/json, text/plain",
        )
    ],
    "H11": [raw(text, number(text)) for text in ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "0." + "1" * 500)],
    "H12": [
        raw("5,000 digits", number("9" * 5_000)),
        raw("a million digits", number("9" * 1_000_000)),
        raw("minus a million digits", number("-" + "9" * 1_000_000)),
        raw("a million digits after the point", number("0." + "9" * 1_000_000)),
        raw("an exponent of a million digits", number("1e" + "9" * 1_000_000)),
    ],
    "H13": [
        raw("65 arrays deep", number("[" * 65 + "]" * 65)),
        raw("900 arrays deep", number("[" * 900 + "]" * 900)),
        raw("100,000 arrays deep", number("[" * 100_000 + "]" * 100_000)),
        raw("900 objects deep", number('{"a":' * 900 + "1" + "}" * 900)),
        raw("100,000 objects deep", number('{"a":' * 100_000 + "1" + "}" * 100_000)),
        raw("500,000 empty arrays", number("[" + "[]," * 500_000 + "[]]")),
    ],
    "H15": [
        raw("content", number('1, "user": "\\ud800"')),
        raw("low before high", number('1, "user": "\\udc00\\ud800"')),
        raw("a key", number('1, "\\ud800": 1')),
        raw("metadata", number('1, "metadata": {"a": "\\uDFFF"}')),
        raw("not UTF-8", b'{"model": "\xff\xfe"}'),
        raw("overlong UTF-8", b'{"model": "\xc0\xaf"}'),
        raw("a surrogate in UTF-8", b'{"model": "\xed\xa0\x80"}'),
    ],
    "H17": [field("logit_bias_mode", "x", code="unsupported_parameter")],
    "H148": [
        *(
            field("test_time_compute", {"method": "dvts", "verifier": MODEL, **options})
            for options in (
                {"n": 10**9},
                {"n": 65},
                {"n": 64, "expansions": 64},
                {"expansions": 10**18},
                {"max_steps": 10**9},
                {"step_tokens": 2**31},
                {"budget_tokens": 2**63},
                {"budget_tokens": 2**31 - 1},
                {"budget_tokens": 1},
                {"separator": "x" * 10**6},
                {"verifier": "../" * 100},
                {"verifier": f"{CANARY}\n\0"},
                {"beam_width": 4},
            )
        ),
        *(field("test_time_compute", value) for value in (CANARY, [], 1, True, {}, {"method": CANARY})),
    ],
    "H149": [
        field("test_time_compute", {"method": "self_consistency", "extract": extract})
        for extract in (
            *({"regex": pattern} for pattern in ("(a+)+$", "(?:a*)*", "x" * 513, "(" * 10**6, "")),
            *({"json_path": path} for path in ("a." * 10**5, "..", "a\n.b", "")),
            {"regex": "a", "json_path": "a"},
            {"lark": CANARY},
            CANARY,
        )
    ],
    "H21": [field("n", value) for value in (10**9, 17, 129, 0, -1, True, "3", 2.0, [1], 2**63)],
    "H22": [field(name, value) for name in ("best_of", "use_beam_search") for value in (10**9, 10**18, -1)],
    "H23": [
        field(name, value)
        for name in ("max_tokens", "max_completion_tokens")
        for value in (0, -1, 2**31, 2**63, 1e30, "5", True, 1.0)
    ],
    "H25": [
        *(field("temperature", value) for value in (-1, 2.1, -0.0001, "1", True, 1e308)),
        *(field("top_p", value) for value in (-0.1, 1.1, "x", 1e308)),
        *(field("top_k", value) for value in (-2, 2**31, 1.5, "1")),
        *(field("min_p", value) for value in (2, -0.1)),
        *(field(name, value) for name in ("presence_penalty", "frequency_penalty") for value in (1e9, -1e9, 2.01, "0")),
        *(field("repetition_penalty", value) for value in (0, -1, 1e9)),
    ],
    "H26": [field("seed", value) for value in (2**63, -(2**63) - 1, 10**19, 1.5, "1", True)],
    "H27": [
        field("logit_bias", {str(token): 1 for token in range(100_000)}),
        *(field("logit_bias", {key: 1}) for key in ("abc", "-1", "99999999999", "1.0", "٣", "", "0x1", " 1")),
        *(field("logit_bias", {"1": value}) for value in (1e9, -100.5, "1", None, True)),
        field("logit_bias", [[1, 1]]),
        raw("logit_bias NaN", number('1, "logit_bias": {"1": NaN}')),
    ],
    "H28": [
        *(field("top_logprobs", value, logprobs=True) for value in (21, -1, 1_000_000, "1", 1.0, True)),
        field("top_logprobs", 2),
        *(field("logprobs", value) for value in (1, "true", [])),
    ],
    "H29": [
        field("stop", value)
        for value in (
            ["a"] * 5,
            "",
            [""],
            ["a", ""],
            "x" * 10**6,
            ["x" * 257],
            [1],
            5,
            True,
            ["a"] * 10_000,
            {"a": 1},
            [["a"]],
        )
    ],
    "H30": [
        *(field("messages", value) for value in ([], None, CANARY, {}, 5, [None], [CANARY], [[]], HI * 2049)),
        raw("100,000 messages", json.dumps({"model": MODEL, "messages": [{}] * 100_000})),
        message({"role": "root", "content": CANARY}),
        message({"role": CANARY, "content": "x"}),
        message({"role": None, "content": CANARY}),
        message({"role": ["user"], "content": CANARY}),
        message({"content": CANARY}),
        message({"role": "user"}),
        *(message({"role": "user", "content": value}) for value in (5, None, [], {}, [5], [{}], ["x"], True)),
        message({"role": "user", "content": PARTS * 1025}),
        message({"role": "user", "content": [{"type": CANARY, "text": "x"}]}),
        message({"role": "user", "content": [{"type": "text", "text": 5}]}),
        message({"role": "user", "content": CANARY, "name": "x" * 257}),
    ],
    "H31": [
        message({"role": "tool", "content": CANARY, "tool_call_id": "call_1"}),
        message({"role": "tool", "content": CANARY}),
        message({"role": "tool", "content": CANARY, "tool_call_id": ""}),
        message({"role": "function", "content": CANARY}),
        message({"role": "assistant"}),
        message({"role": "assistant", "content": None, "tool_calls": []}),
        message({"role": "assistant", "content": None, "tool_calls": [{"id": CANARY}]}),
        field("continue_final_message", True),
    ],
    "H33": [
        *(
            field("chat_template", template)
            for template in ("{% for i in range(10**9) %}{% endfor %}", "{{ ''.__class__.__mro__ }}", "", CANARY)
        ),
        *(
            field("chat_template_kwargs", value)
            for value in (
                {"tokenize": True},
                {"chat_template": CANARY},
                {"add_generation_prompt": False},
                {"tools": []},
                {"messages": []},
                {"x": {"y": 1}},
                {"x": [1]},
                {"__class__.x": 1},
                {"a b": 1},
                {"x": "y" * 1025},
                {f"x{number}": 1 for number in range(33)},
                [],
                CANARY,
            )
        ),
    ],
    "H34": [
        message({"role": "user", "content": text}, code="context_length_exceeded")
        for text in ("a" * 1_000_000, "🏳️‍🌈" * 50_000, " " * 200_000, "a\u0301" * 100_000, "x" * 4_000_000)
    ]
    + [Case("a word of 5 MB", b'{"messages": "' + b"x" * (5 * 10**6), 413, "request_too_large")],
    "H36": [
        *(field("stream", value) for value in ("yes", "true", 1, 0, [], {})),
        field("stream_options", {"include_usage": True}),
        field("stream_options", {}, stream=False),
        *(
            field("stream_options", value, stream=True)
            for value in ({"include_usage": "x"}, {"include_usage": 1}, [], "x")
        ),
    ],
    "H37": [
        *(
            field("response_format", {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
            for schema in (
                {"$ref": "http://169.254.169.254/"},
                {"$ref": "file:///etc/passwd"},
                {"type": "foo"},
                {"enum": [str(number) for number in range(10_000)]},
                {"description": "x" * 1_000_000},
                "x",
                None,
            )
        ),
        *(
            field("response_format", value)
            for value in ({"type": "json_schema"}, {"type": "yaml"}, {}, [], "json_object")
        ),
    ],
    "H39": [
        *(field(f"guided_{name}", "(a+)+$") for name in ("json", "regex", "choice", "grammar")),
        *(field(f"guided_{name}", CANARY) for name in ("decoding_backend", "whitespace_pattern")),
        *(
            field("structured_outputs", value)
            for value in ({}, {"json": {}, "regex": "a"}, {"backend": "x"}, CANARY, [])
        ),
        field("structured_outputs", {"choice": []}),
    ],
    "H40": [
        *(
            field("tools", value)
            for value in (
                [_tool(f"f{number}") for number in range(1000)],
                [_tool("f"), _tool("f")],
                *([_tool(name)] for name in ("a b", "../x", "", "x" * 300, CANARY + "é", None)),
                *([_tool("f", parameters=wrong)] for wrong in (CANARY, [], {"type": "string"}, {"type": CANARY})),
                [{"type": "custom", "custom": {"name": "f"}}],
                [CANARY],
                CANARY,
            )
        ),
        field("tool_choice", "required"),
        field("tool_choice", _tool("missing")),
        field("functions", [{"name": "f"}, {"name": "f"}]),
        field("functions", [{"name": CANARY + "é"}]),
        field("function_call", {"name": "missing"}),
    ],
    "H42": [
        message({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
        for url in (
            "http://127.0.0.1:15672",
            "http://169.254.169.254/",
            "http://[::ffff:7f00:1]/",
            "http://2130706433/",
            "http://good\\@127.0.0.1/",
            "file:///etc/passwd",
            "gopher://x",
        )
    ],
    "H43": [
        message({"role": "user", "content": [part]})
        for part in (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "video_url", "video_url": {"url": "http://evil/"}},
        )
    ],
    "H46": [
        *(field("model", value) for value in ("", "x" * 10_000, {"$ne": None}, None, 5, ["a"])),
        *(
            field("model", value, 404, "model_not_found")
            for value in ("../../etc", "gpt-4\r\nX: y", "m.#", "*", "#", "\0", f"{MODEL} ", MODEL.upper(), "hr.job.x")
        ),
    ],
    "H61": [
        *(
            field("prompt", prompt)._replace(path="/v1/completions")
            for prompt in (
                *([], "", [[]], [""], [-1], [2**31], [[2**31]], ["x"] * 10_000, ["x"] * 65, ["x", 1], [[1], "x"]),
                *([[1.0]], [True], [None], None, 5, {}, [[["x"]]], "x" * 1_000_000, [1] * 128),
            )
        ),
    ],
    "H49": [*(field("service_tier", value) for value in ("gold", 9, "", ["flex"])), field("priority", 9)],
}


def flat() -> list[Any]:
    return [
        pytest.param(case, id=f"{row}.{member} {case.name}")
        for row, cases in CASES.items()
        for member, case in enumerate(cases)
    ]


async def refused(stage: Stage, case: Case, caplog: pytest.LogCaptureFixture) -> httpx.Response:
    """Send it, and hold the answer against what is true of every refusal."""
    with capture_logs() as logs:
        began = time.process_time()
        response = await stage.client.post(case.path, content=case.body, headers=case.headers)
        spent = time.process_time() - began
    assert response.status_code == case.status, response.text[:300]
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    assert response.json().keys() == {"error"}
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert isinstance(error["message"], str)
    assert 0 < len(error["message"]) < 500
    assert isinstance(error["param"], str | None)
    assert isinstance(error["code"], str)
    if case.code is not None:
        assert error["code"] == case.code
    assert stage.worker.jobs == []
    assert CANARY not in response.text
    for secret in (CANARY, KEY, "mongodb"):
        assert secret not in repr(logs) + caplog.text
    assert spent < CPU_TIME_LIMIT
    return response


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Stage]:
    """One stage for all that is refused: it is to be as if nothing had been sent."""
    async with stage() as set_up:
        yield set_up


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", flat())
async def test_refused(shared: Stage, case: Case, caplog: pytest.LogCaptureFixture) -> None:
    await refused(shared, case, caplog)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
@pytest.mark.parametrize("row", ["H1", "H2", "H3", "H8", "H9", "H11", "H12", "H13", "H15"])
async def test_every_endpoint_parses_bodies_alike(
    shared: Stage, path: str, row: str, caplog: pytest.LogCaptureFixture
) -> None:
    for case in CASES[row]:
        await refused(shared, case._replace(path=path), caplog)


async def test_a_refused_field_is_named(set_stage: SetStage) -> None:
    stage = await set_stage()
    for case, param in (
        (field("temperature", 3), "temperature"),
        (message({"role": CANARY, "content": "x"}), "messages[0].role"),
        (field("metadata", {"a": 1}), "metadata.a"),
    ):
        response = await stage.client.post(CHAT, content=case.body, headers=JSON)
        assert response.json()["error"]["param"] == param


async def test_other_servers_fields_are_ignored(set_stage: SetStage) -> None:
    """H17, H48, H50: unknown fields are ignored, so a provider's address or key from a client goes nowhere."""
    stage = await set_stage()
    evil: dict[str, Any] = {
        "evil": 1,
        "api_base": "http://evil",
        "base_url": "http://evil",
        "api_key": CANARY,
        "background": True,
    }
    response = await stage.chat(**evil, extra_headers={"x": CANARY}, conversation="conv_1", store=True)
    assert response.status_code == 200
    assert CANARY not in repr(stage.worker.jobs)
    assert "evil" not in repr(stage.worker.jobs)


async def test_an_image_url_in_a_text_is_text(set_stage: SetStage) -> None:
    """H44."""
    stage = await set_stage()
    text = "![](http://evil/) <img src=file:///etc/passwd>"
    assert (await stage.chat(text)).status_code == 200
    assert stage.worker.jobs[0].prompt.messages[-1]["content"] == text  # type: ignore[union-attr]


@pytest.mark.parametrize("value", ["-1", "1e30", "chatcmpl-other", "x" * 1000])
async def test_last_event_id_is_ignored(set_stage: SetStage, value: str) -> None:
    """H57: no stream of this API can be resumed by an id, so the header of a request means nothing."""
    stage = await set_stage()
    stage.client.headers["last-event-id"] = value
    response = await stage.chat(stream=True)
    assert response.status_code == 200
    assert response.text.endswith("data: [DONE]\n\n")
    assert "id: " not in response.text


OUT_OF_SCOPE = [
    ("POST", "/v1/audio/speech"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/v1/assistants"),
    ("POST", "/v1/threads/runs"),
    ("POST", "/v1/fine_tuning/jobs"),
    ("GET", "/v1/jobs/chatcmpl-1"),
    ("POST", "/v1/chat/completions/"),
    ("POST", "/v1//chat/completions"),
    ("POST", "/v1/chat/Completions"),
    ("POST", "/chat/completions"),
    ("GET", "/v1"),
    ("GET", "/v1/"),
    ("GET", "/v1/models%00"),
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("method", "path"), OUT_OF_SCOPE)
async def test_unknown_urls_are_404_with_and_without_a_key(shared: Stage, method: str, path: str) -> None:
    """H68, H69, H71 and all other URLs: the same response for every caller and body."""
    answers = []
    for headers in ({}, {"authorization": "Bearer nonsense"}, {"content-type": "multipart/form-data"}):
        response = await shared.client.request(method, path, headers=headers, content=b"\r\n" * 1000)
        assert response.status_code == 404
        assert response.headers["x-request-id"]
        assert response.headers["connection"] == "close"  # the body was not read
        answers.append(response.json())
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["error"].keys() == {"message", "type", "param", "code"}
    assert answers[0]["error"]["message"].startswith(f"Invalid URL ({method} ")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "BREW"])
async def test_another_method_is_405(shared: Stage, method: str) -> None:
    for path in ("/v1/embeddings", "/v1/completions"):
        response = await shared.client.request(method, path, headers={"x-http-method-override": "POST"})
        assert response.status_code == 405
        assert response.headers["allow"] == "POST"
        if method != "HEAD":
            assert response.json()["error"]["code"] == "method_not_allowed"
    assert shared.worker.jobs == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["..%2f", "%2e%2e/%2e%2e/etc/passwd", "x%00", "%ff", "x" * 5000])
async def test_unusual_model_names_are_404(shared: Stage, name: str) -> None:
    """H64; that a key is needed is in `test_authentication.py`."""
    response = await shared.client.get(f"/v1/models/{name}")
    assert response.status_code == 404
    assert len(response.text) < 600


@pytest.mark.parametrize("host", ["x/v1/public?", "a#b", "", "a b", "user@host", "a:b", "[::1", "x\\y", "a,b"])
async def test_an_invalid_host_is_400(set_stage: SetStage, host: str) -> None:
    """H19."""
    stage = await set_stage()
    response = await stage.client.get("/v1/models", headers={"host": host})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "malformed_http"
    assert stage.accounts.asked == []


@pytest.mark.parametrize("host", ["a", "a.b-c_d:80", "127.0.0.1:8000", "[::1]:8000", "xn--bcher-kva.example"])
async def test_a_valid_host_is_accepted(set_stage: SetStage, host: str) -> None:
    stage = await set_stage()
    assert (await stage.client.get("/v1/models", headers={"host": host})).status_code == 200


async def test_too_many_headers_are_431(set_stage: SetStage) -> None:
    """H7."""
    stage = await set_stage()
    response = await stage.client.get("/v1/models", headers=[(f"x-{number}", "1") for number in range(1000)])
    assert response.status_code == 431
    assert response.json()["error"]["code"] == "too_many_headers"
    assert stage.accounts.asked == []


async def test_two_content_lengths_are_refused(set_stage: SetStage) -> None:
    """H5: Content-Length and Transfer-Encoding together are how requests are smuggled."""
    stage = await set_stage()
    response = await stage.client.post(CHAT, content=b"{}", headers={**JSON, "transfer-encoding": "chunked"})
    assert response.status_code == 400
    assert response.headers["connection"] == "close"
    assert stage.accounts.asked == []
