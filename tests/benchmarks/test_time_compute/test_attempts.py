"""Attempts at tasks: the request of each way, its tokens, and votes of all answers and of the first ones."""

from __future__ import annotations

from typing import Any, cast

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletion

from benchmarks.client import Endpoint
from benchmarks.test_time_compute.attempts import attempt, stopped_vote, winner
from benchmarks.test_time_compute.methods import FIXED_VOTE, GREEDY, SAMPLE, Way, ways_of_accuracy, ways_of_voting
from benchmarks.test_time_compute.platform import VERIFIER, Platform
from benchmarks.test_time_compute.task import Family, Task
from gateway.openai.chat_completions import ChatCompletionRequest

TASK = Task(Family.EQUATION, "en", "Solve for x: 2x + 1 = 7", "2x = 7 - 1 = 6\n\nx = 6 / 2 = 3\n\nAnswer: 3")
GAME = Task(Family.GAME_OF_24, "en", "?", "8 / (3 - 8 / 3) = 24", numbers=(3, 3, 8, 8))


class Completions:
    """Answers each request with the same texts and usage, and keeps the requests."""

    def __init__(self, texts: list[str], usage: dict[str, Any]) -> None:
        self._texts, self._usage = texts, usage
        self.requests: list[dict[str, Any]] = []

    def create(self, **request: Any) -> ChatCompletion:
        self.requests.append(request)
        choices = [
            {"index": index, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
            for index, text in enumerate(self._texts)
        ]
        fields = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}
        return ChatCompletion.model_validate(fields | {"usage": self._usage})


class Client:
    """Has the chat completions of OpenAI's client."""

    def __init__(self, completions: Completions) -> None:
        self.chat = self
        self.completions = completions


def platform(texts: list[str], **usage: Any) -> tuple[Platform, Completions]:
    completions = Completions(texts, {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14, **usage})
    return Platform(Endpoint("", "", "m"), cast(OpenAI, Client(completions))), completions


def test_tokens_of_all_paths_and_of_the_verifier_are_counted() -> None:
    parts = [
        {"model": "m", "prompt_tokens": 0, "completion_tokens": 40},
        {"model": VERIFIER, "prompt_tokens": 300, "completion_tokens": 0},
        {"model": VERIFIER, "prompt_tokens": 70, "completion_tokens": 0},
    ]
    way = Way("beam_search", 16)
    found = attempt(platform(["Answer: 3"], parts=parts)[0], TASK, way, temperature=0.7, seed=1)
    assert (found.right, found.generated, found.scored, found.stopped) == (True, 45, 370, None)


def test_the_result_of_most_answers_wins_and_the_first_ones_may_suffice() -> None:
    texts = ["3", "3", "3", "3", *["4"] * 12]
    found = attempt(platform(texts)[0], TASK, Way(FIXED_VOTE, 16), temperature=0.7, seed=1)
    assert not found.right
    assert found.stopped == stopped_vote(TASK, texts)
    assert (found.stopped.answers, found.stopped.right) == (3, True)


def test_votes_that_differ_are_not_stopped() -> None:
    texts = [str(number) for number in range(16)]
    assert stopped_vote(TASK, texts).answers == 16
    assert winner(TASK, texts) == "0"
    assert winner(TASK, ["none", "no"]) == "none"


@pytest.mark.parametrize("task", [TASK, GAME])
def test_the_gateway_accepts_the_request_of_each_way(task: Task) -> None:
    for way in [*ways_of_accuracy([1, 4, 16]), *ways_of_voting([16])]:
        served, completions = platform(["3"])
        attempt(served, task, way, temperature=0.7, seed=1)
        (request,) = completions.requests
        search = request.pop("extra_body", {})
        ChatCompletionRequest.model_validate(request | search)
        assert bool(search) is (way.method not in (GREEDY, SAMPLE, FIXED_VOTE))
