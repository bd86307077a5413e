"""Request fields for sampling, stop conditions and log probabilities, shared by chat completions and completions.

Ranges are OpenAI's, and vLLM's for its extensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Ignored, Refused, RequestBody, conflict
from gateway.openai.structured_output import ResponseFormat, StructuredOutputs

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
GREEDY_BELOW = 1e-5
"""Temperature below which sampling is greedy: dividing logits by less only overflows."""
MAX_LOGIT_BIAS = 1024
MAX_BAD_WORDS = 64
MAX_ALLOWED_TOKENS = 4096
"""Maximum length of `allowed_token_ids`; like bad words, these cost time in every decode step."""

TokenId = Annotated[int, Field(ge=0, le=INT32_MAX)]
StopString = Annotated[str, StringConstraints(min_length=1, max_length=256)]
BadWord = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
LogitBias = Annotated[
    dict[str, Annotated[float, Field(ge=-100, le=100)]],
    Field(json_schema_extra={"maxProperties": MAX_LOGIT_BIAS, "propertyNames": {"pattern": "^[0-9]{1,9}$"}}),
]
Metadata = Annotated[
    dict[
        Annotated[str, StringConstraints(max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")],
        Annotated[str, StringConstraints(max_length=512)],
    ],
    Field(max_length=16),
]
"""At most 16 pairs; a key has no control characters."""


class StreamOptions(ApiModel):
    """Body field `stream_options`; other servers' extensions are ignored."""

    include_usage: bool | None = None
    """Send a last chunk with the usage and no choices; `usage` is null in the other chunks."""
    include_obfuscation: Ignored[bool | None] = None
    """No padding is sent: an event joins the tokens of a window, and the operator provides TLS."""


