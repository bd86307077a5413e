"""Keeps the current state of an answer that this process writes in memory, shared by its writer and its readers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from chat_ui.history.records import Message, QueueStatus, State, TokenUsage
from chat_ui.history.steps import Step
from runtime.changes import Changes


@dataclass
class LiveAnswer:
    """An answer in memory: one task writes it, any number read it. `pieces` makes appending a token O(1)."""

    message: Message
    """The message as it was when this process began to write it."""
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    attempt: int = 0
    steps: dict[int, Step] = field(default_factory=dict)
    """Steps by number."""
    waiting: QueueStatus | None = None
    state: State = State.WAITING
    usage: TokenUsage = field(default_factory=TokenUsage)
    cost: int = 0
    first_token_seconds: float | None = None
    final: Message | None = None
    """The final message as stored; `None` while the answer is being written."""
    released: bool = False
    """Whether this process stopped writing before the end; another process may continue."""
    changes: Changes = field(default_factory=Changes)
    """Changes of the answer, which its readers wait for."""

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    @property
    def snapshot(self) -> Message:
        """The answer as a message: the stored final one once it has ended, else with its current text and state."""
        if self.final is not None:
            return self.final
        return replace(
            self.message,
            text=self.text,
            state=self.state,
            attempt=self.attempt,
            steps=list(self.steps.values()),
            waiting=self.waiting,
        )

    def add(self, text: str) -> None:
        """Append a piece of text to the answer in memory, mark the answer as running, and wake its readers."""
        self.pieces.append(text)
        self.length += len(text)
        self.state = State.RUNNING
        self.changes.notify()

    def put_step(self, step: Step) -> None:
        """Add or replace (by number) a step of the answer in memory, mark the answer as running, wake its readers."""
        self.steps[step.number] = step
        self.state = State.RUNNING
        self.changes.notify()

    def restart(self) -> None:
        """Drop the answer's text and steps, as the model starts again; count a new attempt and wake the readers."""
        self.pieces.clear()
        self.steps.clear()
        self.length = 0
        self.attempt += 1
        self.changes.notify()
