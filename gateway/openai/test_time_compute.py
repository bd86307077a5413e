"""Request field `test_time_compute` of chat completions (an extension): an answer is chosen among several paths.

Source of the methods: the papers that `router/messages/search.py` names. Source of the fields: `n` is vLLM's number of
samples; `expansions`, `max_steps` and `aggregate` are `beam_width`, `num_iterations` and `agg_strategy` of Hugging
Face's search-and-learn, except that `n` counts what goes on after a step, not the candidates before it.
`length_penalty` and `early_stopping` are those of `transformers` and vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Refused, conflict, missing
from gateway.openai.json_schema import check_pattern
from gateway.openai.sampling import INT32_MAX
from gateway.openai.solution_templates import TEMPLATES, TemplateName
from router.messages import (
    CONFIDENCE,
    MAX_BEAMS,
    MAX_CANDIDATES,
    MAX_LENGTH_PENALTY,
    MAX_LOOKAHEAD,
    MAX_PATHS,
    MAX_STEPS,
    RESULT_TOKENS,
    Aggregate,
    EarlyStopping,
    Extraction,
    ExtractionKind,
    Search,
    SearchMethod,
    estimated_reading,
)

DEFAULT_ANSWERS = 8
"""Number of answers of a method without steps, unless the request sets `n`."""
DEFAULT_PATHS = 4
"""Number of paths of a method with steps, unless the request sets `n`."""
DEFAULT_EXPANSIONS = 4
DEFAULT_STEP_TOKENS = 256
DEFAULT_LOOKAHEAD = 1
RELEASED_TOKENS = 32
"""Tokens of the beams between two released steps of beam search by likelihood."""
MAX_PATTERN = 512

Confidence = Annotated[float, Field(ge=0.5, le=1)]
LengthPenalty = Annotated[float, Field(ge=-MAX_LENGTH_PENALTY, le=MAX_LENGTH_PENALTY)]
EarlyStoppingOption = bool | Literal["never"]

_EARLY_STOPPING = {True: EarlyStopping.COMPLETE, False: EarlyStopping.LIKELY, "never": EarlyStopping.NEVER}

NOT_WITH_SEARCH: Mapping[str, Refused] = {
    "n": Refused("it has one answer; 'test_time_compute.n' is the number of paths", (1,)),
    "best_of": Refused("'test_time_compute.n' is the number of paths", (0, 1)),
    "logprobs": Refused("log probabilities are not reported of a chosen path", (False,)),
    "prompt_logprobs": Refused("log probabilities are not reported of a chosen path"),
    "echo": Refused("a path begins after the prompt", (False,)),
    "continue_final_message": Refused("a path begins after the prompt", (False,)),
    "structured_outputs": Refused("paths have no grammar"),
}
"""Fields of chat completions that can't be combined with a search, unless their value is neutral."""
NOT_WITH_STEPS: Mapping[str, Refused] = {
    name: Refused("each step counts the tokens before it as prompt", (0,))
    for name in ("presence_penalty", "frequency_penalty", "min_tokens")
}
"""Fields that can't be combined with a method with steps, unless their value is neutral."""
NOT_WITH_BEAMS: Mapping[str, Refused] = {
    "temperature": Refused("tokens are not sampled", (0, 0.0)),
    "top_p": Refused("tokens are not sampled", (1, 1.0)),
    "top_k": Refused("tokens are not sampled", (0, -1)),
    "min_p": Refused("tokens are not sampled", (0, 0.0)),
    "presence_penalty": Refused("the model's own probabilities decide", (0, 0.0)),
    "frequency_penalty": Refused("the model's own probabilities decide", (0, 0.0)),
    "repetition_penalty": Refused("the model's own probabilities decide", (1, 1.0)),
    "logit_bias": Refused("the model's own probabilities decide", ({},)),
    "allowed_token_ids": Refused("the model's own probabilities decide"),
    "bad_words": Refused("the model's own probabilities decide", ([],)),
    "min_tokens": Refused("the model's own probabilities decide", (0,)),
    "stop": Refused("beams end at stop tokens", ([],)),
}
"""Fields that can't be combined with beam search by likelihood, unless their value is neutral."""


