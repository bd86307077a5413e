"""Collects the continuations of one path of a search, the choices of one engine request, until all have ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from inference_worker.engine_protocol import GenerationRequest, TokenEvent
from inference_worker.search.events import Extend, Extended, Segment, SegmentEnd
from inference_worker.worker.text.detokenizer import Detokenizer
from inference_worker.worker.text.output_text import OutputText
from inference_worker.worker.text.processor import TextProcessor
from router.messages import Job

MAX_CHARACTER_BYTES = 4


@dataclass(eq=False)
class _Continuation:
    output: OutputText
    ids: list[int] = field(default_factory=list)
    """Tokens whose text is final."""
    text: str = ""
    end: SegmentEnd | None = None


class Continuations:
    """The continuations that an `Extend` command requests: choices of an engine request whose prompt is the path."""

    def __init__(
        self, command: Extend, job: Job, request: GenerationRequest, request_id: str, text: TextProcessor
    ) -> None:
        """`request` is the job's engine request, without the path; `request_id` the id of the new one."""
        prefix, sampling = command.prefix, request.sampling
        self._path = command.path
        self._separator = "" if command.to_end or job.search is None else job.search.separator
        self._stop = frozenset(job.text.stop)
        self._rest = None if sampling.max_tokens is None else sampling.max_tokens - len(prefix)
        """Most tokens until the end of the answer."""
        sampling = replace(
            sampling,
            seed=command.seed,
            temperature=0.0 if command.greedy else sampling.temperature,
            max_tokens=command.max_tokens,
            min_tokens=max(0, sampling.min_tokens - len(prefix)),
        )
        self.request = replace(
            request,
            id=request_id,
            prompt_ids=[*request.prompt_ids, *prefix],
            sampling=sampling,
            n=command.count,
            delivered=[],
            ended=[],
            reasoning=None if request.reasoning is None else request.reasoning.after(prefix),
        )
        options = replace(job.text, stop=[*job.text.stop, self._separator]) if self._separator else job.text
        # Text before them can't be part of a stop string: each visible token has a byte.
        tokenizer = self._tokenizer = text.tokenizer
        length = MAX_CHARACTER_BYTES * max(map(len, options.stop), default=1)
        splitters = [text.reasoning_splitter(job, request.prompt_ids) for _ in range(command.count)]
        last = self._last = prefix if any(splitters) else prefix[-length:]
        self._hidden = tokenizer.controls.ids if job.text.skip_special_tokens else frozenset()
        self._begin = self._split(last)[1] if self._separator else ""
        """Text of the path's last token after the separator, which belongs to the step that begins."""
        sampling = replace(sampling, min_tokens=sampling.min_tokens + len(last) if sampling.min_tokens else 0)
        self._all = [
            _Continuation(OutputText(tokenizer, sampling, options, last, start=0, reasoning=each)) for each in splitters
        ]

    def outstanding(self) -> GenerationRequest:
        """Return the engine request that continues after the tokens generated so far, for a restarted engine."""
        if not any(each.ids or each.output.held_ids for each in self._all):
            return self.request
        return replace(
            self.request,
            delivered=[each.ids + each.output.held_ids for each in self._all],
            ended=[choice for choice, each in enumerate(self._all) if each.end is not None],
        )

    def push(self, event: TokenEvent) -> bool:
        """Add the tokens of an engine event to the continuation that generated them; return whether it has ended."""
        continuation = self._all[event.choice]
        release = continuation.output.push(event)
        if release is None:
            return False
        continuation.ids += release.ids
        continuation.text += release.text
        if release.finish is None:
            return False
        if release.finish == "length":
            full = self._rest is not None and len(continuation.ids) >= self._rest
            continuation.end = SegmentEnd.LENGTH if full else SegmentEnd.FULL
        elif self._separator and release.stopped_by == self._separator and self._separator not in self._stop:
            continuation.end = SegmentEnd.BOUNDARY
            ids = [*self._last, *continuation.ids]
            ended, _ = self._split(ids)
            before = max(len(self._last), continuation.output.reasoning_tokens)
            continuation.text = ended[len("".join(self._texts(ids[:before]))) :]
        else:
            continuation.end = SegmentEnd.STOP
        continuation.text = self._begin + continuation.text
        return True

    def _split(self, ids: list[int]) -> tuple[str, str]:
        """Return the text of tokens up to the separator that the last one completes, and the text after it, if any."""
        *before, last = self._texts(ids) or [""]
        text = "".join(before)
        found = (text + last).find(self._separator, max(0, len(text) - len(self._separator) + 1))
        end = None if found < 0 else found + len(self._separator)
        return (text + last)[:end], "" if end is None else (text + last)[end:]

    def _texts(self, ids: list[int]) -> list[str]:
        detokenizer = Detokenizer()
        return [detokenizer.push(b"" if each in self._hidden else self._tokenizer.token_data(each)) for each in ids]

    def ended(self) -> Extended | None:
        """Return the event for the search's driver that all continuations have ended; `None` until they have."""
        segments = [Segment(each.ids, each.text, each.end) for each in self._all if each.end is not None]
        return Extended(self._path, segments) if len(segments) == len(self._all) else None
