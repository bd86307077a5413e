"""The continuations of one path of a search: an engine request, and the text of each continuation until it ends."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from inference_worker.engine_protocol import GenerationRequest, TokenEvent
from inference_worker.search.events import Extend, Extended, Segment, SegmentEnd
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text.output_text import OutputText, Release
from router.messages import Job, TextOptions


@dataclass
class _Continuation:
    """One continuation: its tokens and text so far, and why it ended."""

    output: OutputText
    ids: list[int] = field(default_factory=list)
    text: str = ""
    end: SegmentEnd | None = None


class Continuations:
    """The continuations that one `Extend` command requested, computed as the choices of one engine request."""

    def __init__(self, id: str, extend: Extend, job: Job, base: GenerationRequest, tokenizer: Tokenizer) -> None:
        """Prepare the engine request `id`; `base` is the job's own, with the tokens of its prompt."""
        self.extend = extend
        self._job = job
        sampling = msgspec.structs.replace(base.sampling, seed=extend.seed, max_tokens=extend.max_tokens)
        self._request = msgspec.structs.replace(
            base,
            id=id,
            prompt_ids=[*base.prompt_ids, *extend.prefix],
            sampling=sampling,
            n=extend.count,
            delivered=[],
            ended=[],
        )
        self._separator = "" if extend.to_end or job.search is None else job.search.separator
        stops = [*job.text.stop, self._separator] if self._separator else job.text.stop
        options = TextOptions(
            stop=stops, include_stop_str_in_output=True, skip_special_tokens=job.text.skip_special_tokens
        )
        self._continuations = [_Continuation(OutputText(tokenizer, sampling, options)) for _ in range(extend.count)]

    @property
    def request(self) -> GenerationRequest:
        """The engine request of what is not generated yet: all of it at first, less after a restart of the engine."""
        if not any(each.ids or each.output.held_ids for each in self._continuations):
            return self._request
        return msgspec.structs.replace(
            self._request,
            delivered=[each.ids + each.output.held_ids for each in self._continuations],
            ended=[choice for choice, each in enumerate(self._continuations) if each.end is not None],
        )

    def push(self, event: TokenEvent) -> bool:
        """Add an event's tokens; return whether that continuation ended although the engine goes on with it."""
        continuation = self._continuations[event.choice]
        release = continuation.output.push(event)
        if release is None:
            return False
        continuation.ids += release.ids
        continuation.text += release.text
        if release.finish is None:
            return False
        continuation.end = self._end(continuation, release)
        return event.finish_reason is None

    def _end(self, continuation: _Continuation, release: Release) -> SegmentEnd:
        stop = release.stopped_by
        if release.finish == "length":
            return SegmentEnd.FULL
        if self._separator and stop == self._separator:
            return SegmentEnd.BOUNDARY
        if isinstance(stop, str) and not self._job.text.include_stop_str_in_output:
            continuation.text = continuation.text.removesuffix(stop)
        return SegmentEnd.STOP

    def result(self) -> Extended | None:
        """Return the event of all continuations once they have ended."""
        segments = [Segment(each.ids, each.text, each.end) for each in self._continuations if each.end is not None]
        return Extended(self.extend.path, segments) if len(segments) == len(self._continuations) else None


def final_event(request: str, ids: list[int], end: SegmentEnd, delivered: int, stop_ids: Collection[int]) -> TokenEvent:
    """Return the chosen answer's tokens after the `delivered` ones as the last event of an ordinary answer.

    `stop_ids` are the tokens that end an answer, and are not a part of its text.
    """
    stopped = end is SegmentEnd.STOP
    last = ids[-1] if ids else None
    return TokenEvent(
        request=request,
        choice=0,
        position=delivered,
        token_ids=ids[delivered:],
        finish_reason="stop" if stopped else "length",
        stop_token=last if stopped and last in stop_ids else None,
    )
