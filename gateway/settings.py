"""What an operator can set about a gateway. Read once at start-up, then passed down as narrow values."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from auth_billing.rate_limits.limits import Kind, Limits, parse_limits
from router.messages import ServiceClass
from runtime.logging import LogStyle


class GatewaySettings(BaseSettings):
    """Settings of one gateway process (`HEADRACE_…`)."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    gateway_id: str = Field(
        "gateway-1", pattern=r"^[A-Za-z0-9_-]{1,64}$", description="This gateway's name; replies are sent to it by it."
    )
    host: str = Field("127.0.0.1", description="Address that the API listens on.")
    port: int = Field(8000, ge=0, le=65535, description="Port of the API.")
    trusted_proxies: str = Field(
        "",
        description="Addresses or networks, with commas between them, of proxies whose X-Forwarded-For and "
        "X-Forwarded-Proto are believed.",
    )
    ops_host: str = Field("127.0.0.1", description="Address of /metrics and /status; never make it public.")
    ops_port: int = Field(0, ge=0, le=65535, description="Port of /metrics and /status; 0: any free one.")
    amqp_url: str = Field("", description="RabbitMQ's URL; empty only inside the all-in-one process.")
    mongodb_url: str = Field("", description="The store's URL; empty only inside the all-in-one process.")
    api_key_pepper: str = Field(
        "", repr=False, description="Secret that API keys are hashed with; the same in all processes that check keys."
    )
    control_secret: str = Field(
        "", repr=False, description="Secret of control messages; empty: the one that follows from the pepper."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What is logged.")
    log_style: LogStyle = Field("console", description="Log lines for people (console) or for machines (json).")

    model_aliases: str = Field(
        "", description='TOML file of other names for models: a table [aliases] of `name = "model"`; read at start.'
    )
    limits_per_key: str = Field(
        "1000 concurrent",
        description="Limits of every API key: `60 requests/minute, 90000 tokens/minute, 1000 requests/day, "
        "20 concurrent`, or some of these; what is set for a key wins.",
    )
    limits_per_project: str = Field("", description="Limits of every project, whatever it asks for.")
    limits_per_model: str = Field(
        "", description="Limits of every project at every model; what is set for a project and a model wins."
    )
    max_strangers: PositiveInt = Field(
        256,
        description="Connections of one address on which nobody has shown a key; behind trusted proxies not counted.",
    )
    max_choices: int = Field(16, ge=1, le=128, description="Largest `n` that a request may ask for.")
    default_max_tokens: PositiveInt = Field(
        4096, description="Longest answer, in tokens, to a request that does not say; credit for it is set aside."
    )
    max_body_bytes: PositiveInt = Field(4 * 1024 * 1024, description="Largest request body.")
    body_timeout: PositiveFloat = Field(10.0, description="Seconds in which a request body must arrive.")
    max_request_seconds: PositiveFloat = Field(600.0, description="Longest that a request may take, queueing included.")
    no_worker_timeout: PositiveFloat = Field(
        30.0, description="Seconds without a word and without a live worker after which a request fails."
    )
    max_wait: PositiveFloat = Field(
        10.0,
        description="Seconds that a request may have to wait for its turn, by estimate; where it would be longer it is "
        "refused.",
    )
    max_wait_flex: PositiveFloat = Field(60.0, description='The same for `service_tier: "flex"`.')
    max_loop_lag: PositiveFloat = Field(
        0.2, description="Seconds that the event loop may be late, for seconds on end, before requests are refused."
    )
    header_delay: float = Field(
        1.0, ge=0, description="Longest that a stream's status line waits for the worker's first word."
    )
    ping_interval: PositiveFloat = Field(
        1.0, description="Seconds of silence after which a comment keeps a stream open."
    )
    send_timeout: PositiveFloat = Field(30.0, description="Seconds that a client may refuse to read its stream.")
    max_unread_bytes: PositiveInt = Field(
        1024 * 1024, description="Text kept for a client that reads too slowly before it is dropped."
    )
    registry_warmup: float = Field(
        1.5, ge=0, description="Seconds that a starting gateway hears workers' heartbeats before it takes requests."
    )
    shutdown_grace: float = Field(120.0, ge=0, description="Seconds that running requests get when the gateway stops.")

    @field_validator("limits_per_key", "limits_per_project", "limits_per_model")
    @classmethod
    def _are_limits(cls, text: str) -> str:
        parse_limits(text)
        return text

    @property
    def longest_waits(self) -> dict[ServiceClass, float]:
        """Seconds that a request may have to wait for its turn, by class."""
        flex = max(self.max_wait, self.max_wait_flex)
        return {each: flex if each is ServiceClass.FLEX else self.max_wait for each in ServiceClass}

    @property
    def default_limits(self) -> dict[Kind, Limits]:
        """The limits of those for whom nobody has set any."""
        texts = {
            Kind.KEY: self.limits_per_key,
            Kind.PROJECT: self.limits_per_project,
            Kind.MODEL: self.limits_per_model,
        }
        return {kind: parse_limits(text) for kind, text in texts.items()}
