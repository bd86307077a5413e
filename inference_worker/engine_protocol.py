"""Defines the messages between a worker and its engine process: commands to the engine, reports from the engine.

Text is in token ids, except the prompts of images, which a pipeline tokenises itself. Images of prompts are arrays.

Frozen msgspec structs, sent as MessagePack on a pipe (never pickle). Must not import torch: the worker loads it too.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from inference_worker.reasoning import ReasoningTokens
from router.messages import FailureCode, Grammar, SamplingParams

EngineFinishReason = Literal["stop", "length"]


class _Message(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Base of all messages on the pipes."""


# --- Commands: worker to engine -------------------------------------------------------------------


class ModelInput(msgspec.Struct, frozen=True, array_like=True):
    """An array that a model gets besides token ids, such as the pixels of a prompt's images.

    `dtype` as numpy names it, `data` in C order and this machine's byte order.
    """

    name: str
    dtype: str
    shape: list[int]
    data: bytes


class GenerationRequest(_Message, frozen=True, kw_only=True, tag="request"):
    """Generate `n` continuations of `prompt_ids` (non-empty, each id below the vocabulary size).

    Choice `c` continues after the ids `delivered[c]` of an earlier attempt, unless `c` is in `ended`.
    `salt` separates prefix caches; waiting `tenant`s, and the `requester`s of each, are scheduled fairly.
    A request of the service class `flex` gives way to all others.
    """

    id: str
    prompt_ids: list[int]
    sampling: SamplingParams
    n: int = 1
    salt: str = ""
    tenant: str = ""
    requester: str = ""
    flex: bool = False
    delivered: list[list[int]] = []
    ended: list[int] = []
    grammar: Grammar | None = None
    """Grammar that each choice must match as a whole, `delivered` included, from the end of its reasoning on."""
    reasoning: ReasoningTokens | None = None
    """Reasoning that precedes the grammar or has a budget; `None`: the engine treats it as any other text."""
    bad_words: list[list[int]] = []
    """Token sequences that must not be generated."""
    inputs: list[ModelInput] = []
    """Arrays of the prompt's images; only for a vision engine."""

    @property
    def prompt_tokens(self) -> int:
        """Number of tokens of the request's prompt."""
        return len(self.prompt_ids)


class EmbeddingRequest(_Message, frozen=True, kw_only=True, tag="embedding"):
    """Embed each of `inputs` (non-empty, ids below the vocabulary size) except the indexes in `done`.

    Vectors are reported in any order, cut to the leading `dimensions` numbers (`None`: all) and normalised.
    A request of the service class `flex` gives way to all others.
    """

    id: str
    inputs: list[list[int]]
    flex: bool = False
    dimensions: int | None = None
    done: list[int] = []

    @property
    def token_ids(self) -> list[list[int]]:
        """Token ids of each input to embed."""
        return self.inputs

    @property
    def prompt_tokens(self) -> int:
        """Number of tokens of all inputs of the request together."""
        return sum(map(len, self.inputs))


class ScoreInput(msgspec.Struct, frozen=True, array_like=True):
    """Token ids of a candidate with its context, and where its scores are read."""

    ids: list[int]
    second_from: int
    """Index of the first token of the second segment (`token_type_ids` 1); the number of `ids` if there is none."""
    positions: list[int]
    """Ascending indexes of the tokens at which a decoder's scores are read; empty for encoders, which pool."""


class ScoreRequest(_Message, frozen=True, kw_only=True, tag="score"):
    """Score each of `inputs` (non-empty, ids below the vocabulary size) except the indexes in `done`.

    Scores are reported in any order: logits if `raw`, else what the model's activation function makes of them.
    `salt` separates prefix caches. An encoder computes requests of the service class `flex` after all others.
    """

    id: str
    inputs: list[ScoreInput]
    flex: bool = False
    salt: str = ""
    raw: bool = False
    done: list[int] = []

    @property
    def token_ids(self) -> list[list[int]]:
        """Token ids of each input to score."""
        return [each.ids for each in self.inputs]

    @property
    def prompt_tokens(self) -> int:
        """Number of tokens of all inputs of the request together."""
        return sum(len(each.ids) for each in self.inputs)


class ImageRequest(_Message, frozen=True, kw_only=True, tag="image"):
    """Draw `n` images of `prompt`, in any order, except the indexes in `drawn`.

    The noise that an image starts from depends only on `seed` and the image's index.
    """

    id: str
    prompt: str
    size: str
    """One of `Ready.image_sizes`."""
    seed: int
    n: int = 1
    drawn: list[int] = []

    @property
    def prompt_tokens(self) -> int:
        """Number of tokens of the request's prompt that are counted: always 0, because images are counted instead."""
        return 0


EngineRequest = GenerationRequest | EmbeddingRequest | ScoreRequest | ImageRequest


class Abort(_Message, frozen=True, kw_only=True, tag="abort"):
    """Command that stops a request, or one choice of it. Unknown ids are ignored; no event follows."""

    request: str
    choice: int | None = None


class Shutdown(_Message, frozen=True, kw_only=True, tag="shutdown"):
    """Command that makes the engine process exit at once, without finishing its requests."""


Command = EngineRequest | Abort | Shutdown


