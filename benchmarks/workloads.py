"""Generates the seeded workloads of benchmarks: requests and arrival times, the same for the same seed everywhere.

Prompts are never constant: a constant prompt would be one long prefix-cache hit and would make sparse shortcuts look
fast. They are random ids of the vocabulary, or words of the project's own texts (`read_words`) in random order, no
word twice in a prompt, so that prompt lookup finds nothing in it. All lengths are drawn; no data set is read. Those of
*chat* follow ShareGPT, of *instructions* Alpaca, and of *questions* TruthfulQA's questions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator, default_rng

from inference_worker.engine.quantising.teacher_forcing import PASSAGE

FIRST_ID = 32
"""Lowest token id in prompts: control tokens come first in most vocabularies (SmolLM2 has 17)."""
SHORTEST, LONGEST = 4, 1024
ANSWER_CLASSES = ((1, 30), (31, 300), (301, 400))
"""Ranges of output tokens of `questions`, a third of the requests each."""
QUESTION_WORDS = (3, 60)
"""Fewest and most words of a question; the median is 9 and the mean 10, as in TruthfulQA."""
DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Request:
    """One prompt, and the number of tokens to generate regardless of the end of sequence, greedily by default."""

    prompt_ids: list[int]
    output_tokens: int
    temperature: float = 0.0


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


def questions(count: int, words: Sequence[list[int]], seed: int = 0) -> list[Request]:
    """Return `count` shuffled requests, sampled at temperature 1, with prompts of TruthfulQA's lengths.

    The number of words is lognormal, on average 10, from 3 to 60. Output lengths are uniform in a class of
    `ANSWER_CLASSES` from `SHORTEST` tokens on, and the classes have equally many requests. `words` are the ids of each.
    """
    rng = default_rng(seed)
    requests = []
    for number in range(count):
        low, high = ANSWER_CLASSES[number % len(ANSWER_CLASSES)]
        length = int(np.clip(round(rng.lognormal(np.log(9), 0.5)), *QUESTION_WORDS))
        prompt = [token for word in _drawn(rng, words)[:length] for token in word]
        requests.append(Request(prompt, int(rng.integers(max(low, SHORTEST), high + 1)), temperature=1.0))
    return [requests[index] for index in rng.permutation(count)]


def conversations(count: int, words: Sequence[list[int]], seed: int = 0) -> list[Request]:
    """Return `count` requests with the lengths of `chat`, made of `words` (ids of each), sampled at temperature 1."""
    return _worded(count, words, seed, (4.70, 1.3), (4.84, 1.0))


def instructions(count: int, words: Sequence[list[int]], seed: int = 0) -> list[Request]:
    """Return `count` requests with lengths as in Alpaca, made of `words` (ids of each), sampled at temperature 1.

    Lengths are lognormal, on average about 19 tokens in and 58 out.
    """
    return _worded(count, words, seed, (2.80, 0.55), (3.66, 0.9))


def read_words(encode: Callable[[str], list[int]]) -> list[list[int]]:
    """Return the distinct English words of the benchmarks' own texts, each as the ids that `encode` gives it."""
    documents = map(json.loads, (DATA / "halden" / "corpus.jsonl").read_text().splitlines())
    texts = [each["text"] for each in documents if each["_id"].startswith("en-")]
    words = re.findall("[a-z]+", " ".join([PASSAGE.read_text(), *texts]).lower())
    return [encode(f" {word}") for word in dict.fromkeys(words)]


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


def _worded(
    count: int, words: Sequence[list[int]], seed: int, inputs: tuple[float, float], outputs: tuple[float, float]
) -> list[Request]:
    """Return requests whose token counts are lognormal with the (mu, sigma) of `inputs` and `outputs`.

    Raises:
        ValueError: a prompt is longer than all words together.
    """
    rng = default_rng(seed)
    requests = []
    for _ in range(count):
        length = _lognormal(rng, *inputs)
        prompt = [token for word in _drawn(rng, words) for token in word][:length]
        if len(prompt) < length:
            raise ValueError(f"the words have {len(prompt)} tokens, and a prompt has {length}")
        requests.append(Request(prompt, _lognormal(rng, *outputs), temperature=1.0))
    return requests


def _drawn(rng: Generator, words: Sequence[list[int]]) -> list[list[int]]:
    """Return `words` in random order."""
    return [words[index] for index in rng.permutation(len(words))]


def _lognormal(rng: Generator, mu: float, sigma: float) -> int:
    return int(np.clip(round(rng.lognormal(mu, sigma)), SHORTEST, LONGEST))


def _ids(rng: Generator, count: int, vocab_size: int) -> list[int]:
    return [int(token) for token in rng.integers(FIRST_ID, vocab_size, count)]
