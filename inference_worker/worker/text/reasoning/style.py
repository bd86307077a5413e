"""Applies a model's markup of reasoning to its jobs: where answers begin, and what the engine must know of it."""

from __future__ import annotations

import msgspec

from inference_worker.errors import PromptRejected
from inference_worker.reasoning import ReasoningTokens
from inference_worker.tokenizer.control_tokens import MARKERS
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text.reasoning.markup import ReasoningMarkup, is_off
from inference_worker.worker.text.reasoning.splitter import ReasoningSplitter, Section
from router.messages import ChatPrompt, Grammar, Job

TAIL = 16
"""Last tokens of a prompt, of which the text shows whether it has begun the reasoning."""


class ReasoningStyle:
    """The markup in which one model writes its reasoning, and the tokens of that markup in its vocabulary."""

    def __init__(self, markup: ReasoningMarkup, tokenizer: Tokenizer) -> None:
        self._markup = markup
        self._tokenizer = tokenizer
        self._controls = tokenizer.controls.ids_of(markup.tokens)
        self._start = tokenizer.added.get(markup.start)
        self.has_tokens = markup.tokens <= tokenizer.added.keys()
        """Whether the vocabulary has the tokens of the markup, so that the engine can find the end of the reasoning."""

    def splitter(self, job: Job, prompt_ids: list[int]) -> ReasoningSplitter:
        """Create the splitter of reasoning and answer for one choice of a job with these prompt tokens."""
        return ReasoningSplitter(self._markup, self._first_section(job, prompt_ids), self._controls)

    def tokens(self, job: Job, prompt_ids: list[int], grammar: Grammar | None) -> ReasoningTokens | None:
        """Return what the engine must know of the reasoning in answers to a job.

        `None` if no reasoning can come, or if neither the job's budget nor the output's `grammar` depends on it.

        Raises:
            PromptRejected: the job has a budget, and the vocabulary lacks the tokens of the markup.
        """
        prompt = job.prompt
        if not isinstance(prompt, ChatPrompt):
            return None
        off = is_off(prompt)
        budget = 0 if off else prompt.thinking_token_budget
        section = self._first_section(job, prompt_ids)
        if section is Section.ANSWER or (budget is None and grammar is None) or (off and grammar is not None):
            return None
        undecided = section is Section.UNDECIDED
        if not self.has_tokens or (undecided and self._start is None):
            if budget is not None and not off:
                message = "This model's reasoning can't be limited: its vocabulary has no token that ends it."
                raise PromptRejected(message, "thinking_token_budget")
            return None
        return ReasoningTokens(
            start=self._start if undecided else None,
            end=self._ids(self._markup.end),
            budget=budget,
            forced=[] if budget is None else self._ids(self._markup.forced),
        )

    def _first_section(self, job: Job, prompt_ids: list[int]) -> Section:
        """Return the section with which the answers to a job begin; reasoning is found in the answers of chats only."""
        prompt, markup = job.prompt, self._markup
        if not isinstance(prompt, ChatPrompt):
            return Section.ANSWER
        if prompt.continue_final_message:
            begun = str(prompt.messages[-1].get("content") or "")
            reasons = not markup.message and begun.rfind(markup.start) > begun.rfind(markup.end)
            return Section.REASONING if reasons else Section.ANSWER
        tail = self._tokenizer.decode(prompt_ids[-TAIL:], skip_controls=False).rstrip()
        if tail.endswith(markup.end):
            return Section.ANSWER
        if tail.endswith(markup.start):
            return Section.HEADER if markup.message else Section.REASONING
        return Section.ANSWER if markup.message else Section.UNDECIDED

    def _ids(self, markup: str) -> list[int]:
        return self._tokenizer.encode_rendered(markup, MARKERS[0])


def without_reasoning(job: Job) -> Job:
    """Return a copy of a job whose answers begin at once, without reasoning."""
    if not isinstance(job.prompt, ChatPrompt):
        return job
    return msgspec.structs.replace(job, prompt=msgspec.structs.replace(job.prompt, reasoning_effort="none"))