# --- Reports: engine to worker --------------------------------------------------------------------


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A token id and its natural-log probability."""

    id: int
    logprob: float


class PositionLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """Log probabilities at one position: the chosen token and the most likely alternatives, best first.

    Of the model's raw distribution, before temperature, penalties and truncation (as in OpenAI's API and vLLM).
    """

    chosen: Candidate
    top: list[Candidate]


class PromptScores(msgspec.Struct, frozen=True, array_like=True):
    """Log probabilities of the prompt's tokens from position `start` (1 or later) on.

    `ranks[i]` is the rank of the token at `start + i` in the vocabulary, 1 for the most likely one.
    """

    start: int
    logprobs: list[PositionLogprobs]
    ranks: list[int]


class TokenEvent(_Message, frozen=True, kw_only=True, tag="tokens"):
    """Tokens `position .. position+len(token_ids)-1` of one choice; no tokens if the event only carries `prompt`.

    The choice's last event has a `finish_reason`. A stop token (end of sequence or one of `stop_token_ids`) counts as
    generated: it is the last of `token_ids`, and `stop_token` repeats it.
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
    """Next part of the requested log probabilities of the prompt; all parts come before the first token."""

    @property
    def tokens(self) -> int:
        """Number of tokens that this event of a generation adds."""
        return len(self.token_ids)


class VectorEvent(_Message, frozen=True, kw_only=True, tag="vector"):
    """The embedding vector of input `index` of a request: float32, little-endian, scaled to length 1."""

    request: str
    index: int
    vector: bytes

    @property
    def tokens(self) -> int:
        """Number of tokens that this event generated: always 0, as an embedding generates none."""
        return 0


class ScoreEvent(_Message, frozen=True, kw_only=True, tag="scored"):
    """The scores of input `index` of a request: one for each of its positions, or one if it has none."""

    request: str
    index: int
    scores: list[float]

    @property
    def tokens(self) -> int:
        """Number of tokens that this event generated: always 0, as scoring generates none."""
        return 0


class ImageEvent(_Message, frozen=True, kw_only=True, tag="drawn"):
    """Image `index` of a request, the bytes of a PNG file."""

    request: str
    index: int
    image: bytes

    @property
    def tokens(self) -> int:
        """Number of tokens that this event counts for in the worker's totals: always 1, for one image."""
        return 1


EngineEvent = TokenEvent | VectorEvent | ScoreEvent | ImageEvent


class RequestFailed(_Message, frozen=True, kw_only=True, tag="failed"):
    """Report that one request failed; the engine has dropped the request's state."""

    request: str
    message: str
    in_grammar: bool = False
    """Whether the request's own grammar is the cause; then `message` is for the client."""
    refused: FailureCode | None = None
    """Failure code if an image model refuses the request's prompt; then `message` is for the client."""
    in_step: bool = False
    """Whether an engine step failed, as opposed to the acceptance of the request."""


class EngineLoad(msgspec.Struct, omit_defaults=True, kw_only=True, tag="load"):
    """Load of the engine: counters since the engine process started, and gauges of its present state.

    Not frozen, because the scheduler counts in a subclass.
    """

    running: int = 0
    waiting: int = 0
    kv_blocks_used: int = 0
    """Blocks held by live sequences (cached but unreferenced ones are free)."""
    kv_blocks_total: int = 0
    kv_blocks_peak: int = 0
    """Most blocks that live sequences held at once since the engine process started."""
    kv_slots_held: int = 0
    """Token positions in the used blocks."""
    kv_tokens_held: int = 0
    """Token positions in the used blocks that hold a token."""
    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_cache_queries: int = 0
    """Prompt tokens looked up in the prefix cache."""
    prefix_cache_hits: int = 0
    """Prompt tokens found in the prefix cache."""
    draft_tokens: int = 0
    """Tokens proposed by speculative decoding."""
    accepted_tokens: int = 0
    """Draft tokens that were accepted."""
    preemptions: int = 0
    steps: int = 0
    step_tokens: int = 0
    """Tokens computed in all steps, including prompts and recomputed tokens."""


class Ready(_Message, frozen=True, kw_only=True, tag="ready"):
    """Report that the model is loaded; the fields describe the engine and its limits."""

    max_model_len: int
    """Effective context length in tokens, prompt and output together."""
    vocab_size: int
    max_num_seqs: int
    kv_blocks: int
    block_size: int
    device: str
    dtype: str
    attention: str
    eos_token_ids: list[int]
    quantization: str = "none"
    kv_block_bytes: int = 0
    """Bytes of a KV block in all layers; 0 without a paged KV cache."""
    dimensions: int = 0
    """Length of the vectors of an embedding engine, else 0."""
    image_sizes: list[str] = []
    """Sizes that an image engine draws, as `1024x768`, the default size first."""
    preempts_flex: bool = False
    """Whether running requests of the class `flex` give way to others, so that these may exceed `max_num_seqs`."""


class StepReport(_Message, frozen=True, kw_only=True, tag="step"):
    """Report of one engine step: tokens, vectors, scores and images, failed requests, and the engine's load."""

    events: list[EngineEvent] = []
    failed: list[RequestFailed] = []
    load: EngineLoad = msgspec.field(default_factory=EngineLoad)


class StartFailed(_Message, frozen=True, kw_only=True, tag="start_failed"):
    """Report that the engine could not start; `reason` is one line for the operator."""

    reason: str


Report = Ready | StepReport | StartFailed
