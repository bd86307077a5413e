"""Token events of any sizes, pushed into an `OutputText`."""

from __future__ import annotations

from itertools import cycle

from inference_worker.engine_protocol import Candidate, EngineFinishReason, PositionLogprobs, TokenEvent
from inference_worker.worker.text.output_text import OutputText, Release


def push_events(
    output: OutputText, ids: list[int], start: int, cuts: list[int], finish: EngineFinishReason
) -> list[Release]:
    """Push `ids[start:]` in events of the sizes in `cuts`, repeated, the last with `finish`; return the releases."""
    releases, at, sizes = [], start, cycle(cuts)
    while at < len(ids) and not output.finished:
        part = ids[at : at + next(sizes)]
        end = at + len(part)
        event = TokenEvent(
            request="r",
            choice=0,
            position=at,
            token_ids=part,
            logprobs=[PositionLogprobs(Candidate(id_, -1.0), []) for id_ in part],
            finish_reason=finish if end == len(ids) else None,
        )
        release = output.push(event)
        if release is not None:
            releases.append(release)
        at = end
    return releases
