"""Has the model that answers read the results of a search's answers: a question after each answer, held to one line."""

from __future__ import annotations

from msgspec.structs import replace

from inference_worker.engine_protocol import GenerationRequest, TokenEvent
from inference_worker.search.events import Read
from inference_worker.search.results import normal_form
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text.output_text import OutputText
from router.messages import RESULT_TOKENS, ChatPrompt, Grammar, GrammarKind, Job, SamplingParams, TextOptions

NO_RESULT = "none"
"""What the model writes of an answer without a result."""
_QUESTION = (
    "What is the final result of your answer? Repeat only the result, such as a number, a formula or a name, without"
    f" other words. If the answer has no result, write {NO_RESULT}."
)
_BEGINNING = "The final result is:"
"""Text with which the reply begins, after which small models too write the result alone."""
_GRAMMAR = Grammar(kind=GrammarKind.REGEX, source=r" ?[^\s][^\r\n]*")


def reading_job(job: Job, answer: str) -> Job:
    """Return a job that asks the model for the result of an answer to the conversation of `job`.

    Of a prompt that is too long for the context the end is kept.
    """
    messages = [*job.prompt.messages] if isinstance(job.prompt, ChatPrompt) else []
    messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": _QUESTION}]
    messages += [{"role": "assistant", "content": _BEGINNING}]
    return replace(
        job,
        prompt=ChatPrompt(
            messages=messages, reasoning_effort="none", add_generation_prompt=False, continue_final_message=True
        ),
        sampling=SamplingParams(seed=job.sampling.seed, temperature=0.0, max_tokens=RESULT_TOKENS),
        text=TextOptions(truncate_prompt_tokens=-1),
        n=1,
        delivered=[],
        ended=[],
    )


class ResultReading:
    """The result of one answer that the model writes: an engine request of its own."""

    def __init__(self, path: int, request: GenerationRequest, tokenizer: Tokenizer) -> None:
        """`path` is the number of the answer's path; `request` that of its `reading_job`."""
        self.request = replace(request, grammar=_GRAMMAR)
        self._path = path
        self._output = OutputText(tokenizer, request.sampling, TextOptions())
        self._ids: list[int] = []
        self._text = ""
        self._end = ""

    def outstanding(self) -> GenerationRequest:
        """Return the engine request that continues after the tokens generated so far, for a restarted engine."""
        return replace(self.request, delivered=[self._ids + self._output.held_ids])

    def push(self, event: TokenEvent) -> bool:
        """Add the tokens of an engine event; return whether they end the result, which the engine may not know."""
        release = self._output.push(event)
        if release is not None:
            self._ids += release.ids
            self._text += release.text
            self._end = release.finish or ""
        return bool(self._end)

    def ended(self) -> Read | None:
        """Return the event for the search's driver; `None` until the model has written the result.

        A result that the limit cut off is none.
        """
        if not self._end:
            return None
        complete = self._end == "stop" and self._text.strip(" .'").casefold() != NO_RESULT
        result = normal_form(self._text) if complete and self._text.strip() else None
        return Read({self._path: result}, len(self._ids))
