"""The fields of a request that say how tokens are picked and where generation stops; the same for every endpoint.

Ranges are OpenAI's, and vLLM's for its extras.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Neutral, RequestBody

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
MAX_LOGIT_BIAS = 1024

TokenId = Annotated[int, Field(ge=0, le=INT32_MAX)]
StopString = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Metadata = Annotated[
    dict[Annotated[str, StringConstraints(max_length=64)], Annotated[str, StringConstraints(max_length=512)]],
    Field(max_length=16),
]


class StreamOptions(ApiModel):
    """`include_obfuscation` and the extras of other servers are ignored."""

    include_usage: bool | None = None


class SamplingRequest(RequestBody):
    """Base of chat completions and completions."""

    not_offered: ClassVar[Mapping[str, Neutral]] = {
        "best_of": (1,),
        "use_beam_search": (False,),
        "length_penalty": (1, 1.0),
        "early_stopping": (False,),
        "bad_words": ([],),
        "prompt_logprobs": (),
        "allowed_token_ids": (),
        "logits_processors": ([],),
        "truncate_prompt_tokens": (),
        "return_token_ids": (False,),
        "return_tokens_as_token_ids": (False,),
        "priority": (0,),
        "structured_outputs": (),
        "response_format": ({"type": "text"},),
        "guided_json": (),
        "guided_regex": (),
        "guided_choice": (),
        "guided_grammar": (),
        "guided_decoding_backend": (),
        "guided_whitespace_pattern": (),
        "logit_bias_mode": (),
        "echo": (False,),
    }

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    max_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    min_tokens: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    """-1 and 0: off."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    seed: Annotated[int, Field(ge=-INT64_MAX - 1, le=INT64_MAX)] | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    stop: StopString | Annotated[list[StopString], Field(max_length=4)] | None = None
    stop_token_ids: Annotated[list[TokenId], Field(max_length=128)] | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    user: Annotated[str, StringConstraints(max_length=512)] | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    """Accepted and ignored: nothing is stored."""
    cache_salt: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None

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
        if self.stream_options is not None and not self.stream:
            raise PydanticCustomError("invalid_value", "'stream_options' is only allowed when 'stream' is true")
        if self.min_tokens is not None and self.token_limit is not None and self.min_tokens > self.token_limit:
            raise PydanticCustomError("invalid_value", "'min_tokens' is more than 'max_tokens'")
        return self

    @property
    def token_limit(self) -> int | None:
        """Tokens to generate at most; `None`: whatever the context has left."""
        return self.max_tokens

    @property
    def top_logprobs_wanted(self) -> int | None:
        """Alternatives to report at each position; `None`: no logprobs at all."""
        return None

    @property
    def choices(self) -> int:
        """`n`, with its default."""
        return self.n or 1

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
