"""`headrace key`: the first API key of an installation without a launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from auth_billing.errors import InvalidApiKey
from infra.accounts import account_services
from infra.home.home import Home
from runtime.lifecycle import EXIT_CANNOT_START
from tests.infra.cli.test_main import headrace

PEPPER = "a pepper of thirty-two characters and more"


@pytest.mark.store
async def test_a_new_key_is_printed_and_replaces_the_earlier_one(tmp_path: Path, database_url: str) -> None:
    first, second = (
        headrace("key", home=tmp_path, HEADRACE_MONGODB_URL=database_url, HEADRACE_API_KEY_PEPPER=PEPPER).stdout.strip()
        for _ in range(2)
    )
    async with account_services.opened(Home(tmp_path), database_url, PEPPER) as access:
        assert (await access.authenticator().authenticate(second)).tenant == "development"
        with pytest.raises(InvalidApiKey):
            await access.authenticator().authenticate(first)


@pytest.mark.store
async def test_a_replaced_key_is_replaced_in_client_env_too(tmp_path: Path, database_url: str) -> None:
    home = Home(tmp_path)
    async with account_services.opened(home, database_url, PEPPER) as access:
        await access.write_development_key("http://127.0.0.1:8000/v1")
        new = await access.renew_development_key()
        assert home.client_env.read_text() == f"OPENAI_BASE_URL=http://127.0.0.1:8000/v1\nOPENAI_API_KEY={new}\n"
        other = f"OPENAI_API_KEY={new[:-1]}{'y' if new.endswith('x') else 'x'}\n"  # of another store
        home.client_env.write_text(other)
        await access.renew_development_key()
        assert home.client_env.read_text() == other


def test_without_a_store_it_says_what_to_set(tmp_path: Path) -> None:
    done = headrace("key", home=tmp_path)
    assert done.returncode == EXIT_CANNOT_START
    assert "HEADRACE_MONGODB_URL" in done.stderr
