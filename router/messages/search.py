"""Field of a job that requests test-time compute: how paths are generated, scored by a verifier, and one chosen.

Paths are samples of the same prompt. Methods with steps extend paths up to a boundary (the separator, or a number of
tokens), have a verifier score them, and go on with the best; methods without steps generate whole answers. Beam search
by likelihood samples nothing and asks no verifier: it keeps the paths that the model itself finds most probable.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated

import msgspec

MAX_PATHS = 64
"""Largest `Search.n`."""
MAX_CANDIDATES = 256
"""Most paths that are scored together: `n` times `expansions`."""
MAX_STEPS = 64
MAX_BEAMS = 16
"""Largest `Search.n` of beam search by likelihood: the engine reports 20 next tokens of a path, stop tokens among them.
"""
MAX_LENGTH_PENALTY = 10.0
"""Largest absolute value of `Search.length_penalty`."""
VERIFIER_TOKENS = 1.5
"""Most tokens that a verifier is assumed to read for each token of the generator: tokenisers and templates differ."""
JUDGE_TOKENS = 80
"""Most tokens that a judge is assumed to read beside conversation and path: the question for a grade."""
CONFIDENCE = 0.95
"""`Search.confidence`, unless a request sets it."""
RESULT_TOKENS = 32
"""Most tokens in which a model writes the result of an answer."""
MAX_LOOKAHEAD = 8
"""Most steps that are looked ahead."""


def estimated_reading(tokens: int, *, judge: bool) -> int:
    """Return the most tokens that a verifier is assumed to read of a conversation and path with `tokens` tokens.

    Gateways size budgets by it, and workers decide by it whether a step's paths are scored.
    """
    return math.ceil(VERIFIER_TOKENS * (tokens + (JUDGE_TOKENS if judge else 0)))


class SearchMethod(StrEnum):
    """How paths are extended and one of them is chosen."""

    BEST_OF_N = "best_of_n"
    """The answer with the highest score of `n`."""
    WEIGHTED_BEST_OF_N = "weighted_best_of_n"
    """The best of those answers whose extracted results agree and whose scores have the highest sum."""
    SELF_CONSISTENCY = "self_consistency"
    """An answer with the most frequent extracted result (Wang et al. 2022); no verifier."""
    BEAM_SEARCH = "beam_search"
    """After each step the `n` best of all `n` times `expansions` paths go on (Snell et al. 2024)."""
    DVTS = "dvts"
    """Diverse verifier tree search: `n` independent trees, of each the best of `expansions` paths goes on
    (Beeching et al. 2024)."""
    LOOKAHEAD = "lookahead"
    """Beam search whose paths are scored by where they lead: a greedy rollout of some steps (Snell et al. 2024)."""
    LIKELIHOOD_BEAM_SEARCH = "likelihood_beam_search"
    """After each token the `n` most probable paths go on: the beam search of `transformers` and vLLM; no verifier."""

    @property
    def verified(self) -> bool:
        """Whether a search by this method scores its paths with a verifier model."""
        return self not in (SearchMethod.SELF_CONSISTENCY, SearchMethod.LIKELIHOOD_BEAM_SEARCH)

    @property
    def stepwise(self) -> bool:
        """Whether a search by this method scores its paths after each step, not only at their ends."""
        return self in (SearchMethod.BEAM_SEARCH, SearchMethod.DVTS, SearchMethod.LOOKAHEAD)

    @property
    def votes(self) -> bool:
        """Whether a search by this method extracts results from the answers and compares them."""
        return self in (SearchMethod.WEIGHTED_BEST_OF_N, SearchMethod.SELF_CONSISTENCY)


class EarlyStopping(StrEnum):
    """When beam search by likelihood ends, once it has `n` complete answers (as in `transformers`)."""

    COMPLETE = "complete"
    """At once."""
    LIKELY = "likely"
    """When the best unfinished path, with the length that it has, is no better than the worst of them."""
    NEVER = "never"
    """When no unfinished path can become better than the worst of them."""


class Aggregate(StrEnum):
    """How the scores of a path's steps become the score of the path."""

    LAST = "last"
    MIN = "min"
    PRODUCT = "product"
    MEAN = "mean"


