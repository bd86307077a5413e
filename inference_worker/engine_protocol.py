"""What a worker and its engine process say to each other: token ids only, no text.

Frozen msgspec structs, MessagePack on a pipe (never pickle). This module does not import torch, so the worker process
stays light.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from router.messages import Grammar, SamplingParams

EngineFinishReason = Literal["stop", "length"]


class _Word(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Base of everything said on the pipe."""


# --- Commands: worker to engine -------------------------------------------------------------------


class GenerationRequest(_Word, frozen=True, kw_only=True, tag="request"):
    """Generate `n` continuations of `prompt_ids` (non-empty, each within the vocabulary).

    `delivered[c]` are ids that choice `c` already generated elsewhere: it goes on after them, unless it is in `ended`.
    `salt` separates prefix caches; `tenant` is whom it is served to: tenants that wait are treated alike.
    """

    id: str
    prompt_ids: list[int]
    sampling: SamplingParams
    n: int = 1
    salt: str = ""
    tenant: str = ""
    delivered: list[list[int]] = []
    ended: list[int] = []
    grammar: Grammar | None = None
    """What each choice must match as a whole, `delivered` included."""
    bad_words: list[list[int]] = []
    """Token sequences that must not be generated."""

    @property
    def prompt_tokens(self) -> int:
        """How many tokens are given."""
        return len(self.prompt_ids)


class EmbeddingRequest(_Word, frozen=True, kw_only=True, tag="embedding"):
    """Embed each of `inputs` (non-empty, ids within the vocabulary), one vector each, in any order.

    Those in `embedded` are left out.
    `dimensions`: keep so many leading numbers and normalise again; `None`: all.
    """

    id: str
    inputs: list[list[int]]
    dimensions: int | None = None
    embedded: list[int] = []

    @property
    def prompt_tokens(self) -> int:
        """How many tokens are given."""
        return sum(map(len, self.inputs))


EngineRequest = GenerationRequest | EmbeddingRequest


class Abort(_Word, frozen=True, kw_only=True, tag="abort"):
    """Stop a request, or one choice of it. Unknown ids are ignored. No event follows."""

    request: str
    choice: int | None = None


class Shutdown(_Word, frozen=True, kw_only=True, tag="shutdown"):
    """End the process now."""


Command = EngineRequest | Abort | Shutdown


# --- Reports: engine to worker --------------------------------------------------------------------


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A token id and its natural-log probability."""

    id: int
    logprob: float


class PositionLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """Log probabilities at one position: the chosen token and the best alternatives, best first.

    Taken from the model's raw distribution, before temperature, penalties and truncation (as OpenAI and vLLM do).
    """

    chosen: Candidate
    top: list[Candidate]


class PromptScores(msgspec.Struct, frozen=True, array_like=True):
    """Log probabilities of the prompt's tokens from position `start` (1 or later) on.

    `ranks`: 1 if no token was likelier.
    """

    start: int
    logprobs: list[PositionLogprobs]
    ranks: list[int]


class TokenEvent(_Word, frozen=True, kw_only=True, tag="tokens"):
    """Tokens `position .. position+len(token_ids)-1` of one choice of a request; none if only `prompt` is told.

    With `finish_reason` set it is the choice's last. A stop token (end of sequence or a
    `stop_token_id`) is counted: it is the last of `token_ids`, and `stop_token` names it.
    """

    request: str
    choice: int
    position: int
    token_ids: list[int]
    logprobs: list[PositionLogprobs] | None = None
    finish_reason: EngineFinishReason | None = None
    stop_token: int | None = None
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache; on a choice's first event."""
    prompt: PromptScores | None = None
    """What was computed of the prompt's log probabilities, if they are wanted; in order, before the first token."""

    @property
    def tokens(self) -> int:
        """How many were generated."""
        return len(self.token_ids)


class VectorEvent(_Word, frozen=True, kw_only=True, tag="vector"):
    """The vector of input `index` of a request: float32, little-endian, of length one."""

    request: str
    index: int
    vector: bytes

    @property
    def tokens(self) -> int:
        """None were generated."""
        return 0


EngineEvent = TokenEvent | VectorEvent


class RequestFailed(_Word, frozen=True, kw_only=True, tag="failed"):
    """This request, and only this one, could not go on. Its state is gone."""

    request: str
    message: str
    in_grammar: bool = False
    """Because of the request's own grammar; then `message` is for the client."""
    in_step: bool = False
    """Computing it failed, after it was taken in."""


class EngineLoad(_Word, frozen=True, kw_only=True, tag="load"):
    """Counters and gauges of the engine; counters only grow."""

    running: int = 0
    waiting: int = 0
    kv_blocks_used: int = 0
    """Blocks held by live sequences (cached but unreferenced ones are free)."""
    kv_blocks_total: int = 0
    kv_slots_held: int = 0
    """Token slots of the blocks used."""
    kv_tokens_held: int = 0
    """Those of them with a token in them."""
    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_cache_queries: int = 0
    """Prompt tokens looked up."""
    prefix_cache_hits: int = 0
    """Prompt tokens found."""
    draft_tokens: int = 0
    """Tokens guessed ahead by speculation."""
    accepted_tokens: int = 0
    """Those of them that were right."""
    preemptions: int = 0
    steps: int = 0
    step_tokens: int = 0
    """Tokens computed in all steps together, prompts and recomputed ones included."""


class Ready(_Word, frozen=True, kw_only=True, tag="ready"):
    """The model is loaded."""

    max_model_len: int
    """Context length in force: prompt and generated tokens together."""
    vocab_size: int
    max_num_seqs: int
    kv_blocks: int
    block_size: int
    device: str
    dtype: str
    attention: str
    eos_token_ids: list[int]
    quantization: str = "none"
    dimensions: int = 0
    """Length of the vectors of an engine that embeds."""


class StepReport(_Word, frozen=True, kw_only=True, tag="step"):
    """What one visit to the engine produced."""

    events: list[EngineEvent] = []
    failed: list[RequestFailed] = []
    load: EngineLoad = EngineLoad()


class StartFailed(_Word, frozen=True, kw_only=True, tag="start_failed"):
    """The engine can't start; `reason` is one line for the operator."""

    reason: str


Report = Ready | StepReport | StartFailed
