"""The environment file of `docker compose`: fresh secrets, readable by its owner only, never overwritten."""

from __future__ import annotations

from pathlib import Path

from infra.install.environment_file import fill_in, write


def test_each_empty_variable_gets_a_secret_of_its_own() -> None:
    first, second, kept = fill_in("# A=\nA=\nB=\nC=c").splitlines()[1:]
    assert first.startswith("A=")
    assert second.startswith("B=")
    assert len(first) == len(second) == 45
    assert first[2:] != second[2:]
    assert kept == "C=c"


def test_signing_keys_have_an_id() -> None:
    assert fill_in("HEADRACE_SESSION_SIGNING_KEYS=").startswith("HEADRACE_SESSION_SIGNING_KEYS=1:")


def test_a_file_that_exists_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / ".env"
    assert write(target)
    written = target.read_text()
    assert target.stat().st_mode & 0o777 == 0o600
    assert not write(target)
    assert target.read_text() == written
