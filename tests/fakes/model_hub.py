"""A Hugging Face hub with a few repositories, on a port of its own: what `huggingface_hub` asks to fetch a snapshot."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

COMMIT = "c0ffee" * 6 + "abcd"
Repositories = Mapping[str, Mapping[str, bytes]]
"""Repository, file, content."""


class ModelHub(ThreadingHTTPServer):
    """`fetched` are the files whose content was asked for, as `repository/file`."""

    daemon_threads = True

    def __init__(self, repositories: Repositories) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories = repositories
        self.fetched: list[str] = []

    @property
    def url(self) -> str:
        """For `HF_ENDPOINT`."""
        return f"http://127.0.0.1:{self.server_port}"

    @contextmanager
    def running(self) -> Iterator[ModelHub]:
        """Serve in a thread."""
        thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ModelHub

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *_args: object) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        for repository, files in self.server.repositories.items():
            if path == f"/api/models/{repository}/revision/main":
                return self._send(json.dumps({"id": repository, "sha": COMMIT}).encode())
            if path == f"/api/models/{repository}/tree/{COMMIT}":
                return self._send(json.dumps([_entry(name, content) for name, content in files.items()]).encode())
            name = path.removeprefix(f"/{repository}/resolve/{COMMIT}/")
            if name in files:
                if self.command == "GET":
                    self.server.fetched.append(f"{repository}/{name}")
                return self._send(files[name])
        return self._send(b"{}", 404)

    def _send(self, content: bytes, status: int = 200) -> None:
        self.send_response(status)
        if status == 404:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{_oid(content)}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


def _oid(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _entry(name: str, content: bytes) -> dict[str, object]:
    return {"type": "file", "path": name, "size": len(content), "oid": _oid(content)}
