"""A home has one launcher, and its secrets are readable by their owner only."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from infra.home.credentials import broker_passwords, password_file, read_client_key, write_client_env
from infra.home.home import Home, HomeLocked, LockHolder, lock_holder, lock_home
from runtime.lifecycle import StartupError

HOLDER = LockHolder("serve", 4711, "http://127.0.0.1:8000")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


def test_a_second_launcher_names_the_running_one(home: Home) -> None:
    with lock_home(home, HOLDER):
        assert lock_holder(home) == HOLDER
        with (
            pytest.raises(HomeLocked, match=r"`headrace serve` already runs in .*pid 4711") as raised,
            lock_home(home, HOLDER),
        ):
            pass
        assert raised.value.holder == HOLDER


def test_a_home_is_free_again_afterwards(home: Home) -> None:
    with lock_home(home, HOLDER):
        pass
    assert lock_holder(home) is None
    with lock_home(home, HOLDER):
        pass


def test_an_unwritable_home_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match="HEADRACE_HOME"):
        Home(tmp_path / "file").prepare()


def test_secrets_are_for_their_owner_only_and_stay(home: Home) -> None:
    passwords = broker_passwords(home, ["admin", "worker"])
    assert passwords["admin"] != passwords["worker"]
    assert broker_passwords(home, ["worker", "admin"]) == passwords
    assert stat.S_IMODE(password_file(home, "admin").stat().st_mode) == 0o600


def test_the_client_file_holds_both_values(home: Home) -> None:
    assert read_client_key(home) is None
    write_client_env(home, "http://127.0.0.1:8000/v1", "key=with=signs")
    assert home.client_env.read_text() == ("OPENAI_BASE_URL=http://127.0.0.1:8000/v1\nOPENAI_API_KEY=key=with=signs\n")
    assert read_client_key(home) == "key=with=signs"
    assert stat.S_IMODE(home.client_env.stat().st_mode) == 0o600
