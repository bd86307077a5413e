"""The fields of a request that say how tokens are picked and where generation stops; the same for every endpoint.

Ranges are OpenAI's, and vLLM's for its extras.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Ignored, Refused, RequestBody, contradiction
from gateway.openai.structured_output import ResponseFormat, StructuredOutputs

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
MAX_LOGIT_BIAS = 1024
MAX_BAD_WORDS = 64
MAX_ALLOWED_TOKENS = 4096
"""Both are looked at in every step."""

TokenId = Annotated[int, Field(ge=0, le=INT32_MAX)]
StopString = Annotated[str, StringConstraints(min_length=1, max_length=256)]
BadWord = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
LogitBias = Annotated[
    dict[str, Annotated[float, Field(ge=-100, le=100)]],
    Field(json_schema_extra={"maxProperties": MAX_LOGIT_BIAS, "propertyNames": {"pattern": "^[0-9]{1,9}$"}}),
]
Metadata = Annotated[
    dict[Annotated[str, StringConstraints(max_length=64)], Annotated[str, StringConstraints(max_length=512)]],
    Field(max_length=16),
]


class StreamOptions(ApiModel):
    """`stream_options`; the extras of other servers are ignored."""

    include_usage: bool | None = None
    """A last chunk with no choices and the usage; `usage` is null in the others."""
    include_obfuscation: Ignored[bool | None] = None
    """No padding is sent: frames join the tokens of a window, and TLS is the operator's."""