class ExtractionPattern(ApiModel):
    """Where the result stands in the text of an answer: exactly one of these fields."""

    model_config = ConfigDict(extra="forbid")

    regex: Annotated[str, StringConstraints(max_length=MAX_PATTERN), AfterValidator(check_pattern)] | None = None
    """Regular expression: the first group, or else all, of its last match is the result."""
    json_path: (
        Annotated[str, StringConstraints(max_length=MAX_PATTERN, pattern=r"^[^.\x00-\x1f]+(\.[^.\x00-\x1f]+)*$")] | None
    ) = None
    """Names and list indexes, separated by dots, that lead to the result in an answer that is JSON."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.regex is None) == (self.json_path is None):
            raise PydanticCustomError("invalid_value", "exactly one of 'regex' and 'json_path' must be given")
        return self

    def to_wire(self) -> Extraction:
        """Convert the pattern to the form in job messages for workers."""
        if self.regex is not None:
            return Extraction(kind=ExtractionKind.REGEX, pattern=self.regex)
        return Extraction(kind=ExtractionKind.JSON_PATH, pattern=self.json_path or "")


class SearchOptions(ApiModel):
    """Value of `test_time_compute`: how the answer is searched for."""

    model_config = ConfigDict(extra="forbid")

    method: Literal[
        "best_of_n",
        "weighted_best_of_n",
        "self_consistency",
        "beam_search",
        "dvts",
        "lookahead",
        "likelihood_beam_search",
    ]
    """`best_of_n`: the answer with the highest score; `weighted_best_of_n`: the best of the answers whose results
    agree and whose scores have the highest sum; `self_consistency`: an answer with the most frequent result;
    `beam_search` and `dvts`: the best paths go on after each step, of all paths or of each tree; `lookahead`: as
    `beam_search`, but a path's score is that of what a greedy rollout makes of it; `likelihood_beam_search`: the
    answer that the model finds most probable (vLLM's `use_beam_search`)."""
    n: Annotated[int, Field(ge=1, le=MAX_PATHS)] | None = None
    """Number of answers, of paths after a step (`beam_search`, `lookahead`), of trees (`dvts`), or of beams
    (`likelihood_beam_search`, at most 16); default 8, with steps or beams 4."""
    expansions: Annotated[int, Field(ge=1, le=MAX_CANDIDATES)] | None = None
    """Continuations of each path in a step, for methods with steps; default 4. `n` times `expansions` is at most
    256."""
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] | None = None
    """Steps after which unfinished paths end, for methods with steps; default 64."""
    step_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Maximum number of tokens of one step of a path, for methods with steps; default 256."""
    lookahead_steps: Annotated[int, Field(ge=1, le=MAX_LOOKAHEAD)] | None = None
    """Steps of each path's rollout, for `lookahead`; default 1."""
    separator: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """Text that ends a step, for methods with a verifier; default two line feeds."""
    verifier: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """Name of the model that scores paths, as `/v1/models` lists it (`task`: `score`), or of another chat model, which
    grades them (with `test_time_compute`); required by all methods but `self_consistency` and
    `likelihood_beam_search`, which have none."""
    aggregate: Literal["last", "min", "product", "mean"] | None = None
    """How the scores of a path's steps become its score, for methods with a verifier; default `last`. A verifier that
    scores whole answers gives one score, which stays as it is."""
    extract: Literal["last_number", "boxed", "text", "model"] | ExtractionPattern | None = None
    r"""How results are found in answers, for methods that compare them (`weighted_best_of_n`, `self_consistency`):
    `last_number` (default), `boxed` (of the last `\boxed{}`), `text` (all), `model` (what the model
    itself writes as the result, in at most 32 tokens), or an object with `regex` or `json_path`."""
    template: TemplateName | None = None
    """Known instruction for answers step by step, which is put before the conversation; results are then found as it
    says, unless `extract` is given. Default: none."""
    confidence: Confidence | None = None
    """Probability that the leading result also leads after all `n` answers, from which on `self_consistency` generates
    no more; 0.5 to 1, default 0.95. With 1 it ends early only if the answers that are left can't change the leader."""
    length_penalty: LengthPenalty | None = None
    """Exponent of an answer's number of tokens, by which its log probability is divided, for `likelihood_beam_search`;
    -10 to 10, default 1. Above 0 it favours long answers, below 0 short ones."""
    early_stopping: EarlyStoppingOption | None = None
    """When `likelihood_beam_search` ends, once it has `n` complete answers: `true`: at once; `false` (default): when
    the best beam, with the length that it has, is no better; `never`: when no beam can become better."""
    budget_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Most tokens that all paths together generate, and most that the verifier reads; credit is held for both."""
    return_candidates: bool | None = None
    """Whether steps have the texts of all their paths, also of those that do not go on; default false."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self._method.verified and self.verifier is None:
            raise missing("verifier", f"'{self.method}' needs a model that scores paths")
        if not self._method.verified:
            self._refuse("has no verifier", "verifier", "aggregate", "separator")
        if not self._method.stepwise:
            self._refuse("has no steps", "expansions", "max_steps", "step_tokens")
        if self._method is not SearchMethod.LOOKAHEAD:
            self._refuse("looks no steps ahead", "lookahead_steps")
        if not self._method.votes:
            self._refuse("compares no results", "extract")
        if self._method is not SearchMethod.SELF_CONSISTENCY:
            self._refuse("generates all its answers", "confidence")
        if not self.by_likelihood:
            self._refuse("does not score paths by their likelihood", "length_penalty", "early_stopping")
        elif self.paths > MAX_BEAMS:
            raise conflict("n", f"'{self.method}' has at most {MAX_BEAMS} beams")
        if self.candidates > MAX_CANDIDATES:
            raise conflict("expansions", f"'n' times 'expansions' must be at most {MAX_CANDIDATES}")
        if self.budget_tokens is not None and self.budget_tokens < self._least_budget:
            raise conflict("budget_tokens", f"it must be at least {self._least_budget}: a token of each continuation")
        return self

    def _refuse(self, reason: str, *fields: str) -> None:
        for name in fields:
            if getattr(self, name) is not None:
                raise conflict(name, f"'{self.method}' {reason}")

    @property
    def _method(self) -> SearchMethod:
        return SearchMethod(self.method)

    @property
    def by_likelihood(self) -> bool:
        """Whether the search keeps the paths that the model itself finds most probable, and samples nothing."""
        return self._method is SearchMethod.LIKELIHOOD_BEAM_SEARCH

    @property
    def stepwise(self) -> bool:
        """Whether the search scores paths after each step, not only at their ends."""
        return self._method.stepwise

    @property
    def paths(self) -> int:
        """Number of answers, of paths that go on after a step, of trees, or of beams, by the search method."""
        return self.n or (DEFAULT_PATHS if self.stepwise or self.by_likelihood else DEFAULT_ANSWERS)

    @property
    def candidates(self) -> int:
        """Number of paths that the search generates together: `n` times `expansions`."""
        return self.paths * (self._expansions if self.stepwise else 1)

    @property
    def _rollout_steps(self) -> int:
        if self._method is not SearchMethod.LOOKAHEAD:
            return 0
        return self.lookahead_steps or DEFAULT_LOOKAHEAD

    @property
    def _continuations(self) -> int:
        """Number of continuations of a step, those of the rollouts among them."""
        return self.candidates * (1 + self._rollout_steps)

    @property
    def _result_tokens(self) -> int:
        return RESULT_TOKENS if self.extract == "model" else 0

    @property
    def _least_budget(self) -> int:
        """One token of each continuation of a step, and its result if the model reads that."""
        return self._continuations * (1 + self._result_tokens)

    @property
    def _expansions(self) -> int:
        return self.expansions or DEFAULT_EXPANSIONS

    def _extraction(self) -> Extraction:
        if isinstance(self.extract, ExtractionPattern):
            return self.extract.to_wire()
        if self.extract is None and self.template is not None:
            return TEMPLATES[self.template].extract
        return Extraction(kind=ExtractionKind(self.extract or "last_number"))

    def check_combination(self, fields: Mapping[str, Any], param: str) -> None:
        """Check that the search can be combined with the request's `fields`; the first that can't be is an error.

        `param` is the field that requests the search.

        Raises:
            PydanticCustomError: the error names the field.
        """
        by_method = NOT_WITH_STEPS if self.stepwise else NOT_WITH_BEAMS if self.by_likelihood else {}
        for name, each in {**NOT_WITH_SEARCH, **by_method}.items():
            if name in ("n", "best_of") and param == "use_beam_search":
                continue  # the numbers of its answers and beams
            if fields[name] is not None and fields[name] not in each.neutral:
                raise conflict(name, f"it can't be combined with '{param}': {each.reason}")

    def to_wire(
        self, verifier: str, *, prompt_tokens: int, answer_tokens: int, max_budget: int, judge: bool = False
    ) -> Search:
        """Convert the search to the form in job messages for workers, with `verifier` as the served model's name.

        `judge`: whether the verifier is a chat model.

        Without a budget of the request it is the most that the search can use, at most `max_budget`: each path has up
        to `answer_tokens`, and the verifier reads it and up to `prompt_tokens` before it, after each step.
        """
        generated = answer_tokens + self._result_tokens
        used = max(generated, estimated_reading(prompt_tokens + answer_tokens, judge=judge)) if verifier else generated
        continuations = self._continuations
        rounds = (self.max_steps or MAX_STEPS) if self.stepwise else 1
        return Search(
            method=self._method,
            n=self.paths,
            budget_tokens=self.budget_tokens or max(self._least_budget, min(max_budget, continuations * used * rounds)),
            expansions=self._expansions if self.stepwise else 1,
            max_steps=self.max_steps or MAX_STEPS,
            step_tokens=RELEASED_TOKENS if self.by_likelihood else self.step_tokens or DEFAULT_STEP_TOKENS,
            lookahead_steps=self._rollout_steps,
            separator=self.separator or "\n\n",
            verifier=verifier,
            judge=judge,
            aggregate=Aggregate(self.aggregate or "last"),
            extract=self._extraction(),
            confidence=CONFIDENCE if self.confidence is None else self.confidence,
            length_penalty=1.0 if self.length_penalty is None else self.length_penalty,
            early_stopping=_EARLY_STOPPING[self.early_stopping or False],
            return_candidates=bool(self.return_candidates),
        )
