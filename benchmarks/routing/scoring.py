"""Scores a router of the assistant on labelled prompts: accuracy, recall per tool, confusion, time of a decision."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from assistant.routing.labelled_prompts import LABELS, LabelledPrompt
from assistant.routing.router import Choice
from benchmarks.results import Row


@dataclass
class RoutingScore:
    """Choices of a router for labelled prompts, with the seconds that each took."""

    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of prompts by their label and the chosen one."""
    seconds: list[float] = field(default_factory=list)
    wrong: list[tuple[LabelledPrompt, str]] = field(default_factory=list)
    failed: int = 0
    """Decisions that failed; each counts as wrong."""

    late: int = 0
    """Decisions by n-grams alone, because there was no vector in time."""

    def add(self, prompt: LabelledPrompt, choice: Choice | None, seconds: float) -> None:
        """Count the router's decision for one labelled prompt, which took `seconds`; `None`: the router failed."""
        label = "failed" if choice is None else choice.tool or "none"
        self.confusion[prompt.tool, label] += 1
        self.seconds.append(seconds)
        self.failed += choice is None
        self.late += choice is not None and choice.embedding == "late"
        if label != prompt.tool:
            self.wrong.append((prompt, label))

    @property
    def accuracy(self) -> float:
        """Share, 0 to 1, of prompts for which the router chose the labelled tool; 0 without prompts."""
        total = self.confusion.total()
        return (
            sum(count for (label, chosen), count in self.confusion.items() if label == chosen) / total if total else 0.0
        )

    def recall(self, label: str) -> float | None:
        """Return the share, 0 to 1, of prompts with `label` for which the router chose it; `None` without any."""
        total = sum(count for (wanted, _), count in self.confusion.items() if wanted == label)
        return self.confusion[label, label] / total if total else None

    def row(self) -> Row:
        """Return the router's score as the columns of a result row; times are in milliseconds."""
        return {
            "prompts": len(self.seconds),
            "accuracy": self.accuracy,
            **{f"recall_{label}": self.recall(label) for label in LABELS},
            "decision_ms_p50": float(np.percentile(self.seconds, 50)) * 1000,
            "decision_ms_p95": float(np.percentile(self.seconds, 95)) * 1000,
            "late": self.late,
            "failed": self.failed,
        }

    def confusion_rows(self) -> list[Row]:
        """Return how often each tool was chosen for each label: a result row per label, a column per choice."""
        columns = [*LABELS, "failed"] if self.failed else [*LABELS]
        return [
            {"label": label, **{f"chose_{chosen}": self.confusion[label, chosen] for chosen in columns}}
            for label in LABELS
        ]
