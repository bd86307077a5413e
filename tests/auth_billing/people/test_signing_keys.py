"""Signing keys of access tokens: created once, private, at most two."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from auth_billing.people.signing_keys import FILE_NAME, load_signing_keys
from runtime.lifecycle import StartupError

A, B = "a:" + "x" * 32, "b:" + "y" * 43


def test_a_key_is_created_once_in_a_private_file(tmp_path: Path) -> None:
    (key,) = load_signing_keys(tmp_path)
    assert load_signing_keys(tmp_path) == (key,)
    assert len(key.key) >= 32
    assert (tmp_path / "secrets" / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert key.key.decode() not in repr(key)


def test_concurrent_starts_get_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(load_signing_keys, [tmp_path] * 16))) == 1


@pytest.mark.parametrize("given", [A, f"{A},{B}", f"{B}\n{A}\n".strip(), f"{A}, {B}"])
def test_configured_keys_are_used_in_order_and_nothing_written(tmp_path: Path, given: str) -> None:
    assert [key.id for key in load_signing_keys(tmp_path, given)] == [
        part[0] for part in given.replace(",", " ").split()
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given", ["x", "a:short", f"{A},{A}", f"{A},{B},c:{'z' * 32}", f"{A},", "a:" + "é" * 32, "../:" + "x" * 32]
)
def test_malformed_keys_are_a_startup_error(tmp_path: Path, given: str) -> None:
    with pytest.raises(StartupError, match="HEADRACE_SESSION_SIGNING_KEYS must hold"):
        load_signing_keys(tmp_path, given)
