"""The client's record of each request: the evidence that the checker starts from.

One line of JSON per request. Times are Unix seconds of the machine that everything runs on.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import msgspec


class End(StrEnum):
    """How a request ended for its client."""

    FINISHED = "finished"
    """To the end: a whole body, or all of a stream and `[DONE]`."""
    FAILED = "failed"
    """An error event inside a stream."""
    REFUSED = "refused"
    """A status that is no 2xx."""
    BROKEN = "broken"
    """The connection went, and not by the client's will."""
    LEFT = "left"
    """The client went."""
    UNREACHABLE = "unreachable"
    """No gateway took the connection: nothing was asked."""
    UNFINISHED = "unfinished"
    """The request was still running when the run ended."""


class Arrival(msgspec.Struct, array_like=True):
    """A piece of text of one choice."""

    at: float
    choice: int
    text: str


class Told(msgspec.Struct, array_like=True):
    """The usage that a client was told."""

    prompt: int
    completion: int
    cached: int
    calls: int = 0
    """Calls of an assistant's tools."""


class Request(msgspec.Struct, kw_only=True):
    """One HTTP request."""

    number: int
    """Also in its prompt, so that what an engine counted can be joined."""
    act: str
    asked: int
    """Most tokens of each choice."""
    choices: int = 1
    stop_before: int | None = None
    """The number that the client's stop string names; text ends before it."""
    streamed: bool = True
    innocent: bool = True
    """Not made to bring an engine down."""
    key: str = ""
    """Its `Idempotency-Key`."""
    gateway: str = ""
    began: float = 0.0
    head: float | None = None
    """When the status line was there."""
    status: int = 0
    retry_after: float | None = None
    shaped: bool = True
    """Whether an error has OpenAI's shape."""
    code: str = ""
    """Of an error."""
    id: str = ""
    """The answer's, which is that of its job."""
    arrivals: list[Arrival] = []
    finish: dict[int, str] = {}
    """`finish_reason`, by choice."""
    usage: Told | None = None
    steps: list[str] = []
    """Kind and state of an assistant's ended steps, in order."""
    end: End = End.UNFINISHED
    ended: float = 0.0
    why: str = ""
    """What the client's side knows of a broken connection."""

    def text(self, choice: int) -> str:
        """All that came of a choice."""
        return "".join(arrival.text for arrival in self.arrivals if arrival.choice == choice)


def write(requests: Iterable[Request], path: Path) -> None:
    """One line each."""
    encoder = msgspec.json.Encoder()
    path.write_bytes(b"".join(encoder.encode(request) + b"\n" for request in requests))


def read(path: Path) -> list[Request]:
    """What `write` has written."""
    decoder = msgspec.json.Decoder(Request)
    return [decoder.decode(line) for line in path.read_bytes().splitlines()]
