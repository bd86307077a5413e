"""Generates the seeded workloads of benchmarks: requests and arrival times, the same for the same seed everywhere.

Prompt ids are random in the vocabulary, never constant: a constant prompt would be one long prefix-cache hit and
would make sparse shortcuts look fast. The length distribution of *chat* follows ShareGPT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, default_rng

FIRST_ID = 32
"""Lowest token id in prompts: control tokens come first in most vocabularies (SmolLM2 has 17)."""
SHORTEST, LONGEST = 4, 1024


@dataclass(frozen=True)
class Request:
    """One prompt, and the number of tokens to generate regardless of the end of sequence."""

    prompt_ids: list[int]
    output_tokens: int


@dataclass(frozen=True)
class Conversation:
    """The turns of one user: each turn's prompt is all earlier turns and answers followed by its new ids.

    Attributes:
        turns: new ids of each turn; the first begins with the tenant's system prompt.
        output_tokens: number of tokens of each answer.
    """

    turns: list[list[int]]
    output_tokens: int


# --- Lengths --------------------------------------------------------------------------------------


def chat(count: int, vocab_size: int, seed: int = 0) -> list[Request]:
    """Return `count` requests with lengths as in ShareGPT: lognormal, on average about 200 tokens in and 170 out."""
    return _requests(count, vocab_size, seed, lambda rng: (_lognormal(rng, 4.70, 1.3), _lognormal(rng, 4.84, 1.0)))


def fixed(count: int, vocab_size: int, inputs: int, outputs: int, seed: int = 0) -> list[Request]:
    """Return `count` requests, each with `inputs` random prompt tokens and `outputs` tokens to generate."""
    return _requests(count, vocab_size, seed, lambda _: (inputs, outputs))


def shared_prefix(
    tenants: int,
    conversations: int,
    vocab_size: int,
    *,
    turns: int = 4,
    prefix: int = 1024,
    question: int = 32,
    answer: int = 32,
    seed: int = 0,
) -> list[Conversation]:
    """Return the conversations of several tenants, `conversations` of each, in turns of tenants.

    All conversations of a tenant begin with its system prompt of `prefix` tokens.
    """
    rng = default_rng(seed)
    systems = [_ids(rng, prefix, vocab_size) for _ in range(tenants)]

    def conversation(system: list[int]) -> Conversation:
        questions = [_ids(rng, question, vocab_size) for _ in range(turns)]
        return Conversation([system + questions[0], *questions[1:]], answer)

    return [conversation(system) for _ in range(conversations) for system in systems]


# --- Arrivals -------------------------------------------------------------------------------------


def poisson(count: int, rate: float, seed: int = 0) -> list[float]:
    """Return the ascending arrival times in seconds of `count` independent requests, `rate` per second on average."""
    return [float(second) for second in np.cumsum(default_rng(seed).exponential(1 / rate, count))]


# --- Parts ----------------------------------------------------------------------------------------


def _requests(count: int, vocab_size: int, seed: int, lengths: Callable[[Generator], tuple[int, int]]) -> list[Request]:
    rng = default_rng(seed)
    requests = []
    for _ in range(count):
        inputs, outputs = lengths(rng)
        requests.append(Request(_ids(rng, inputs, vocab_size), outputs))
    return requests


def _lognormal(rng: Generator, mu: float, sigma: float) -> int:
    return int(np.clip(round(rng.lognormal(mu, sigma)), SHORTEST, LONGEST))


def _ids(rng: Generator, count: int, vocab_size: int) -> list[int]:
    return [int(token) for token in rng.integers(FIRST_ID, vocab_size, count)]
