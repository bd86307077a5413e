"""Client of the gateway's Batch and Files API for the commands `headrace batch ...`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from infra.home.credentials import read_client_key, read_client_url
from infra.home.home import Home
from runtime.lifecycle import StartupError

ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
"""States in which a batch does not change any more."""
TIMEOUT = 60.0
"""Seconds without progress of a request."""
BATCH_PREFIX = "batch_"
"""Beginning of every batch's id."""
POLL_INTERVAL = 2.0
"""Seconds between two reads of a batch's state."""

Batch = dict[str, Any]


class BatchCommands:
    """Creates, reads and cancels batches at a gateway by HTTP.

    Args:
        url: base URL of the API, with `/v1`.
        key: API key with the scopes `files` and `batches`.
    """

    def __init__(self, url: str, key: str, transport: httpx2.BaseTransport | None = None) -> None:
        headers = {"authorization": f"Bearer {key}"}
        self._http = httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=TIMEOUT, transport=transport)

    @staticmethod
    def of(home: Home) -> BatchCommands:
        """Return the client of `OPENAI_BASE_URL` with `OPENAI_API_KEY`, or without the former that of `client.env`.

        A key is sent only to the address that it belongs to: a lone `OPENAI_API_KEY` is not for the home's gateway.

        Raises:
            StartupError: neither names a gateway with its key.
        """
        given, of_home = os.environ.get("OPENAI_BASE_URL"), read_client_url(home)
        is_home = not given or given.rstrip("/") == (of_home or "").rstrip("/")
        url = given or of_home
        key = (os.environ.get("OPENAI_API_KEY") if given else None) or (read_client_key(home) if is_home else None)
        if not url or not key:
            raise StartupError("no gateway: set OPENAI_BASE_URL and OPENAI_API_KEY, or start one with `headrace serve`")
        return BatchCommands(url, key)

    def create(self, file: Path, endpoint: str | None) -> Batch:
        """Upload a file of requests and create its batch, for `endpoint` or that of its first line."""
        endpoint = endpoint or _endpoint_of(file)
        with file.open("rb") as content:
            form = {"data": {"purpose": "batch"}, "files": {"file": (file.name, content)}}
            uploaded = self._answer("POST", "/files", **form)
        body = {"input_file_id": uploaded["id"], "endpoint": endpoint, "completion_window": "24h"}
        return self._answer("POST", "/batches", json=body)

    def find(self, id: str) -> Batch:
        """Return the batch with this id, or the one among the newest 100 whose id begins so (`batch_` may be left out).

        Raises:
            StartupError: there is none, or several begin so.
        """
        response = self._request("GET", f"/batches/{quote(id, safe='')}")
        if response.status_code != 404:
            return _answer_of(response)
        start = BATCH_PREFIX + id.removeprefix(BATCH_PREFIX)
        matching = [each for each in self.latest() if each["id"].startswith(start)]
        if not matching:
            raise StartupError(_reason(response))
        if len(matching) > 1:
            raise StartupError(f"the ids of {len(matching)} batches begin with {start}: give more of the id")
        return matching[0]

    def ended(self, id: str) -> Batch:
        """Return one batch that has ended.

        Raises:
            StartupError: it has not ended, so it has no results.
        """
        found = self.find(id)
        if found["status"] not in ENDED:
            raise StartupError(f"the batch is {found['status']} and has no results yet: `headrace batch wait {id}`")
        return found

    def latest(self) -> list[Batch]:
        """Return the project's newest batches, at most 100."""
        found: list[Batch] = self._answer("GET", "/batches?limit=100")["data"]
        return found

    def cancel(self, id: str) -> Batch:
        """Cancel one batch, found by its id as `find` does, and return it."""
        return self._answer("POST", f"/batches/{self.find(id)['id']}/cancel")

    def progress(self, id: str, sleep: Callable[[float], None] = time.sleep) -> Iterator[Batch]:
        """Yield one batch again and again, until it has ended."""
        batch = self.find(id)
        while batch["status"] not in ENDED:
            yield batch
            sleep(POLL_INTERVAL)
            batch = self.find(batch["id"])
        yield batch

    def download(self, file_id: str, path: Path) -> None:
        """Write the content of one file to a new file `path`."""
        with self._http.stream("GET", f"/files/{file_id}/content") as response:
            if response.status_code != 200:
                response.read()
                raise StartupError(_reason(response))
            try:
                with path.open("xb") as file:
                    for chunk in response.iter_bytes():
                        file.write(chunk)
            except OSError as error:
                raise StartupError(f"can't write {path}: {error.strerror}") from error

    def _answer(self, method: str, path: str, **options: Any) -> Batch:
        return _answer_of(self._request(method, path, **options))

    def _request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        try:
            return self._http.request(method, path, **options)
        except httpx2.HTTPError as error:
            raise StartupError(f"the gateway at {self._http.base_url} does not answer: {error}") from error


def _answer_of(response: httpx2.Response) -> Batch:
    if response.status_code != 200:
        raise StartupError(_reason(response))
    answer: Batch = response.json()
    return answer


def _endpoint_of(file: Path) -> str:
    try:
        with file.open("rb") as lines:
            url = json.loads(lines.readline())["url"]
    except OSError as error:
        raise StartupError(f"{file} can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StartupError(f"{file} is no file of JSON lines with a `url`: {error}") from error
    return str(url)


def _reason(response: httpx2.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the gateway answers {response.status_code}"
