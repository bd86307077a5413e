"""One `headrace serve` with the real model for all tests of client libraries, under an alias too."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import openai
import pytest

from infra.launcher.readiness import free_port
from tests.e2e.launcher_process import MODEL, Launched, new_home, until

ALIAS = "gpt-4o"


class Service(Launched):
    """A `headrace serve` process, with its worker's state."""

    def running(self) -> int:
        """Return the number of sequences that the worker runs."""
        record = json.loads((self.home / "run" / "serve.json").read_text())
        with urllib.request.urlopen(record["status_url"], timeout=10) as response:
            return int(json.load(response)["running"])

    def async_client(self) -> openai.AsyncOpenAI:
        one = self.client()
        return openai.AsyncOpenAI(base_url=one.base_url, api_key=one.api_key, max_retries=0)

    def until_idle(self) -> None:
        until(lambda: self.running() == 0, 15, lambda: f"{self.running()} sequences still run")


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = new_home(tmp_path_factory)
    aliases = home / "aliases.toml"
    aliases.write_text(f'[aliases]\n{ALIAS} = "{MODEL}"\n')
    launched = Service(["serve", "--model-aliases", str(aliases)], home, free_port())
    try:
        launched.until_ready()
        yield launched
    finally:
        launched.end()


@pytest.fixture(scope="package")
def client(service: Service) -> openai.OpenAI:
    return service.client()
