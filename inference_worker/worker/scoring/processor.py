"""Text side of a model that scores, in the worker: tokenises and validates the candidates of score jobs.

User text never becomes a control token (see `tokenizer/tokenizer.py`). Must not import torch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import msgspec

from inference_worker.engine_protocol import Ready, ScoreInput, ScoreRequest
from inference_worker.errors import PromptRejected, UnsupportedModel
from inference_worker.model_files.scoring_folder import ScoringConfig, ScoringHead, read_config
from inference_worker.tokenizer.tokenizer_files import read_definition, read_text_files
from inference_worker.worker.scoring.answer_inputs import AnswerInputs, ChatAnswers, LineAnswers, TaggedAnswers
from inference_worker.worker.scoring.pair_inputs import PairInputs
from inference_worker.worker.scoring.text_inputs import TextInputs
from inference_worker.worker.text.chat_template import ChatTemplate, flatten
from inference_worker.worker.text.prompt_bounds import prompt_bounds, text_bounds
from router.messages import FailureCode, Job, PromptBounds, ScorePrompt, ServiceClass

MAX_TOKEN_BYTES = 400
"""Assumed bytes of the longest token, as of embedding models; text with more bytes per token is rejected."""
MAX_REQUEST_TOKENS = 300_000
"""Maximum tokens of all candidates of a request with their contexts."""
MAX_CANDIDATES = 2048
THREADS = 2


class CandidateInputs(Protocol):
    """Tokenises candidates with their contexts in one model's format."""

    def inputs(self, prompt: ScorePrompt, limit: int | None) -> Iterator[ScoreInput]:
        """Yield the engine input of each candidate of a score job; each format of models implements this method.

        Pairs are truncated to `limit` tokens if it is not `None`.

        Raises:
            PromptRejected: the model has no such inputs.
        """


class ScoringProcessor:
    """Text side of one classifier, cross-encoder or reward model: tokenises and validates the candidates of jobs."""

    def __init__(
        self,
        inputs: CandidateInputs,
        bounds: PromptBounds,
        *,
        scores_steps: bool = False,
        scores_pairs: bool = False,
        labels: Sequence[str] = (),
    ) -> None:
        """`scores_steps`: each step of an answer gets a score; `scores_pairs`: contexts are texts alone, or none.

        `labels` are those that a classifier scores.
        """
        self._inputs = inputs
        self.bounds = bounds
        self.scores_steps = scores_steps
        self.scores_pairs = scores_pairs
        self.labels = list(labels)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="text")

    @classmethod
    def of(cls, folder: Path, step_tag: str = "") -> ScoringProcessor:
        """Create the text side of the model that scores in `folder`, and start its tokeniser threads.

        `step_tag` is the operator's setting for models trained as Math-Shepherd; "" if unset.

        Raises:
            ModelNotFound: there is no tokenizer.
            BadWeights: a file is damaged.
            UnsupportedModel: the model, its tokenizer or its chat template is not served.
        """
        config = read_config(folder, step_tag)
        try:
            return _of_folder(folder, config)
        except (KeyError, TypeError, AttributeError) as error:
            raise UnsupportedModel(f"{folder / 'tokenizer.json'} is not a tokenizer: {error!r}") from error

    def close(self) -> None:
        """Stop the threads that tokenise the candidates of score jobs."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def prepare(self, job: Job, request_id: str, ready: Ready) -> ScoreRequest:
        """Tokenise and validate a score job's candidates in a thread; return its engine request with `request_id`.

        `ready` has the engine's limits.

        Raises:
            PromptRejected: the model can't process the candidates or an option.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._prepare, job, request_id, ready)

    def _prepare(self, job: Job, request_id: str, ready: Ready) -> ScoreRequest:
        prompt = job.prompt
        if not isinstance(prompt, ScorePrompt):
            raise PromptRejected("This model scores only.", "model")
        if not prompt.candidates or len(prompt.contexts) not in (1, len(prompt.candidates)):
            raise PromptRejected("There must be one context, or one for each candidate.", prompt.param)
        if len(prompt.candidates) > MAX_CANDIDATES:
            raise PromptRejected(f"At most {MAX_CANDIDATES} candidates are allowed in a request.", prompt.param)
        limit = _limit(job, ready)
        _check_sizes(prompt, limit, ready)
        inputs = _checked(self._inputs.inputs(prompt, limit), prompt, ready)
        return ScoreRequest(
            id=request_id,
            inputs=inputs,
            flex=job.service_class is ServiceClass.FLEX,
            salt=job.cache_salt,
            raw=prompt.raw,
            done=job.embedded,
        )