class SamplingRequest(RequestBody):
    """Base of the request bodies of chat completions and completions."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "logprob_token_ids": Refused("log probabilities are reported of the most likely tokens only"),
        "logits_processors": Refused("clients bring no code", ([],)),
        "truncation_side": Refused("prompts are cut at their beginning only", ("left",)),
        "spaces_between_special_tokens": Refused("text is what its tokens say", (True,)),
        "return_prompt_text": Refused("rendered prompts are not shown", (False,)),
        "priority": Refused("`service_tier` chooses the queue", (0,)),
        "guided_json": Refused("its name today is `structured_outputs`"),
        "guided_regex": Refused("its name today is `structured_outputs`"),
        "guided_choice": Refused("its name today is `structured_outputs`"),
        "guided_grammar": Refused("its name today is `structured_outputs`"),
        "guided_decoding_backend": Refused("the operator chooses"),
        "guided_whitespace_pattern": Refused("the operator chooses"),
        "logit_bias_mode": Refused("`logit_bias` is added to the logits"),
        "repetition_detection": Refused("`repetition_penalty` is what there is"),
        "kv_transfer_params": Refused("it belongs to another server's disaggregated serving"),
        "ec_transfer_params": Refused("it belongs to another server's disaggregated serving"),
        "vllm_xargs": Refused("it belongs to another server's extensions", ({},)),
    }

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Name of the model, as `/v1/models` lists it."""
    max_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Maximum number of tokens to generate; together with the prompt they must fit into the context."""
    min_tokens: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = None
    """Minimum number of tokens to generate, before which neither stop tokens nor stop strings end the text."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature, default 1. Values below 0.00001 mean greedy decoding."""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Sample from the most likely tokens whose probabilities sum to this value (nucleus sampling)."""
    top_k: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    """Sample from this number of most likely tokens; -1 or 0: from all."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Sample from tokens with at least this fraction of the most likely token's probability."""
    presence_penalty: Penalty | None = None
    """Subtracted from the logit of every token that was already generated."""
    frequency_penalty: Penalty | None = None
    """Subtracted from a token's logit once for each time that it was generated."""
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    """Divides (multiplies, if negative) the logit of every token in the prompt or the answer."""
    logit_bias: LogitBias | None = None
    """Values added to logits, by token id; at most 1,024 of them."""
    seed: Annotated[int, Field(ge=-INT64_MAX - 1, le=INT64_MAX)] | None = None
    """Seed of the sampler. Equal seeds give equal answers, but for tokens that are almost equally likely."""
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    """Number of choices; above the operator's limit (16 by default) the answer is 400."""
    best_of: Annotated[int, Field(ge=0, le=20)] | None = None
    """Number of candidates to generate, all billed; the `n` with the highest log probability per token are returned. 0:
    as many as `n`."""
    stop: StopString | Annotated[list[StopString], Field(max_length=4)] | None = None
    """Strings that end the text; they are not part of it."""
    stop_token_ids: Annotated[list[TokenId], Field(max_length=128)] | None = None
    """Tokens that end the text, besides the model's end-of-sequence tokens."""
    ignore_eos: bool | None = None
    """Continue after an end-of-sequence token."""
    include_stop_str_in_output: bool | None = None
    """Include the stop string or stop token in the text."""
    bad_words: Annotated[list[BadWord], Field(max_length=MAX_BAD_WORDS)] | None = None
    """Words that are not generated, tokenised both alone and after a space."""
    allowed_token_ids: Annotated[list[TokenId], Field(min_length=1, max_length=MAX_ALLOWED_TOKENS)] | None = None
    """The only tokens that may be generated."""
    truncate_prompt_tokens: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    """Number of the prompt's last tokens to keep; -1: as many as fit."""
    prompt_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """Return the log probability of each token of the prompt, and of so many of the most likely tokens; not in a
    stream."""
    return_token_ids: bool | None = None
    """Return `token_ids` of the answer and `prompt_token_ids` beside the text."""
    return_tokens_as_token_ids: bool | None = None
    """Write tokens in log probabilities as `token_id:5`."""
    skip_special_tokens: bool | None = None
    """Leave special tokens out of the text; default true."""
    response_format: ResponseFormat | None = None
    """`text`, `json_object` or `json_schema`: tokens that would not match are never sampled. A schema that can't be
    fully enforced is answered by 400. An object that lists its properties gets no others unless the schema allows
    them."""
    structured_outputs: StructuredOutputs | None = None
    """The same for one of `json`, `json_object`, `regex`, `choice` and `grammar` (Lark)."""
    stream: bool | None = None
    """Send Server-Sent Events as tokens are generated."""
    stream_options: StreamOptions | None = None
    """`include_usage` adds a last chunk with the usage; `include_obfuscation` is ignored."""
    service_tier: Literal["auto", "default", "flex", "priority", "fast"] | None = None
    """Service class of the request: `fast` is `priority`, `auto` is `default`; the response names the class used."""
    user: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """Callers are identified by their API key."""
    metadata: Ignored[Metadata | None] = None
    """Completions are not stored, so there is no object to attach it to."""
    store: Ignored[bool | None] = None
    """Completions are not stored."""
    cache_salt: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """Separates cached prefixes within a tenant; tenants are always separated."""
    request_id: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """The server chooses the id; send `X-Client-Request-Id` to find a request again."""
    session_id: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """Any worker can run any request."""
    return_token_offsets: Ignored[bool | None] = None
    """For vLLM's render endpoints only."""
    stream_interval: Ignored[Annotated[int, Field(ge=1)] | None] = None
    """Tokens are sent in windows of about 10 ms."""
    watermarking: Ignored[bool | None] = None
    """Answers carry no watermark."""

    @field_validator("logit_bias")
    @classmethod
    def _token_ids(cls, bias: dict[str, float] | None) -> dict[str, float] | None:
        if bias is None:
            return None
        if len(bias) > MAX_LOGIT_BIAS:
            raise PydanticCustomError("invalid_value", f"at most {MAX_LOGIT_BIAS} tokens can be biased")
        for key in bias:
            if not (key.isascii() and key.isdecimal() and len(key) <= 10 and int(key) <= INT32_MAX):
                raise PydanticCustomError("invalid_value", "keys must be token ids: decimal integers from 0")
        return bias

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.best_of and self.best_of < self.choices:
            raise conflict("best_of", "it must not be less than 'n'")
        if self.stream and self.candidates > self.choices:
            raise conflict("best_of", "more candidates than choices can't be streamed")
        if self.stream and self.prompt_logprobs is not None:
            raise conflict("prompt_logprobs", "it can't be streamed")
        if self.truncate_prompt_tokens == 0:
            raise conflict("truncate_prompt_tokens", "it must be -1 or at least 1")
        if self.stream_options is not None and not self.stream:
            raise conflict("stream_options", "it is only allowed when 'stream' is true")
        if self.min_tokens is not None and self.token_limit is not None and self.min_tokens > self.token_limit:
            raise conflict("min_tokens", "it is more than 'max_tokens'")
        if self.response_format is not None and self.structured_outputs is not None:
            raise conflict("structured_outputs", "it excludes 'response_format'")
        return self

    @property
    def token_limit(self) -> int | None:
        """Maximum number of tokens to generate; `None`: the operator's limit."""
        return self.max_tokens

    @property
    def top_logprob_count(self) -> int | None:
        """Number of most likely tokens to return at each generated position; `None`: no log probabilities."""
        return None

    @property
    def prompt_logprob_count(self) -> int | None:
        """Number of most likely tokens to return at each position of the prompt; `None`: no log probabilities of it."""
        return self.prompt_logprobs

    @property
    def returns_prompt(self) -> bool:
        """Whether the response contains any part of the prompt, such as its text or log probabilities."""
        return bool(self.return_token_ids) or self.prompt_logprob_count is not None

    @property
    def choices(self) -> int:
        """Number of choices to return for each prompt: `n`, default 1."""
        return self.n or 1

    @property
    def candidates(self) -> int:
        """Number of choices to generate for each prompt, of which the best `n` are returned: `best_of`, default `n`."""
        return self.best_of or self.choices

    @property
    def include_usage(self) -> bool:
        """Whether a stream's last chunk has the usage (`stream_options.include_usage`)."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def stop_strings(self) -> list[str]:
        """Texts at which generation stops, as a list, whichever form the field `stop` has."""
        if self.stop is None:
            return []
        return [self.stop] if isinstance(self.stop, str) else list(self.stop)
