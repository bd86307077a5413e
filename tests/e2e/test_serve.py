"""`headrace serve` from outside: a real process, the real model, the real `openai` client."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import httpx
import openai
import openpyxl
import pytest

from infra.install.step import ROOT
from infra.launcher.readiness import free_port
from runtime.lifecycle import EXIT_CANNOT_START
from tests.e2e.launcher_process import MODEL, Launched, borrow_installation, environment

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.store]

QUESTION: list[Any] = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]


def test_the_banner_has_address_key_and_link(serving: Launched) -> None:
    text = serving.output
    assert f"http://127.0.0.1:{serving.port}/v1" in text
    assert serving.client().api_key in text
    assert "curl" in text
    assert stat.S_IMODE((serving.home / "client.env").stat().st_mode) == 0o600


async def test_the_link_in_the_banner_signs_the_owner_in(serving: Launched) -> None:
    token = serving.output.partition("#invitation=")[2].split()[0]
    origin = f"http://127.0.0.1:{serving.port}"
    body = {"email": "ada@example.org", "name": "Ada", "password": "correct horse", "invitation": token}
    async with httpx.AsyncClient(base_url=origin, headers={"origin": origin}) as browser:
        assert (await browser.post("/api/sign-up", json=body)).json()["role"] == "owner"
        assert (await browser.get("/api/me")).json()["organisation"]["id"] == "development"
        assert (await browser.post("/api/sign-up", json={**body, "email": "eve@example.org"})).status_code == 404


def until_listed(client: openai.OpenAI) -> None:
    """Wait until the model and the assistant are listed: each is, from its first heartbeat on."""
    until = time.monotonic() + 10
    while (listed := [model.id for model in client.models.list()]) != ["assistant", MODEL]:
        assert time.monotonic() < until, listed
        time.sleep(0.1)


def test_models(serving: Launched) -> None:
    client = serving.client()
    until_listed(client)
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")


def test_a_streamed_answer_equals_the_unstreamed_one(serving: Launched) -> None:
    client = serving.client()
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=12)
    stream = client.chat.completions.create(
        model=MODEL,
        messages=QUESTION,
        temperature=0,
        max_tokens=12,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "Paris" in text
    assert text == whole.choices[0].message.content
    assert whole.usage is not None
    last = chunks[-1].usage
    assert last is not None
    assert (last.prompt_tokens, last.completion_tokens) == (whole.usage.prompt_tokens, whole.usage.completion_tokens)


def test_completions(serving: Launched) -> None:
    answer = serving.client().completions.create(model=MODEL, prompt="1, 2, 3, 4,", max_tokens=4, temperature=0)
    assert "5" in answer.choices[0].text
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4


def test_prompt_log_probabilities_equal_those_of_the_answer(serving: Launched) -> None:
    """Greedily sampled tokens have rank 1 when the whole text is scored as a prompt."""
    client, prompt = serving.client(), "The capital of France is"
    drawn = client.completions.create(model=MODEL, prompt=prompt, max_tokens=6, temperature=0, logprobs=2, echo=True)
    told = drawn.choices[0].logprobs
    assert told is not None
    assert told.tokens is not None
    assert told.token_logprobs is not None
    assert "".join(told.tokens) == drawn.choices[0].text
    assert drawn.choices[0].text.startswith(prompt)
    scored = client.completions.create(
        model=MODEL,
        prompt=drawn.choices[0].text,
        max_tokens=0,
        logprobs=2,
        echo=True,
        extra_body={"prompt_logprobs": 1},
    )
    again = scored.choices[0].logprobs
    assert again is not None
    assert (again.tokens, again.text_offset) == (told.tokens, told.text_offset)
    assert again.token_logprobs is not None
    assert again.token_logprobs[0] is None
    assert again.token_logprobs[1:] == pytest.approx(told.token_logprobs[1:], abs=0.1)
    ranks = [next(iter(position.values()))["rank"] for position in scored.choices[0].prompt_logprobs[1:]]
    assert ranks[-6:] == [1] * 6
    assert scored.usage is not None
    assert scored.usage.completion_tokens == 0


def test_extras_of_vllm(serving: Launched) -> None:
    client = serving.client()
    best = client.completions.create(
        model=MODEL, prompt="One day", max_tokens=4, n=2, best_of=3, seed=1, extra_body={"ignore_eos": True}
    )
    assert [choice.index for choice in best.choices] == [0, 1]
    assert best.usage is not None
    assert best.usage.completion_tokens == 12
    plain = client.completions.create(
        model=MODEL, prompt="1, 2, 3, 4,", max_tokens=2, temperature=0, extra_body={"return_token_ids": True}
    )
    told: Any = plain.choices[0]  # `token_ids` is ours
    ids = told.token_ids
    without = client.completions.create(
        model=MODEL, prompt="1, 2, 3, 4,", max_tokens=2, temperature=0, extra_body={"bad_words": ["5"]}
    )
    assert "5" in plain.choices[0].text
    assert "5" not in without.choices[0].text
    only = client.completions.create(
        model=MODEL, prompt="Hello", max_tokens=8, extra_body={"allowed_token_ids": ids, "return_token_ids": True}
    )
    told = only.choices[0]
    assert set(told.token_ids) <= set(ids)
    cut = client.completions.create(
        model=MODEL, prompt="word " * 20_000, max_tokens=1, extra_body={"truncate_prompt_tokens": 7}
    )
    assert cut.usage is not None
    assert cut.usage.prompt_tokens == 7
    with pytest.raises(openai.BadRequestError) as raised:
        client.completions.create(model=MODEL, prompt="def f():", suffix="return 1", max_tokens=4)
    assert raised.value.param == "suffix"


def test_a_wrong_key_is_401(serving: Launched) -> None:
    stranger = openai.OpenAI(base_url=f"http://127.0.0.1:{serving.port}/v1", api_key="sk-wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(model=MODEL, messages=QUESTION)


def test_a_prompt_that_is_too_long_is_400(serving: Launched) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        serving.client().completions.create(model=MODEL, prompt="word " * 20_000, max_tokens=1)
    assert raised.value.code == "context_length_exceeded"


def test_the_chat_page_answers_on_the_same_port(serving: Launched) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/", timeout=10) as response:
        assert "text/html" in response.headers["content-type"]


def test_a_second_launcher_in_the_same_home_is_refused(serving: Launched) -> None:
    done = serving.headrace("serve", "--port", str(free_port()))
    assert done.returncode == EXIT_CANNOT_START
    assert "already runs" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_port_in_use_is_reported(serving: Launched, tmp_path: Path) -> None:
    borrow_installation(tmp_path / "home")
    done = subprocess.run(
        [sys.executable, "-m", "infra.cli", "serve"],
        env=environment(tmp_path / "home", serving.port, {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == EXIT_CANNOT_START
    assert f"port {serving.port} is taken" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def documented(language: str) -> str:
    """Return the code blocks in this language of the administration document, joined."""
    page = (ROOT / "docs" / "administration.md").read_text()
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("by", ["curl", "the SDK"])
def test_the_administration_document(serving: Launched, tmp_path: Path, by: str) -> None:
    """Runs the code blocks of docs/administration.md."""
    made = serving.headrace("keys", "create", by, "--admin")
    assert made.returncode == 0, made.stderr
    environment = {**os.environ, "OPENAI_BASE_URL": f"http://127.0.0.1:{serving.port}/v1"}
    environment |= {"OPENAI_ADMIN_KEY": made.stdout.strip(), "OPENAI_API_KEY": "unused"}
    script = ["bash", "-euo", "pipefail", "-c", documented("bash")]
    command = script if by == "curl" else [sys.executable, "-c", documented("python")]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "api_key.deleted" in done.stdout
    admin = openai.OpenAI(base_url=environment["OPENAI_BASE_URL"], api_key="x", admin_api_key=made.stdout.strip())
    newest = next(iter(admin.admin.organization.audit_logs.list(event_types=["api_key.deleted"])))
    assert newest.api_key_deleted is not None
    assert newest.api_key_deleted.id is not None
    assert newest.project is not None
    assert newest.project.id is not None
    with pytest.raises(openai.NotFoundError):
        admin.admin.organization.projects.api_keys.retrieve(newest.api_key_deleted.id, project_id=newest.project.id)
    if by == "curl":
        assert openpyxl.load_workbook(tmp_path / "usage.xlsx").active is not None


def test_ps_lists_the_processes(serving: Launched) -> None:
    assert "serve" in serving.headrace("ps").stdout


def test_ctrl_c_ends_all_processes_and_keeps_the_account(serving: Launched) -> None:
    """It stops the shared launcher and starts it once more: tests that need the shared one come before."""
    key = serving.client().api_key
    assert serving.interrupt() == 0
    serving.leaves_nothing()
    again = Launched(["serve"], serving.home, serving.port)
    try:
        again.until_ready()
        assert again.client().api_key == key
        until_listed(again.client())
        again.process.send_signal(signal.SIGTERM)
        again.process.send_signal(signal.SIGTERM)
        assert again.process.wait(60) == 0
        again.leaves_nothing()
    finally:
        again.end()


def test_a_killed_launcher_takes_all_processes_with_it(serving: Launched) -> None:
    if serving.process.poll() is None:
        assert serving.interrupt() == 0
    again = Launched(["serve"], serving.home, serving.port)
    try:
        again.until_ready()
        again.process.kill()
        again.process.wait()
        again.leaves_nothing()
    finally:
        again.end()
