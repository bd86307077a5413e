"""The built page and a stub of its API on one origin."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from tests.chat_ui.stub_chat import StubChat

DIST = Path(__file__).parents[2] / "chat_ui" / "web" / "dist"


class StubServer(uvicorn.Server):
    """Runs the stub in a thread, on a free local port."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(
            uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", timeout_graceful_shutdown=1)
        )
        self.ready = threading.Event()
        self._thread = threading.Thread(target=self.run, name="stub-chat")

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    def __enter__(self) -> str:
        self._thread.start()
        if not self.ready.wait(20):
            raise TimeoutError("the stub server did not start")
        return f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}"

    def __exit__(self, *exc: object) -> None:
        self.should_exit = True
        self._thread.join(20)


@pytest.fixture
def stub() -> StubChat:
    """The stub API of this test."""
    return StubChat({"Hello": "Hi! I am **bold**.\n\n```python\nprint(1)\n```\n", "Again": "Second."})


@pytest.fixture
def origin(stub: StubChat) -> Iterator[str]:
    """The origin that serves the stub and the built page."""
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    with StubServer(stub.app(DIST)) as origin:
        yield origin
