"""Logging: one line per event, from our code and libraries, with secrets masked."""

import json
import logging
import subprocess
import sys
import warnings
from typing import Any, Literal

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from runtime.logging import configure, mask_secrets

KEY = "hr_live_0123456789_AbC-dEf_ghiJKLmnopqrstuvwxyz0123456789ABCDEFGHI_1a2b3c"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl-_x"


pytestmark = pytest.mark.usefixtures("restored_logging")


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_an_event_is_one_json_object_with_process_logger_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    configure("gateway-1", style="json", level="info")
    structlog.contextvars.bind_contextvars(request="chatcmpl-1")
    structlog.get_logger("gateway.app").info("request admitted", tokens=3)
    (line,) = lines(capsys)
    assert line["event"] == "request admitted"
    assert (line["process"], line["logger"], line["level"]) == ("gateway-1", "gateway.app", "info")
    assert (line["tokens"], line["request"]) == (3, "chatcmpl-1")
    assert line["timestamp"].endswith("Z")


def test_libraries_log_from_warning_and_our_code_from_the_configured_level(capsys: pytest.CaptureFixture[str]) -> None:
    configure("x", style="json", level="debug")
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("some.library").warning("lost %s", "it")
    structlog.get_logger("router.bus").debug("detail")
    assert [line["event"] for line in lines(capsys)] == ["lost it", "detail"]


def test_fastapis_warning_of_its_own_parameters_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    configure("gateway-1", style="json")
    warnings.warn("The 'alias' attribute with value 'item_id' was provided", UserWarning, stacklevel=1)
    assert not lines(capsys)


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize("secret", [KEY, JWT, "Bearer s3cr3tpassw0rd"])
def test_no_secret_passes_in_events_values_nested_values_or_exceptions(
    style: Literal["json", "console"], secret: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("x", style=style, level="info")
    log = structlog.get_logger("gateway.app")
    log.info(f"got {secret}", value=secret, nested={"deep": [secret]})
    try:
        local = secret
        raise ValueError(f"cannot parse {local}")
    except ValueError:
        log.exception("failed")
        logging.getLogger("uvicorn.error").exception("library failed: %s", secret)
    text = capsys.readouterr().err
    assert "cannot parse" in text
    assert secret.removeprefix("Bearer ") not in text
    assert "***" in text


@pytest.mark.parametrize("where", ["main", "thread"])
def test_an_uncaught_exception_is_logged_masked(where: str) -> None:
    body = f"raise RuntimeError('bad key {KEY}')"
    if where == "thread":
        body = f"import threading; t = threading.Thread(target=lambda: int('{KEY}')); t.start(); t.join()"
    program = f"from runtime.logging import configure; configure('x', style='json', level='info'); {body}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert json.loads(done.stderr.splitlines()[-1])["event"] == "uncaught exception"
    assert KEY not in done.stderr
    assert "hr_live_***" in done.stderr


def test_passwords_in_urls_are_masked_and_the_rest_is_kept() -> None:
    assert (
        mask_secrets("amqp://headrace:s3cret@127.0.0.1:5672/headrace") == "amqp://headrace:***@127.0.0.1:5672/headrace"
    )
    assert mask_secrets("http://127.0.0.1:8000/v1") == "http://127.0.0.1:8000/v1"


@given(st.from_regex(r"[A-Za-z0-9_\-]{1,80}", fullmatch=True), st.text(max_size=20), st.text(max_size=20))
def test_keys_are_masked_in_any_context(secret: str, before: str, after: str) -> None:
    masked = mask_secrets(f"{before} hr_live_{secret} {after}")
    assert f"hr_live_{secret}" not in masked
    assert "hr_live_***" in masked or "Bearer ***" in masked


def test_a_message_that_can_not_be_formatted_does_not_show_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    configure("gateway-1", style="console", level="info")
    logging.getLogger("library").warning("%d calls", KEY)
    said = capsys.readouterr().err
    assert said == "a message of library could not be logged\n"