def _of_folder(folder: Path, config: ScoringConfig) -> ScoringProcessor:
    if config.head is ScoringHead.PAIR:
        return _of_pairs(folder, config)
    if config.head is ScoringHead.LABELS:
        return _of_texts(folder, config)
    files = read_text_files(folder)
    template = ChatTemplate(files.chat_template, files.named_tokens) if files.chat_template else None
    answers: AnswerInputs
    match config.head:
        case ScoringHead.STEP_TAG:
            answers = TaggedAnswers(read_definition(folder), config.step_tag)
        case ScoringHead.STEP_VALUE:
            answers = LineAnswers(files.tokenizer, config.bos_token_id)
        case _ if template is not None:
            answers = ChatAnswers(files.tokenizer, template, steps=config.head is ScoringHead.STEP_MLP)
        case ScoringHead.LAST_TOKEN:
            return _of_pairs(folder, config)
        case _:
            raise UnsupportedModel(f"{folder} has no chat template, in which this model reads answers")
    bounds = prompt_bounds(files.tokenizer, template)
    around = msgspec.structs.replace(
        bounds,
        per_conversation=max(bounds.per_conversation, answers.tokens_around),
        per_message=max(bounds.per_message, answers.tokens_per_step),
    )
    return ScoringProcessor(answers, around, scores_steps=config.head.scores_steps)


def _of_pairs(folder: Path, config: ScoringConfig) -> ScoringProcessor:
    definition = read_definition(folder)
    pairs = PairInputs(definition, at_last_token=config.head is ScoringHead.LAST_TOKEN)
    return ScoringProcessor(pairs, text_bounds(definition.get("normalizer"), pairs.tokens), scores_pairs=True)


def _of_texts(folder: Path, config: ScoringConfig) -> ScoringProcessor:
    definition = read_definition(folder)
    texts = TextInputs(definition)
    bounds = text_bounds(definition.get("normalizer"), texts.tokens)
    return ScoringProcessor(texts, bounds, scores_pairs=True, labels=config.labels)


def _limit(job: Job, ready: Ready) -> int | None:
    kept = job.text.truncate_prompt_tokens
    if kept is None:
        return None
    if kept > ready.max_model_len:
        message = f"Invalid 'truncate_prompt_tokens': this model's maximum context length is {ready.max_model_len}."
        raise PromptRejected(message, "truncate_prompt_tokens")
    return ready.max_model_len if kept < 0 else kept


def _check_sizes(prompt: ScorePrompt, limit: int | None, ready: Ready) -> None:
    """Reject texts that can't fit into the context or the request, without spending time on tokenising them.

    A pair has `limit` tokens at most; `None`: it is not truncated.
    """
    contexts = [_size(context) for context in prompt.contexts]
    total = 0.0
    for index, candidate in enumerate(prompt.candidates):
        tokens = (contexts[0 if len(contexts) == 1 else index] + sum(map(len, candidate))) / MAX_TOKEN_BYTES
        if limit is None and tokens > ready.max_model_len:
            raise _too_long(int(tokens), prompt, ready)
        total += tokens if limit is None else min(tokens, limit)
    if total > _most_tokens(prompt):
        raise _too_many(int(total), prompt)


def _most_tokens(prompt: ScorePrompt) -> int:
    return MAX_REQUEST_TOKENS if prompt.max_tokens is None else min(prompt.max_tokens, MAX_REQUEST_TOKENS)


def _size(context: str | list[dict[str, Any]]) -> int:
    if isinstance(context, str):
        return len(context)
    return sum(len(flatten(message.get("content"))) for message in context)


def _checked(inputs: Iterator[ScoreInput], prompt: ScorePrompt, ready: Ready) -> list[ScoreInput]:
    """Return all inputs; raise at the first one that exceeds a limit, before the next one is tokenised."""
    checked, total, most = [], 0, _most_tokens(prompt)
    for each in inputs:
        if len(each.ids) > ready.max_model_len:
            raise _too_long(len(each.ids), prompt, ready)
        total += len(each.ids)
        if total > most:
            raise _too_many(total, prompt)
        if any(not 0 <= id_ < ready.vocab_size for id_ in each.ids):
            raise PromptRejected("The text has a token outside the model's vocabulary.", prompt.param)
        checked.append(each)
    return checked


def _too_many(at_least: int, prompt: ScorePrompt) -> PromptRejected:
    message = (
        f"Invalid '{prompt.param}': at most {_most_tokens(prompt)} tokens are allowed in a request, all candidates"
        f" with their contexts; these are at least {at_least}."
    )
    code = FailureCode.INVALID_PARAMETER if prompt.max_tokens is None else FailureCode.TOO_MANY_TOKENS
    return PromptRejected(message, prompt.param, code)


def _too_long(tokens: int, prompt: ScorePrompt, ready: Ready) -> PromptRejected:
    """Return the rejection in OpenAI's wording, which clients search for."""
    message = (
        f"This model's maximum context length is {ready.max_model_len} tokens. "
        f"However, a candidate with its context has {tokens} tokens. Please reduce its length."
    )
    return PromptRejected(message, prompt.param, FailureCode.CONTEXT_LENGTH_EXCEEDED)
