"""The client of `headrace batch`: requests that it sends, and errors in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from infra.cli.batch_commands import BatchCommands
from infra.home.credentials import write_client_env
from infra.home.home import Home
from runtime.lifecycle import StartupError

LINE = {"custom_id": "1", "method": "POST", "url": "/v1/embeddings", "body": {}}


def batch(status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {
        "id": "batch_1",
        "status": status,
        "endpoint": "/v1/embeddings",
        "created_at": 1_700_000_000,
        "input_file_id": "file-in",
        "input_file_name": "in.jsonl",
        "errors": None,
        "output_file_id": "file-out",
        "error_file_id": None,
        "request_counts": {"total": 2, "completed": 2, "failed": 0},
        **fields,
    }


def commands(answer: Callable[[httpx2.Request], httpx2.Response]) -> BatchCommands:
    return BatchCommands("http://gateway/v1", "hr_live_key", httpx2.MockTransport(answer))


def test_a_file_becomes_a_batch_of_its_endpoint(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps(LINE))
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        request.read()
        return httpx2.Response(200, json={"id": "file-1"} if request.url.path == "/v1/files" else batch())

    assert commands(answer).create(file, None) == batch()
    assert [each.url.path for each in sent] == ["/v1/files", "/v1/batches"]
    assert all(each.headers["authorization"] == "Bearer hr_live_key" for each in sent)
    assert b'name="purpose"\r\n\r\nbatch' in sent[0].content
    assert json.loads(sent[1].content) == {
        "input_file_id": "file-1",
        "endpoint": "/v1/embeddings",
        "completion_window": "24h",
    }


@pytest.mark.parametrize(
    ("given", "found"),
    [("batch_ab12", "batch_ab12"), ("batch_ab", "batch_ab12"), ("cd", "batch_cd34"), ("a/b", None), ("batch_", None)],
)
def test_a_batch_is_found_by_the_beginning_of_its_id(given: str, found: str | None) -> None:
    known = {f"/v1/batches/{id}": batch(id=id) for id in ("batch_ab12", "batch_cd34")}

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/v1/batches":
            return httpx2.Response(200, json={"data": list(known.values())})
        if (one := known.get(request.url.path)) is None:
            return httpx2.Response(404, json={"error": {"message": "No such batch."}})
        return httpx2.Response(200, json=one)

    if found is None:
        with pytest.raises(StartupError, match=r"No such batch|2 batches begin with batch_: give more"):
            commands(answer).find(given)
    else:
        assert commands(answer).find(given)["id"] == found
        assert [each["id"] for each in commands(answer).progress(given)] == [found]


def test_progress_ends_with_the_batch() -> None:
    states = iter(["validating", "in_progress", "completed"])
    client = commands(lambda _: httpx2.Response(200, json=batch(next(states))))
    slept: list[float] = []
    assert [each["status"] for each in client.progress("batch_1", slept.append)] == [
        "validating",
        "in_progress",
        "completed",
    ]
    assert len(slept) == 2


def test_a_download_does_not_overwrite(tmp_path: Path) -> None:
    client = commands(lambda _: httpx2.Response(200, content=b"answers"))
    client.download("file-1", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == b"answers"
    with pytest.raises(StartupError, match="File exists"):
        client.download("file-1", tmp_path / "out.jsonl")


def test_refusals_are_one_line(tmp_path: Path) -> None:
    refusal = {"error": {"message": "No object with the id 'x' was found."}}
    client = commands(
        lambda request: (
            httpx2.Response(200, json={"data": []})
            if request.url.path == "/v1/batches"
            else httpx2.Response(404, json=refusal)
        )
    )
    for call in (lambda: client.find("x"), lambda: client.cancel("x"), lambda: client.download("x", tmp_path / "x")):
        with pytest.raises(StartupError, match="No object with the id 'x' was found"):
            call()
    with pytest.raises(StartupError, match="answers 502"):
        commands(lambda _: httpx2.Response(502, text="<html>")).latest()
    (tmp_path / "in.jsonl").write_text("no json")
    with pytest.raises(StartupError, match="JSON lines"):
        client.create(tmp_path / "in.jsonl", None)
    with pytest.raises(StartupError, match=r"none\.jsonl can't be read: No such file"):
        client.create(tmp_path / "none.jsonl", None)


def test_a_gateway_that_does_not_answer() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    with pytest.raises(StartupError, match="does not answer"):
        commands(refuse).latest()


def test_a_key_goes_only_to_its_own_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    home = Home(tmp_path)

    def target() -> tuple[str, str]:
        http = BatchCommands.of(home)._http
        return str(http.base_url).rstrip("/"), http.headers["authorization"]

    with pytest.raises(StartupError, match="no gateway"):
        BatchCommands.of(home)
    write_client_env(home, "http://here/v1", "hr_live_home")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    assert target() == ("http://here/v1", "Bearer hr_live_home")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://there/v1")
    assert target() == ("http://there/v1", "Bearer sk-of-openai")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(StartupError, match="no gateway"):
        BatchCommands.of(home)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://here/v1/")
    assert target() == ("http://here/v1", "Bearer hr_live_home")
