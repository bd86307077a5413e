"""Tokenises answers with their conversations in the formats of reward models, and finds the tokens to score at.

Sources: the model cards of Qwen2.5-Math-PRM and Math-Shepherd, and skywork-o1-prm-inference. Must not import torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from inference_worker.engine_protocol import ScoreInput
from inference_worker.errors import PromptRejected, UnsupportedModel
from inference_worker.tokenizer.control_tokens import strings, unused_marker
from inference_worker.tokenizer.tokenizer import Definition, Tokenizer, plain_encoder
from inference_worker.worker.text.chat_template import ChatTemplate, flatten
from router.messages import ChatPrompt, FailureCode, ScorePrompt

STEP_TOKEN = "<extra_0>"  # noqa: S105 - not a secret
"""Token after each step in Qwen2.5-Math-PRM."""

Message = dict[str, Any]
Prepared = TypeVar("Prepared")


class AnswerInputs(ABC):
    """Tokenises answers (the candidates) after their conversations (the contexts). Safe to share between threads."""

    tokens_around = 0
    """Most tokens that the format adds to a conversation and an answer."""
    tokens_per_step = 0
    """Most tokens that the format adds to a step."""

    def inputs(self, prompt: ScorePrompt, limit: int | None) -> Iterator[ScoreInput]:
        """Yield the engine input of each answer of a score job: token ids and positions to score; tokenised one by one.

        `limit`, the client's limit on tokens, must be `None`: answers can't be truncated.

        Raises:
            PromptRejected: an answer has no step, the conversation does not fit the format, or `limit` is set.
        """
        if limit is not None:
            message = "Invalid 'truncate_prompt_tokens': this model scores answers, which are not truncated."
            raise PromptRejected(message, "truncate_prompt_tokens")
        yield from self._inputs(prompt)

    @abstractmethod
    def _inputs(self, prompt: ScorePrompt) -> Iterator[ScoreInput]:
        """Yield the input of each answer. A conversation that all answers share is prepared once."""


class ChatAnswers(AnswerInputs):
    """The format of the model's chat template: read at the last token, or at a token after each step."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, *, steps: bool) -> None:
        """`steps`: whether each step is followed by `STEP_TOKEN`.

        Raises:
            UnsupportedModel: the vocabulary has no `STEP_TOKEN`.
        """
        if steps and STEP_TOKEN not in tokenizer.added:
            raise UnsupportedModel(f"the vocabulary has no {STEP_TOKEN}, which follows each step")
        self._tokenizer = tokenizer
        self._template = template
        self._step_id = tokenizer.added[STEP_TOKEN] if steps else None

    def _inputs(self, prompt: ScorePrompt) -> Iterator[ScoreInput]:
        conversations = [_conversation(context) for context in prompt.contexts]
        marker = unused_marker(strings([conversations, prompt.candidates, prompt.separator]))
        if not marker:
            raise PromptRejected("The texts are full of noncharacters.", prompt.param, FailureCode.INVALID_PROMPT)
        conversations = self._tokenizer.controls.protect(conversations, marker)
        for index, messages in enumerate(_for_each_candidate(prompt, conversations)):
            yield self._input(prompt, index, messages, marker)

    def _input(self, prompt: ScorePrompt, index: int, messages: list[Message], marker: str) -> ScoreInput:
        """Return the input of answer `index` to `messages`, whose control tokens are broken by `marker`."""
        steps = [prompt.text(index)] if self._step_id is None else _steps(prompt, index)
        protect = partial(self._tokenizer.controls.protect, marker=marker)
        end = "" if self._step_id is None else STEP_TOKEN
        answer = {"role": "assistant", "content": "".join(f"{step}{end}" for step in protect(steps))}
        rendered = self._template.render(ChatPrompt(messages=[*messages, answer], add_generation_prompt=False))
        ids = self._tokenizer.encode_rendered(rendered, marker)
        if self._step_id is None:
            return ScoreInput(ids, len(ids), [len(ids) - 1])
        positions = [place for place, id_ in enumerate(ids) if id_ == self._step_id]
        if len(positions) != len(steps):
            raise PromptRejected(f"The texts have {STEP_TOKEN}, which ends a step.", prompt.param)
        return ScoreInput(ids, len(ids), positions)