class ExtractionKind(StrEnum):
    """How the result is found in the text of an answer."""

    LAST_NUMBER = "last_number"
    BOXED = "boxed"
    r"""The content of the last `\boxed{}`."""
    REGEX = "regex"
    """The first group, or else all, of the last match of a regular expression."""
    JSON_PATH = "json_path"
    """The value at a dotted path (`answer.value`, `results.0`) of an answer that is JSON."""
    TEXT = "text"
    """The whole text, without white space around it."""
    MODEL = "model"
    """What the model itself writes when it is asked for the result of the answer."""

    @property
    def slow(self) -> bool:
        """Whether finding results takes a model, or the time that a client's pattern takes."""
        return self in (ExtractionKind.REGEX, ExtractionKind.MODEL)


class Extraction(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How results are extracted from answers, to be compared with one another."""

    kind: ExtractionKind = ExtractionKind.LAST_NUMBER
    pattern: Annotated[str, msgspec.Meta(max_length=512)] = ""
    """The regular expression or the path; "" for the other kinds."""


class Search(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A search for the answer of a job with one choice; beam search by likelihood finds `Job.n` answers."""

    method: SearchMethod
    n: Annotated[int, msgspec.Meta(ge=1, le=MAX_PATHS)]
    """Number of paths, of trees, or of beams."""
    budget_tokens: Annotated[int, msgspec.Meta(ge=1)]
    """Most tokens that all paths together generate, and most that the verifier reads. The search ends when its next
    step could exceed one of them, and chooses among the paths that it has."""
    expansions: Annotated[int, msgspec.Meta(ge=1, le=MAX_CANDIDATES)] = 1
    """Continuations of each path in a step."""
    max_steps: Annotated[int, msgspec.Meta(ge=1, le=MAX_STEPS)] = MAX_STEPS
    """Steps after which unfinished paths end with the reason `length`."""
    step_tokens: Annotated[int, msgspec.Meta(ge=1)] = 256
    """Most tokens of one step of a path; of beam search by likelihood, the tokens between two released steps."""
    lookahead_steps: Annotated[int, msgspec.Meta(ge=0, le=MAX_LOOKAHEAD)] = 0
    """Steps of the rollout of each path before it is scored; 0 for methods without rollouts."""
    separator: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] = "\n\n"
    """Text that ends a step."""
    verifier: str = ""
    """Name of the model that scores paths; "" for methods without one."""
    judge: bool = False
    """Whether the verifier is a chat model, which writes a grade for each path."""
    aggregate: Aggregate = Aggregate.LAST
    extract: Extraction = Extraction()
    confidence: Annotated[float, msgspec.Meta(ge=0.5, le=1)] = CONFIDENCE
    """Probability that the leading result also leads after all `n` answers, from which on self-consistency ends."""
    length_penalty: Annotated[float, msgspec.Meta(ge=-MAX_LENGTH_PENALTY, le=MAX_LENGTH_PENALTY)] = 1.0
    """Exponent of a path's number of tokens, by which its log probability is divided: its score by likelihood."""
    early_stopping: EarlyStopping = EarlyStopping.LIKELY
    return_candidates: bool = False
    """Whether the last step lists the texts of all paths that reached the end."""

    @property
    def result_tokens(self) -> int:
        """Most tokens that the result of each answer takes; 0 if it is not the model that finds results."""
        return RESULT_TOKENS if self.method.votes and self.extract.kind is ExtractionKind.MODEL else 0

    @property
    def max_grades(self) -> int:
        """Most paths that a judge grades, each with one token."""
        if not self.judge:
            return 0
        return self.n * (self.expansions * self.max_steps if self.method.stepwise else 1)
