"""A real OpenID Connect provider (npm's `oidc-provider`) as a process, and the sign-in at it without a browser."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

FOLDER = Path(__file__).parent
CLIENT_ID, CLIENT_SECRET = "headrace", "a secret: 100% & more="


class ProviderProcess:
    """The provider. `origin`: of the web chat that is its client."""

    def __init__(self, origin: str, *, lean_id_token: bool = False) -> None:
        if not (FOLDER / "node_modules").is_dir() or shutil.which("node") is None:
            reason = "Node or the OpenID Connect provider is missing: `make setup-dev`"
            pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
        self._origin, self._lean = origin, lean_id_token
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self._port: int = listening.getsockname()[1]
        self.issuer = f"http://127.0.0.1:{self._port}"
        self.accounts: dict[str, dict[str, Any]] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the provider, with new signing keys and the accounts that were set; without a signed-in user."""
        self._process = subprocess.Popen(
            ["node", "provider.js", str(self._port), self._origin],
            cwd=FOLDER,
            env={
                "PATH": os.environ["PATH"],
                "CLIENT_SECRET": CLIENT_SECRET,
                "LEAN_ID_TOKEN": f"{self._lean:d}",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()).strip() != b"ready":
            assert line, "the provider did not start"
        for subject, claims in self.accounts.items():
            self.account(subject, **claims)

    def stop(self) -> None:
        """Kill the provider, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def account(self, subject: str, **claims: Any) -> None:
        """Set the claims of an account."""
        self.accounts[subject] = claims
        self._control("PUT", f"accounts/{subject}", json=claims)

    def remove(self, subject: str) -> None:
        """Delete an account."""
        del self.accounts[subject]
        self._control("DELETE", f"accounts/{subject}")

    def delay(self, milliseconds: int) -> None:
        """Delay all later answers."""
        self._control("PUT", "delay", content=str(milliseconds))

    def _control(self, method: str, path: str, **options: Any) -> None:
        httpx.request(method, f"{self.issuer}/control/{path}", verify=False, **options).raise_for_status()

    async def authorise(self, url: str, subject: str) -> str:
        """Sign in at the provider as a person does who is sent to `url`; return the URL of the redirect back."""
        async with httpx.AsyncClient(verify=False) as client:  # http only; certificates take long to read
            response = await client.get(url)
            for _ in range(12):
                location = urljoin(str(response.url), response.headers.get("location", ""))
                if response.is_redirect and location.startswith(self._origin):
                    return location
                if response.is_redirect:
                    response = await client.get(location)
                    continue
                action = re.search(r'action="([^"]+)"', response.text)
                assert action, response.text[:500]
                prompt = re.search(r'name="prompt" value="(\w+)"', response.text)
                form = {"prompt": prompt[1] if prompt else "login", "login": subject, "password": "any"}
                response = await client.post(urljoin(str(response.url), action[1]), data=form)
        raise AssertionError("the provider did not send the browser back")