class SamplingRequest(RequestBody):
    """Base of chat completions and completions."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "use_beam_search": Refused("tokens are drawn, not searched for", (False,)),
        "length_penalty": Refused("it belongs to beam search", (1, 1.0)),
        "early_stopping": Refused("it belongs to beam search", (False,)),
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
        "thinking_token_budget": Refused("no thinking is counted apart", (-1,)),
        "kv_transfer_params": Refused("it belongs to another server's disaggregated serving"),
        "ec_transfer_params": Refused("it belongs to another server's disaggregated serving"),
        "vllm_xargs": Refused("it belongs to another server's extensions", ({},)),
    }

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """The model to ask, as `/v1/models` names it."""
    max_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Tokens to generate at most; together with the prompt they must fit into the context."""
    min_tokens: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = None
    """Tokens to generate at least: before that neither stop tokens nor stop strings end the text."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Default 1; 0, or anything below 0.00001, is greedy."""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Draw from the most likely tokens that have this probability together."""
    top_k: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    """Draw from so many of the most likely tokens; -1 and 0: from all."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Draw from tokens with at least this part of the most likely one's probability."""
    presence_penalty: Penalty | None = None
    """Subtracted from the logit of every token that was generated already."""
    frequency_penalty: Penalty | None = None
    """Subtracted from a token's logit once for each time that it was generated."""
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    """Divides (multiplies, if negative) the logit of every token in the prompt or the answer."""
    logit_bias: LogitBias | None = None
    """Added to the logits of token ids; at most 1,024 of them."""
    seed: Annotated[int, Field(ge=-INT64_MAX - 1, le=INT64_MAX)] | None = None
    """Equal seeds give equal answers, whatever else the server is doing."""
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    """Answers to the same prompt; above the operator's limit (16 by default) 400."""
    best_of: Annotated[int, Field(ge=1, le=20)] | None = None
    """Make so many answers, all of them counted, and return the `n` with the highest log probability a token."""
    stop: StopString | Annotated[list[StopString], Field(max_length=4)] | None = None
    """The text ends before any of these."""
    stop_token_ids: Annotated[list[TokenId], Field(max_length=128)] | None = None
    """Tokens that end the text, besides the model's own end."""
    ignore_eos: bool | None = None
    """Go on after the model's own end."""
    include_stop_str_in_output: bool | None = None
    """Show the stop string or stop token too."""
    bad_words: Annotated[list[BadWord], Field(max_length=MAX_BAD_WORDS)] | None = None
    """Words that are not generated, as they are tokenised alone and after a space."""
    allowed_token_ids: Annotated[list[TokenId], Field(min_length=1, max_length=MAX_ALLOWED_TOKENS)] | None = None
    """Only these tokens are generated."""
    truncate_prompt_tokens: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    """Keep so many of the prompt's last tokens; -1: as many as fit."""
    prompt_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """The log probability of each token of the prompt, and so many of the most likely ones; not in a stream."""
    return_token_ids: bool | None = None
    """`token_ids` of the answer and `prompt_token_ids` beside the text."""
    return_tokens_as_token_ids: bool | None = None
    """Tokens in log probabilities are written as `token_id:5`."""
    skip_special_tokens: bool | None = None
    """Default true: control tokens leave no text."""
    response_format: ResponseFormat | None = None
    """`text`, `json_object` or `json_schema`: tokens that would not match are never drawn. A schema that can't be
    enforced as a whole is answered by 400. An object that names its properties gets no others unless the schema says
    so."""
    structured_outputs: StructuredOutputs | None = None
    """The same for one of `json`, `json_object`, `regex`, `choice` and `grammar` (Lark)."""
    stream: bool | None = None
    """Server-Sent Events as the tokens come."""
    stream_options: StreamOptions | None = None
    """`include_usage` adds a last chunk with the usage; `include_obfuscation` is ignored."""
    service_tier: Literal["auto", "default", "flex", "priority", "fast"] | None = None
    """The queue: `fast` is `priority`, `auto` is `default`; the answer names the one used."""
    user: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """An API key says who asks."""
    metadata: Ignored[Metadata | None] = None
    """Nothing is stored that it could be attached to."""
    store: Ignored[bool | None] = None
    """Nothing is stored."""
    cache_salt: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """Keeps cached prompts apart within a tenant, as tenants are always kept apart."""
    request_id: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """Ids are ours; send `X-Client-Request-Id` to find a request again."""
    session_id: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """Any worker can answer any request."""
    return_token_offsets: Ignored[bool | None] = None
    """For vLLM's render endpoints only."""
    stream_interval: Ignored[Annotated[int, Field(ge=1)] | None] = None
    """Tokens leave in windows of about 10 ms."""
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
        if self.best_of is not None and self.best_of < self.choices:
            raise contradiction("best_of", "it must not be less than 'n'")
        if self.stream and self.candidates > self.choices:
            raise contradiction("best_of", "more candidates than choices can't be streamed")
        if self.stream and self.prompt_logprobs is not None:
            raise contradiction("prompt_logprobs", "it can't be streamed")
        if self.truncate_prompt_tokens == 0:
            raise contradiction("truncate_prompt_tokens", "it must be -1 or at least 1")
        if self.stream_options is not None and not self.stream:
            raise contradiction("stream_options", "it is only allowed when 'stream' is true")
        if self.min_tokens is not None and self.token_limit is not None and self.min_tokens > self.token_limit:
            raise contradiction("min_tokens", "it is more than 'max_tokens'")
        if self.response_format is not None and self.structured_outputs is not None:
            raise contradiction("structured_outputs", "it excludes 'response_format'")
        return self

    @property
    def token_limit(self) -> int | None:
        """Tokens to generate at most; `None`: as many as the operator allows."""
        return self.max_tokens

    @property
    def top_logprobs_wanted(self) -> int | None:
        """Alternatives to report at each position; `None`: no logprobs at all."""
        return None

    @property
    def prompt_logprobs_wanted(self) -> int | None:
        """Alternatives to report at each position of the prompt; `None`: no logprobs of it at all."""
        return self.prompt_logprobs

    @property
    def prompt_wanted(self) -> bool:
        """Whether the answer has anything of the prompt in it."""
        return bool(self.return_token_ids) or self.prompt_logprobs_wanted is not None

    @property
    def choices(self) -> int:
        """`n`, with its default."""
        return self.n or 1

    @property
    def candidates(self) -> int:
        """Choices to generate: as many, or more to select from."""
        return self.best_of or self.choices

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with its usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def stop_strings(self) -> list[str]:
        """`stop` as a list."""
        if self.stop is None:
            return []
        return [self.stop] if isinstance(self.stop, str) else list(self.stop)
