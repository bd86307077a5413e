"""The ways of answering that are compared: greedy, votes, and searches with a verifier, of N answers or paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.test_time_compute.platform import VERIFIER
from benchmarks.test_time_compute.task import SEPARATOR, Task
from router.messages import SearchMethod

GREEDY, SAMPLE, FIXED_VOTE = "greedy", "one sample", "vote of all N"
"""Ways without a search: one answer without and with sampling, and a vote of N answers that are all generated."""
EXPANSIONS = 4
"""Continuations of each path in a search with steps: N of them are compared in a step, and N / 4 go on."""
STEP_TOKENS = 32
MAX_TOKENS = 64


@dataclass(frozen=True)
class Way:
    """A way of answering, with its number N of answers or paths."""

    method: str
    n: int

    def options(self, task: Task, temperature: float) -> dict[str, Any]:
        """Return the fields of a chat completion that asks for the answer to `task` in this way."""
        sampled = {"max_tokens": MAX_TOKENS, "temperature": temperature}
        match self.method:
            case "greedy":
                return sampled | {"temperature": 0}
            case "one sample":
                return sampled
            case "vote of all N":
                return sampled | {"n": self.n}
        method = SearchMethod(self.method)
        if method is SearchMethod.LIKELIHOOD_BEAM_SEARCH:
            sampled["temperature"] = 0
        search: dict[str, Any] = {"method": self.method, "n": self.n}
        if method.stepwise:
            search |= {"n": self.n // EXPANSIONS, "expansions": EXPANSIONS, "step_tokens": STEP_TOKENS}
        if method.verified:
            search |= {"verifier": VERIFIER, "separator": SEPARATOR}
        if method.votes:
            search["extract"] = task.family.extract
        return sampled | {"extra_body": {"test_time_compute": search}}


def ways_of_accuracy(sizes: list[int]) -> list[Way]:
    """Return greedy decoding, one sample (which every method is with N = 1), and each method with each larger N."""
    larger = [n for n in sizes if n > 1]
    return [Way(GREEDY, 1), Way(SAMPLE, 1), *(Way(method.value, n) for method in SearchMethod for n in larger)]


def ways_of_voting(sizes: list[int]) -> list[Way]:
    """Return the vote of all answers and that of self-consistency, which stops, with each N above 1."""
    return [Way(method, n) for n in sizes if n > 1 for method in (FIXED_VOTE, SearchMethod.SELF_CONSISTENCY.value)]