class LineAnswers(AnswerInputs):
    """Skywork's format: the question in a line, and each step followed by a line feed, where it is read."""

    tokens_around = 2
    tokens_per_step = 1

    def __init__(self, tokenizer: Tokenizer, bos_token_id: int | None) -> None:
        """`bos_token_id`: token before the question; `None`: there is none.

        Raises:
            UnsupportedModel: a line feed is not one token.
        """
        self._tokenizer = tokenizer
        self._begin = [] if bos_token_id is None else [bos_token_id]
        self._end = tokenizer.encode_inside("\n")
        if len(self._end) != 1:
            raise UnsupportedModel("a line feed, which follows each step, is not one token")

    def _inputs(self, prompt: ScorePrompt) -> Iterator[ScoreInput]:
        questions = [self._tokenizer.encode_inside(f"{_question(context)}\n") for context in prompt.contexts]
        for index, question in enumerate(_for_each_candidate(prompt, questions)):
            ids = self._begin + question
            positions = []
            for step in _steps(prompt, index):
                ids += self._tokenizer.encode_inside(step) + self._end
                positions.append(len(ids) - 1)
            yield ScoreInput(ids, len(ids), positions)


class TaggedAnswers(AnswerInputs):
    """Math-Shepherd's format: the question, and lines of a step and a tag, where it is read."""

    tokens_around = 4

    def __init__(self, definition: Definition, tag: str) -> None:
        """Build the tokenizer from `definition`, the content of `tokenizer.json`; `tag` follows each step.

        Raises:
            UnsupportedModel: the library does not support this kind of tokenizer.
        """
        self._encoder = plain_encoder(definition)
        self._tag = f" {tag}"
        self.tokens_per_step = len(f"{self._tag}\n".encode())

    def _inputs(self, prompt: ScorePrompt) -> Iterator[ScoreInput]:
        questions = [_question(context) for context in prompt.contexts]
        for index, question in enumerate(_for_each_candidate(prompt, questions)):
            yield self._input(prompt, index, question)

    def _input(self, prompt: ScorePrompt, index: int, question: str) -> ScoreInput:
        text = question
        ends = []
        for number, step in enumerate(_steps(prompt, index)):
            text += f"{' ' if number == 0 else chr(10)}{step}{self._tag}"
            ends.append(len(text))
        encoded = self._encoder.encode(text, add_special_tokens=True)
        return ScoreInput(list(encoded.ids), len(encoded.ids), _tokens_ending_at(ends, encoded.offsets))


def _tokens_ending_at(ends: list[int], offsets: list[tuple[int, int]]) -> list[int]:
    """Return the index of the last token of each character that ends at one of `ends`, ascending."""
    found, pending = [], iter([*ends, None])
    end, last = next(pending), 0
    for place, (start, stop) in enumerate(offsets):
        while end is not None and start >= end:
            found.append(last)
            end = next(pending)
        if stop > start:  # unlike a token that the tokenizer adds
            last = place
    return found if end is None else [*found, last]


def _for_each_candidate(prompt: ScorePrompt, prepared: Sequence[Prepared]) -> Sequence[Prepared]:
    """Return the prepared context of each candidate, from one for all of them or one for each."""
    return [prepared[0]] * len(prompt.candidates) if len(prepared) == 1 else prepared


def _conversation(context: str | list[Message]) -> list[Message]:
    if isinstance(context, str):
        return [{"role": "user", "content": context}]
    return [{**message, "content": flatten(message.get("content"))} for message in context]


def _question(context: str | list[Message]) -> str:
    """Return the texts of a conversation as lines, for formats without roles."""
    return "\n".join(message["content"] for message in _conversation(context))


def _steps(prompt: ScorePrompt, index: int) -> list[str]:
    steps = prompt.steps(index)
    if not steps:
        raise PromptRejected(f"Invalid '{prompt.param}': an answer has no step.", prompt.param)
    return steps
