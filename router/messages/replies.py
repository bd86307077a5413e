"""What a worker tells a gateway, in windows. Positions count generated tokens of one choice from 0."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

import msgspec

from router.messages.base import Count, FailureCode, Message, Usage

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


UNKNOWN_ID = -1


class TokenAlternative(msgspec.Struct, frozen=True, array_like=True):
    """One candidate token at a position: id, its text alone, and natural-log probability."""

    id: int
    """`UNKNOWN_ID` if all that is known is the text: an upstream outside tells no ids."""
    text: str
    logprob: float


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """The chosen token's log probability and the most likely alternatives, best first."""

    chosen: TokenAlternative
    top: list[TokenAlternative]


class _Reply(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="k"):
    """One entry of a window. Short names: these are the only messages sent per token window."""

    j: str
    """Job id."""
    a: str
    """Attempt id (uuid4, one per time a worker takes the job): the fence against zombies."""


class Started(_Reply, frozen=True, kw_only=True, tag="start"):
    """The worker has taken the job and will generate; first message of an attempt."""

    w: str
    """Worker id."""
    prompt_tokens: Count
    """0: not known yet."""
    delivery_count: Count = 0


class MayResume(_Reply, frozen=True, kw_only=True, tag="resume?"):
    """A job was delivered again, or published again: the worker asks how it goes on, and does nothing until `Resume`.

    `a` is the attempt that it would be. Asked again until it is answered.
    """

    delivery_count: Count = 0
    copy: Count = 0
    """Which of the copies of the job it was given (`Job.attempt`)."""


class AttemptState(StrEnum):
    """What a worker knows of an attempt."""

    ALIVE = "alive"
    LOST = "lost"
    """It has no such attempt, or can't say again what the gateway has missed."""
    HANDED_OVER = "handed_over"
    """It let go of it on purpose, and the job went back to its queue."""


class AttemptReport(_Reply, frozen=True, kw_only=True, tag="attempt"):
    """What a worker knows of an attempt at a job."""

    state: AttemptState
    crashes: Count = 0
    """Of one that was handed over: how often in a row what ran it died with it."""


class ToolCallDelta(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """More of one tool call: its name (in the first of its deltas), or the next characters of its arguments."""

    i: Count
    """Which call of the choice, from 0 without gaps."""
    id: str = ""
    """With the name."""
    name: str = ""
    args: str = ""


def joined_calls(calls: Iterable[ToolCallDelta]) -> list[ToolCallDelta]:
    """The same, with what follows one another of one call in one."""
    joined: list[ToolCallDelta] = []
    for call in calls:
        if joined and joined[-1].i == call.i:
            last = joined.pop()
            call = ToolCallDelta(i=last.i, id=last.id, name=last.name, args=last.args + call.args)  # noqa: PLW2901
        joined.append(call)
    return joined


class Delta(_Reply, frozen=True, kw_only=True, tag="delta"):
    """Tokens `s .. s+positions-1` of choice `c`, with the text that is now safe to show.

    Text is whole characters only, and never a part of a possible stop string.
    """

    c: Count = 0
    s: Count
    ids: list[int]
    """Empty if a text has no known ids: what an upstream outside has said."""
    n: Count = 0
    """Positions of a text without ids: as many as it is in pieces, each a token or a few."""
    t: str = ""
    lp: list[TokenLogprob] | None = None
    calls: list[ToolCallDelta] | None = None
    """What these tokens add to the choice's tool calls; their markup is not in `t`."""
    f: FinishReason | None = None
    """Set on the last delta of this choice."""
    cached: Count = 0
    """With the first of a job: how many tokens of its prompt were found in the cache."""
    stop: str | int | None = None
    """The stop string or token id that ended the choice, if one did."""

    @property
    def positions(self) -> int:
        """How many positions it takes: the fence against gaps and repeats counts them."""
        return len(self.ids) or self.n


class PromptEcho(_Reply, frozen=True, kw_only=True, tag="prompt"):
    """The prompt as the model got it; comes before the first token."""

    ids: list[int]
    t: str
    first: str = ""
    """The text of its first token, which has no log probability."""


class PromptLogprobs(_Reply, frozen=True, kw_only=True, tag="prompt_lp"):
    """Log probabilities of the prompt's tokens `s .. s+len(lp)-1`, from 1 on; all come before the first token."""

    s: Count
    lp: list[TokenLogprob]
    ranks: list[int]
    """1: no token was likelier."""


class Embedded(_Reply, frozen=True, kw_only=True, tag="embedded"):
    """The vectors of inputs `s .. s+len(vectors)-1`: each float32, little-endian, as base64.

    The inputs of a job may be answered in any order.
    """

    s: Count
    vectors: list[bytes]
    tokens: Count = 0
    """Of these inputs; 0: not known."""


class Finished(_Reply, frozen=True, kw_only=True, tag="finished"):
    """Terminal: all choices ended."""

    usage: Usage


class Failed(_Reply, frozen=True, kw_only=True, tag="failed"):
    """Terminal: the job failed. `message` is for the client; it has no internals in it."""

    code: FailureCode
    message: str
    param: str | None = None
    usage: Usage | None = None
    retry_after: Count | None = None
    """Seconds after which it may go better, where somebody said so."""
    copy: Count = 0
    """From the reaper: which of the copies of the job died (`Job.attempt`)."""


class Cancelled(_Reply, frozen=True, kw_only=True, tag="cancelled"):
    """Terminal: stopped because the gateway asked for it."""

    usage: Usage


REAPER = "reaper"
"""The `w` of windows that close jobs dead in their queue: whoever was running one is not any more."""

Reply = (
    Started | MayResume | AttemptReport | PromptEcho | PromptLogprobs | Delta | Embedded | Finished | Failed | Cancelled
)
Terminal = Finished | Failed | Cancelled


class Window(Message, frozen=True, kw_only=True, tag="window"):
    """Everything that one worker has for one gateway since the last window (about 10 ms)."""

    w: str
    b: list[Reply]
