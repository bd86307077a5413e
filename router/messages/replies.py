"""Replies of workers to gateways, sent in windows: started, deltas of tokens, vectors, images, and terminal replies.

Positions count the generated tokens of one choice from 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

import msgspec

from router.messages.base import Count, FailureCode, Message, Usage
from router.messages.steps import Step

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


UNKNOWN_TOKEN_ID = -1


class TokenAlternative(msgspec.Struct, frozen=True, array_like=True):
    """A candidate token at a position: its id, its text, and its natural-log probability."""

    id: int
    """`UNKNOWN_TOKEN_ID` from upstream providers, which send texts without ids."""
    text: str
    logprob: float


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """Log probability of the chosen token, and of the most likely alternatives, best first."""

    chosen: TokenAlternative
    top: list[TokenAlternative]


class _Reply(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="k"):
    """One entry of a window. Encoded names are short: no other messages are sent for each token window."""

    job_id: str = msgspec.field(name="j")
    attempt_id: str = msgspec.field(name="a")
    """UUID4 of the attempt: fencing token against replies of superseded attempts."""


class Started(_Reply, frozen=True, kw_only=True, tag="start"):
    """First reply of an attempt: the job has a slot and the worker has started to process it."""

    worker_id: str = msgspec.field(name="w")
    prompt_tokens: Count
    """0 if not known yet."""
    delivery_count: Count = 0


class ResumeRequest(_Reply, frozen=True, kw_only=True, tag="resume?"):
    """Asks the gateway how to continue a job that another attempt may have started, or that was in a crashed engine.

    The job does not run before `Resume`. `attempt_id` is the attempt that would run. Repeated until it is answered.
    """

    delivery_count: Count = 0
    copy_number: Count = msgspec.field(name="copy", default=0)
    """`Job.copy_number` of the delivered message."""
    crashes: Count = 0
    """Consecutive crashes with the job that its worker knows of; 0 if the attempt has not run."""
    continues: bool = True
    """Whether the worker can continue the answer if a part of it was delivered; as in `WorkerStatus`."""


class AttemptState(StrEnum):
    """State of an attempt as its worker knows it."""

    ALIVE = "alive"
    LOST = "lost"
    """The worker has no such attempt, or no longer stores the replies that the gateway has missed."""
    HANDED_OVER = "handed_over"
    """The worker has returned the job to its queue deliberately."""


class AttemptReport(_Reply, frozen=True, kw_only=True, tag="attempt"):
    """A worker's report on the state of an attempt, in answer to a gateway's `Ping`."""

    state: AttemptState
    crashes: Count = 0
    """Consecutive engine crashes with the job, if it was handed over."""


class ToolCallDelta(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Part of a tool call: its name (in the first of its deltas), or the next characters of its arguments."""

    index: Count = msgspec.field(name="i")
    """Index of the call in the choice, from 0 without gaps."""
    id: str = ""
    """Id of the call, sent with the name."""
    name: str = ""
    arguments: str = msgspec.field(name="args", default="")


def merge_tool_calls(calls: Iterable[ToolCallDelta]) -> list[ToolCallDelta]:
    """Merge consecutive deltas of a tool call into one each, when deltas of an answer are merged.

    Return them in order.
    """
    merged: list[ToolCallDelta] = []
    for call in calls:
        if merged and merged[-1].index == call.index:
            last = merged.pop()
            arguments = last.arguments + call.arguments
            call = ToolCallDelta(index=last.index, id=last.id, name=last.name, arguments=arguments)  # noqa: PLW2901
        merged.append(call)
    return merged


class Delta(_Reply, frozen=True, kw_only=True, tag="delta"):
    """Tokens `start .. start+positions-1` of a choice, with the text that is now safe to show.

    The text consists of whole characters and never contains a part of a possible stop string. A delta with a `step` has
    neither text nor tokens, and precedes the first token.
    """

    choice: Count = msgspec.field(name="c", default=0)
    start: Count = msgspec.field(name="s")
    token_ids: list[int] = msgspec.field(name="ids")
    """Empty if unknown, as with upstream providers."""
    untokenised_positions: Count = msgspec.field(name="n", default=0)
    """Number of pieces of a text without token ids, each one or a few tokens; 1 for a step that has ended."""
    text: str = msgspec.field(name="t", default="")
    reasoning: str = msgspec.field(name="r", default="")
    """Reasoning before the answer; `text` does not contain it or its markup."""
    logprobs: list[TokenLogprob] | None = msgspec.field(name="lp", default=None)
    tool_calls: list[ToolCallDelta] | None = msgspec.field(name="calls", default=None)
    """Additions to the choice's tool calls; `text` does not contain their markup."""
    finish_reason: FinishReason | None = msgspec.field(name="f", default=None)
    """Set on the last delta of the choice."""
    cached_tokens: Count = msgspec.field(name="cached", default=0)
    """Prompt tokens found in the prefix cache; set on the first delta of a job."""
    stop_reason: str | int | None = msgspec.field(name="stop", default=None)
    """Stop string or token id that ended the choice, if any."""
    step: Step | None = None
    """A step of the job, of choice 0 only: ended ones take one position, running ones none."""

    @property
    def positions(self) -> int:
        """Number of token positions that the delta covers, by which gaps and repeats of replies are detected."""
        return len(self.token_ids) or self.untokenised_positions


