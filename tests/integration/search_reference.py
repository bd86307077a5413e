"""Searches written as plain loops over models of `transformers`, to be compared with those of a worker.

Each token takes a forward pass over all tokens before it, and each path's scores one over the question and all steps.
From the code under test comes only `philox.uniform`, the random number of a seed, a choice and a position.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, field

import numpy as np
import torch
from msgspec.structs import replace
from tokenizers import Tokenizer
from torch import Tensor

from inference_worker.engine.sampling.philox import uniform
from router.messages import Aggregate, SamplingParams, Search, SearchMethod
from tests.inference_worker.search.reference import merged

STOP_TOKEN, STEP_END = "<|im_end|>", "<extra_0>"


@dataclass
class Path:
    """A path: one continuation of its parent.

    Attributes:
        parent: the path that it continues; `None`: the prompt.
        tree: index of its tree, with `dvts`.
        prompt_ids, seed, choice: what the random numbers and the distributions of its tokens depend on.
        ids: its tokens, after `prompt_ids`.
        steps: the texts of all continuations from the prompt on.
        ended: why it can't go on; `None`: it can.
        rollout: continuations by the most probable tokens, by which the path is scored.
    """

    number: int
    parent: Path | None
    tree: int
    prompt_ids: list[int]
    seed: int
    choice: int
    ids: list[int]
    steps: list[str]
    ended: str | None
    rollout: list[Path] = field(default_factory=list)
    step_scores: list[float] = field(default_factory=list)
    score: float = math.nan
    result: str | None = None
    alive: bool = False

    @property
    def answer_ids(self) -> list[int]:
        return [*(self.parent.answer_ids if self.parent else []), *self.ids]


@dataclass
class Found:
    """What a search has found.

    Attributes:
        steps: the paths of each step.
        draw_margin: least change of a random number or a probability that would have given another token.
        score_margin: least difference of two unequal scores or weights of which the greater was preferred.
        ties: how often two equal scores were compared.
    """

    steps: list[list[Path]] = field(default_factory=list)
    chosen: Path | None = None
    votes: list[tuple[str, float]] = field(default_factory=list)
    draw_margin: float = math.inf
    score_margin: float = math.inf
    ties: int = 0

    @property
    def paths(self) -> list[Path]:
        return [path for step in self.steps for path in step]


class Generator:
    """A causal language model, its tokenizer, and the chat template of `tiny_scorers`."""

    def __init__(self, model: torch.nn.Module, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.stop = self.token_id(STOP_TOKEN)

    def token_id(self, token: str) -> int:
        """Return the id of a token as the vocabulary writes it."""
        id_ = self.tokenizer.token_to_id(token)
        assert id_ is not None
        return id_

    def prompt(self, question: str) -> list[int]:
        return self.tokenizer.encode(turn("user", question), add_special_tokens=False).ids

    @torch.no_grad()
    def probabilities(self, ids: list[int], sampling: SamplingParams) -> Tensor:
        """Return the probability of each token after `ids`, in float64."""
        logits = self.model(torch.tensor([ids])).logits[0, -1]
        for token, bias in sampling.logit_bias.items():
            logits[token] += bias
        if sampling.allowed_token_ids is not None:
            allowed = torch.full_like(logits, -math.inf)
            allowed[sampling.allowed_token_ids] = logits[sampling.allowed_token_ids]
            logits = allowed
        return torch.softmax(logits.double() / (sampling.temperature or 1.0), dim=-1)


class Verifier:
    """A process reward model as the model card of Qwen2.5-Math-PRM computes it."""

    def __init__(self, base: torch.nn.Module, head: dict[str, Tensor], tokenizer: Tokenizer) -> None:
        self.base, self.head, self.tokenizer = base, head, tokenizer

    @torch.no_grad()
    def scores(self, question: str, steps: list[str]) -> list[float]:
        text = turn("user", question) + turn("assistant", "".join(f"{step}{STEP_END}" for step in steps))
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        states = self.base(torch.tensor([ids])).last_hidden_state[0]
        hidden = torch.relu(states @ self.head["score.0.weight"].T + self.head["score.0.bias"])
        labels = torch.softmax(hidden @ self.head["score.2.weight"].T + self.head["score.2.bias"], dim=-1)
        end = self.tokenizer.token_to_id(STEP_END)
        return [labels[place, 1].item() for place, id_ in enumerate(ids) if id_ == end]


def turn(role: str, content: str) -> str:
    return f"<|im_start|>{role}\n{content}<|im_end|>\n"


class PlainSearch:
    """A search for the answer to one question."""

    def __init__(
        self, generator: Generator, verifier: Verifier, question: str, search: Search, sampling: SamplingParams
    ) -> None:
        self._generator, self._verifier, self._question = generator, verifier, question
        self._search, self._sampling = search, sampling
        self._most = sampling.max_tokens or 0
        self._prompt = generator.prompt(question)
        self._found = Found()

    def run(self) -> Found:
        if self._search.method.stepwise:
            self._search_by_steps()
        else:
            self._search_answers()
        return self._found

    # Methods

    def _search_by_steps(self) -> None:
        search, found = self._search, self._found
        live: list[Path | None] = [None]
        over: list[Path] = []
        while live and len(found.steps) < search.max_steps:
            number, paths = len(found.paths), list[Path]()
            for parent in live:
                seed = self._seed_of(len(found.steps), parent.number if parent else 0)
                for choice in range(search.expansions if parent else search.n * search.expansions):
                    number += 1
                    paths.append(self._continuation(number, parent, seed, choice))
            for path in paths:
                self._roll_out(path)
                self._score(path, merged([path, *path.rollout][-1].steps))
            found.steps.append(paths)
            if search.method is SearchMethod.DVTS:
                trees = [[path for path in paths if path.tree == tree] for tree in range(search.n)]
                kept = [path for tree in trees if tree for path in self._best(tree, 1)]
            else:
                kept = self._best(paths, search.n - len(over))
            for path in kept:
                path.alive = True
            over += [path for path in kept if path.ended]
            live = [path for path in sorted(kept, key=lambda path: path.number) if not path.ended]
        self._choose([*(path for path in live if path), *over])

    def _search_answers(self) -> None:
        search, found = self._search, self._found
        paths = [
            self._continuation(choice + 1, None, self._sampling.seed, choice, whole=True) for choice in range(search.n)
        ]
        found.steps.append(paths)
        for path in paths:
            head, *parts = path.steps[0].split(search.separator)
            texts = [head]
            for part in parts:
                texts[-1] += search.separator
                texts.append(part)
            self._score(path, merged(texts))
        if search.method is SearchMethod.BEST_OF_N:
            self._choose(paths)
            return
        groups: dict[str, list[Path]] = {}
        for path in paths:
            results = re.findall(search.extract.pattern, path.steps[0])
            if results:
                path.result = results[-1]
                groups.setdefault(results[-1], []).append(path)
        weights = {result: sum(path.score for path in group) for result, group in groups.items()}
        found.votes = sorted(weights.items(), key=lambda each: -each[1])
        self._compare([weight for _, weight in found.votes], 1)
        self._choose(groups[found.votes[0][0]] if found.votes else paths)

    def _choose(self, paths: list[Path]) -> None:
        ranked = sorted(paths, key=lambda path: (-path.score, path.ended != "stop", path.number))
        self._compare([path.score for path in ranked], 1)
        if any(path.score == ranked[0].score and len(path.steps) != len(ranked[0].steps) for path in paths):
            self._found.score_margin = 0.0  # scores of different steps, of which rounding decides
        for path in self._found.steps[-1]:
            path.alive = path is ranked[0]
        self._found.chosen = ranked[0]

    def _best(self, paths: list[Path], count: int) -> list[Path]:
        ranked = sorted(paths, key=lambda path: (-path.score, path.number))
        self._compare([path.score for path in ranked], count)
        return ranked[:count]

    def _compare(self, ranked: list[float], count: int) -> None:
        """Record by how much the first `count` were preferred to the others."""
        if 0 < count < len(ranked):
            difference = ranked[count - 1] - ranked[count]
            if difference:
                self._found.score_margin = min(self._found.score_margin, difference)
            else:
                self._found.ties += 1

    # Tokens and scores

    def _seed_of(self, step: int, path: int) -> int:
        digest = hashlib.sha256(f"{self._sampling.seed}:{step}:{path}".encode()).hexdigest()
        return int(digest[:16], 16) // 2

    def _roll_out(self, path: Path) -> None:
        """Continue a path by some steps at temperature 0, unless it ends before."""
        greedy = replace(self._sampling, temperature=0.0)
        for _ in range(self._search.lookahead_steps):
            last = [path, *path.rollout][-1]
            if not last.ended:
                path.rollout.append(self._continuation(path.number, last, self._sampling.seed, 0, sampling=greedy))

    def _continuation(
        self,
        number: int,
        parent: Path | None,
        seed: int,
        choice: int,
        *,
        whole: bool = False,
        sampling: SamplingParams | None = None,
    ) -> Path:
        """Generate a token after the other until a step or the answer ends."""
        search, before = self._search, parent.answer_ids if parent else []
        prompt, ids, ended = self._prompt + before, list[int](), None
        most = self._most - len(before)
        while len(ids) < (most if whole else min(most, search.step_tokens)):
            probabilities = self._generator.probabilities(prompt + ids, sampling or self._sampling)
            ids.append(self._next_token(probabilities, sampling or self._sampling, seed, choice, len(ids)))
            if ids[-1] == self._generator.stop:
                ended = "stop"
                break
            if not whole and self._text(before + ids).endswith(search.separator):
                break
        if len(ids) == most and not ended:
            ended = "length"
        steps = [*(parent.steps if parent else []), self._text(ids)]
        tree = parent.tree if parent else choice // search.expansions
        return Path(number, parent, tree, prompt, seed, choice, ids, steps, ended)

    def _next_token(
        self, probabilities: Tensor, sampling: SamplingParams, seed: int, choice: int, position: int
    ) -> int:
        """Return the most probable token, or the first one at which the cumulative probability passes the draw."""
        if not sampling.temperature:
            first, second = probabilities.topk(2).values.tolist()
            self._note_margin(first - second)
            return int(probabilities.argmax())
        if sampling.top_p < 1:
            descending, ids = probabilities.sort(descending=True)
            before = descending.cumsum(dim=-1) - descending
            self._note_margin((before - sampling.top_p).abs().min().item())
            probabilities[ids[before >= sampling.top_p]] = 0
            probabilities /= probabilities.sum()
        [number] = uniform(np.array([seed], np.uint64), np.array([choice], np.uint64), np.array([position], np.uint64))
        cumulative = probabilities.cumsum(dim=-1)
        self._note_margin((cumulative - number).abs().min().item())
        return int((cumulative > number).nonzero()[0, 0])

    def _note_margin(self, margin: float) -> None:
        self._found.draw_margin = min(self._found.draw_margin, margin)

    def _text(self, ids: list[int]) -> str:
        return self._generator.tokenizer.decode(ids)

    def _score(self, path: Path, steps: list[str]) -> None:
        steps = [step.removesuffix(self._search.separator) for step in steps]
        path.step_scores = scores = self._verifier.scores(self._question, steps)
        match self._search.aggregate:
            case Aggregate.LAST:
                path.score = scores[-1]
            case Aggregate.MIN:
                path.score = min(scores)
            case Aggregate.PRODUCT:
                path.score = math.prod(scores)
            case Aggregate.MEAN:
                path.score = sum(scores) / len(scores)
