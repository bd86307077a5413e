"""A bounded load of streamed answers from the `openai` client, which counts the answers that are not whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from openai import OpenAI, OpenAIError

MODEL = "smollm2-135m-instruct"
CLIENTS = 2
PAUSE = 0.5
"""Seconds between two answers of a client: workers that start need the processor too."""
TOKENS = 48


def stream(client: OpenAI, question: str, tokens: int = TOKENS) -> tuple[str, str | None]:
    """Stream an answer; return its text and its finish reason."""
    text, reason = "", None
    for chunk in client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": question}], max_tokens=tokens, stream=True, temperature=0
    ):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
    return text, reason


@dataclass
class Load:
    """What the clients have received so far."""

    client: OpenAI
    answers: int = 0
    failures: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    begin: float = field(default_factory=time.monotonic)

    def wait_for(self, answers: int, timeout: float = 120) -> None:
        """Wait for this many further answers. Raises `TimeoutError`."""
        wanted, until = self.answers + answers, time.monotonic() + timeout
        while self.answers < wanted:
            if time.monotonic() > until:
                raise TimeoutError(f"{self.answers} answers instead of {wanted}; failures: {self.failures}")
            time.sleep(0.1)

    def note(self, event: str) -> None:
        """Print an event with its time, which failures have too."""
        elapsed = time.monotonic() - self.begin
        print(f"containers: after {elapsed:.1f} s and {self.answers} answers: {event}", flush=True)

    def fail(self, reason: str) -> None:
        """Record an answer that is not whole, and pause: what fails at once would fail in a tight loop."""
        self.failures.append(f"after {time.monotonic() - self.begin:.1f} s: {reason}")
        time.sleep(1)

    def run(self, number: int) -> None:
        """Ask one question after the other until `stop`."""
        while not self.stop.is_set():
            try:
                text, reason = stream(self.client, f"Client {number}: name {self.answers} rivers of Africa.")
            except OpenAIError as error:
                self.fail(repr(error))
            else:
                if not text or reason not in ("stop", "length"):
                    self.fail(f"finish reason {reason} after {text!r}")
            self.answers += 1
            self.stop.wait(PAUSE)


@contextmanager
def load(client: OpenAI) -> Iterator[Load]:
    """Run the clients while the block runs, and let their last answers end."""
    running = Load(client)
    threads = [threading.Thread(target=running.run, args=[number], daemon=True) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield running
    finally:
        running.stop.set()
        for thread in threads:
            thread.join(120)