class PromptEcho(_Reply, frozen=True, kw_only=True, tag="prompt"):
    """The prompt as the model got it; sent before the first token."""

    token_ids: list[int] = msgspec.field(name="ids")
    text: str = msgspec.field(name="t")
    first_text: str = msgspec.field(name="first", default="")
    """Text of the first token, which has no log probability."""


class PromptLogprobs(_Reply, frozen=True, kw_only=True, tag="prompt_lp"):
    """Log probabilities of prompt tokens `start .. start+len(logprobs)-1`, from 1 on; sent before the first token."""

    start: Count = msgspec.field(name="s")
    logprobs: list[TokenLogprob] = msgspec.field(name="lp")
    ranks: list[int]
    """Rank of each token among all candidates; 1 is the most likely."""


class Embedded(_Reply, frozen=True, kw_only=True, tag="embedded"):
    """The vectors of inputs `start .. start+len(vectors)-1`, each float32, little-endian, encoded as base64.

    The inputs of a job may be answered in any order.
    """

    start: Count = msgspec.field(name="s")
    vectors: list[bytes]
    tokens: Count = 0
    """Tokens of these inputs; 0 if not known."""

    @property
    def indexes(self) -> range:
        """Indexes, in the job, of the inputs whose vectors this reply has."""
        return range(self.start, self.start + len(self.vectors))


class Drawn(_Reply, frozen=True, kw_only=True, tag="drawn"):
    """Images `start .. start+len(images)-1` of a job, each the bytes of a PNG file, encoded as base64.

    The images of a job may arrive in any order.
    """

    start: Count = msgspec.field(name="s")
    images: list[bytes]
    revised_prompt: str = msgspec.field(name="revised", default="")
    """The prompt that was drawn, if an upstream provider changed the client's."""

    @property
    def indexes(self) -> range:
        """Indexes, in the job, of the images that this reply has."""
        return range(self.start, self.start + len(self.images))


class Scored(_Reply, frozen=True, kw_only=True, tag="scored"):
    """The scores of candidates `start .. start+len(scores)-1` of a job; the candidates may be answered in any order."""

    start: Count = msgspec.field(name="s")
    scores: list[float]
    """The score of each candidate: of a process reward model that of the last step."""
    step_scores: list[list[float]] = msgspec.field(name="steps", default_factory=list)
    """The scores of the steps of each candidate, from a process reward model, or of the labels, from a classifier."""
    tokens: Count = 0
    """Prompt tokens of these candidates with their contexts."""

    @property
    def indexes(self) -> range:
        """Indexes, in the job, of the candidates whose scores this reply has."""
        return range(self.start, self.start + len(self.scores))


class Tokenised(_Reply, frozen=True, kw_only=True, tag="tokenised"):
    """The tokens of a prompt, or the text of token ids, as a `TokenisationPrompt` requests."""

    count: Count
    """Number of tokens."""
    token_ids: list[int] = msgspec.field(name="ids", default_factory=list)
    names: list[str] = msgspec.field(default_factory=list)
    """Names of the tokens in the vocabulary."""
    text: str = msgspec.field(name="t", default="")
    """Text of the token ids of the prompt, if it consists of token ids."""

    @property
    def indexes(self) -> range:
        """Indexes of the job's prompts that this reply is about: 0, of the only one."""
        return range(1)


class Finished(_Reply, frozen=True, kw_only=True, tag="finished"):
    """Terminal reply: all choices are complete."""

    usage: Usage


class Failed(_Reply, frozen=True, kw_only=True, tag="failed"):
    """Terminal reply: the job failed. `message` is for the client and must not expose internals."""

    code: FailureCode
    message: str
    param: str | None = None
    usage: Usage | None = None
    retry_after: Count | None = None
    """Seconds after which a retry may succeed, if an upstream provider sent that."""
    copy_number: Count = msgspec.field(name="copy", default=0)
    """`Job.copy_number` of the dead-lettered message; set by the reaper."""


class Cancelled(_Reply, frozen=True, kw_only=True, tag="cancelled"):
    """Terminal reply: the job was stopped on the gateway's request."""

    usage: Usage


REAPER = "reaper"
"""Worker id of windows that close dead-lettered jobs: no attempt at them is running."""

Reply = (
    Started
    | ResumeRequest
    | AttemptReport
    | PromptEcho
    | PromptLogprobs
    | Delta
    | Embedded
    | Drawn
    | Scored
    | Tokenised
    | Finished
    | Failed
    | Cancelled
)
Terminal = Finished | Failed | Cancelled


class Window(Message, frozen=True, kw_only=True, tag="window"):
    """A batch of replies from one worker to one gateway: all since the last window (about 10 ms)."""

    worker_id: str = msgspec.field(name="w")
    replies: list[Reply] = msgspec.field(name="b")
