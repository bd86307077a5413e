"""Defines the commands of a search's state machine (`SearchDriver`), and the events by which a worker answers them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from router.messages import Step

ROOT = 0
"""Number of the path that has no tokens: the prompt."""


class SegmentEnd(StrEnum):
    """Why a continuation of a path ended."""

    BOUNDARY = "boundary"
    """The separator was generated; the path may go on."""
    FULL = "full"
    """The most tokens of one step were generated; the path may go on."""
    STOP = "stop"
    """The answer is complete: a stop token, a stop string or the end of a grammar."""
    LENGTH = "length"
    """The answer has as many tokens as the request or the context allows."""

    @property
    def final(self) -> bool:
        """Whether a path whose continuation ended for this reason can't be continued."""
        return self in (SegmentEnd.STOP, SegmentEnd.LENGTH)


@dataclass(frozen=True)
class Segment:
    """What one continuation added to its path."""

    token_ids: list[int]
    """Ids of its tokens, in order; the one that ended the answer is included."""
    text: str
    end: SegmentEnd


@dataclass(frozen=True)
class PathScore:
    """Scores of a path by the verifier: one for each of its steps from a process reward model, else one."""

    steps: list[float]


# Events


@dataclass(frozen=True)
class Extended:
    """Event: all continuations that an `Extend` command requested have ended, in the order of their indexes."""

    path: int
    segments: list[Segment]


@dataclass(frozen=True)
class Scored:
    """Event: the verifier has scored the paths of a `Score` command.

    Attributes:
        scores: one for each path, in the command's order.
        tokens: tokens that the verifier read.
        written: tokens that the verifier wrote: grades, if it is a chat model.
    """

    scores: list[PathScore]
    tokens: int
    written: int = 0


@dataclass(frozen=True)
class Compared:
    """Event: the results of a `Compare` command have been compared.

    Attributes:
        equal: the result that counts instead, by each new result that is equal to a known or an earlier new one.
    """

    equal: dict[str, str]


@dataclass(frozen=True)
class Read:
    """Event: results of some paths of a `ReadResults` command have been found; others may follow.

    Attributes:
        results: the results in normal form by the numbers of their paths; `None`: the path has none.
        tokens: tokens that the model wrote for them.
    """

    results: dict[int, str | None]
    tokens: int = 0


@dataclass(frozen=True)
class Unread:
    """Event: the verifier has not scored the paths of a `Score` command, which have more than its `max_tokens`.

    Attributes:
        tokens: tokens of the paths that it read nevertheless.
        written: tokens that it wrote for them.
    """

    tokens: int = 0
    written: int = 0


@dataclass(frozen=True)
class Predicted:
    """Event: the model has predicted the token after a beam, as a `Predict` command requested.

    Attributes:
        beam: index of the beam.
        tokens: the most probable tokens with their log probabilities, best first.
    """

    beam: int
    tokens: list[tuple[int, float]]


Event = Extended | Read | Compared | Scored | Unread | Predicted


# Commands


@dataclass(frozen=True)
class Extend:
    """Command: generate `count` continuations of a path.

    Attributes:
        path: number of the path; `ROOT`: from the prompt.
        prefix: ids of the path's tokens, after the prompt.
        count: number of continuations, which share the KV blocks of prompt and prefix.
        seed: seed of the draws; they also depend on a continuation's index and the position after the prefix.
        max_tokens: most tokens of each.
        to_end: whether the separator does not end a continuation.
        greedy: whether each token is the most probable one, instead of a draw.
    """

    path: int
    prefix: list[int]
    count: int
    seed: int
    max_tokens: int
    to_end: bool
    greedy: bool = False


@dataclass(frozen=True)
class Predict:
    """Command: report the most probable tokens after a beam of beam search by likelihood.

    Attributes:
        beam: index of the beam.
        prefix: ids of the beam's tokens, after the prompt.
        count: number of tokens to report.
    """

    beam: int
    prefix: list[int]
    count: int


@dataclass(frozen=True)
class Score:
    """Command: have the verifier score paths.

    Attributes:
        paths: numbers of the paths.
        texts: the steps of each path as texts, in order; an outcome reward model reads them joined.
        max_tokens: most tokens that the verifier may read for them.
    """

    paths: list[int]
    texts: list[list[str]]
    max_tokens: int


@dataclass(frozen=True)
class ReadResults:
    """Command: find the results of paths by the model, or by a client's pattern.

    Attributes:
        texts: the text of each path, by its number.
    """

    texts: dict[int, str]


@dataclass(frozen=True)
class Compare:
    """Command: find out which results that are mathematics are equal, though their texts differ.

    Attributes:
        known: results of earlier steps, which are not equal to one another.
        new: other results, in the order of the paths that found them.
    """

    known: list[str]
    new: list[str]


@dataclass(frozen=True)
class Confirm:
    """Command: release a step to the gateway. One that has ended holds all that a resumed search needs."""

    step: Step


@dataclass(frozen=True)
class Choose:
    """Command: send the chosen answer; the search is over.

    Attributes:
        token_ids: all tokens of the answer.
        end: why it ended; `FULL` and `BOUNDARY` if the search ended before the answer, by its steps or its budget.
        choice: index of the job's choice whose answer it is; the search is over with the last one.
    """

    token_ids: list[int] = field(default_factory=list)
    end: SegmentEnd = SegmentEnd.STOP
    choice: int = 0


Command = Extend | Predict | ReadResults | Compare | Score | Confirm | Choose
