"""Runs a beam search as a client of model servers: in each step a request for each path, then a request for scores.

The loop of Hugging Face's search-and-learn, with HTTP requests in the place of its engine and its verifier.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

from benchmarks.client import Endpoint, open_session

MOST_CHOICES = 128
"""Largest `n` of a completion request, as in OpenAI's specification; the first step may need several requests."""


@dataclass(frozen=True)
class SearchSize:
    """Size of a beam search without early ends: each of `steps` steps adds `step_tokens` tokens to each path.

    Attributes:
        paths: paths that go on after each step.
        expansions: continuations of each path.
    """

    paths: int
    expansions: int
    steps: int
    step_tokens: int

    @property
    def generated(self) -> int:
        """Number of tokens that all paths of the search together generate."""
        return self.paths * self.expansions * self.steps * self.step_tokens


class Scorer(Protocol):
    """Requests scores of answers from a server's verifier."""

    async def __call__(self, http: aiohttp.ClientSession, question: str, answers: list[list[str]]) -> list[float]:
        """Return the score of the last step of each answer; an answer is a list of steps."""


async def search(generator: Endpoint, scorer: Scorer, question: str, prompt: str, size: SearchSize) -> str:
    """Run a beam search for the answer of `question` by HTTP requests, and return the best path's text.

    Args:
        generator: the server of the generating model.
        scorer: requests scores from a verifier's server.
        prompt: the question in the model's chat template.
        size: how many paths and steps.
    """
    async with open_session(generator) as http:
        paths: list[list[str]] = [[]]
        for _ in range(size.steps):
            count = size.expansions if paths[0] else size.paths * size.expansions
            origins = [
                (path, min(MOST_CHOICES, count - sent)) for path in paths for sent in range(0, count, MOST_CHOICES)
            ]
            requests = [
                _continuations(http, generator, prompt + "".join(path), choices, size.step_tokens)
                for path, choices in origins
            ]
            found = await asyncio.gather(*requests)
            candidates = [[*path, text] for (path, _), texts in zip(origins, found, strict=True) for text in texts]
            scores = await scorer(http, question, candidates)
            order = sorted(range(len(candidates)), key=lambda index: -scores[index])
            paths = [candidates[index] for index in order[: size.paths]]
        return "".join(paths[0])


async def _continuations(
    http: aiohttp.ClientSession, generator: Endpoint, prompt: str, count: int, most: int
) -> list[str]:
    body: dict[str, Any] = {
        "model": generator.model,
        "prompt": prompt,
        "n": count,
        "max_tokens": most,
        "temperature": 0.8,
        "ignore_eos": True,
    }
    answer = await post(http, f"{generator.base_url}/completions", body)
    return [choice["text"] for choice in sorted(answer["choices"], key=lambda choice: choice["index"])]


async def post(http: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> Any:
    """Send a JSON request by POST to `url` and return the JSON value of the response.

    Raises:
        aiohttp.ClientResponseError: the server refused the request.
    """
    async with http.post(url, json=body) as answer:
        if not answer.ok:
            raise aiohttp.ClientResponseError(
                answer.request_info, answer.history, status=answer.status, message=(await answer.text())[:300]
            )
        return await answer.json()
