"""Settings of a gateway process, read once from environment variables at start-up."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from auth_billing.rate_limits.limits import Limits, SubjectKind, parse_limits
from router.messages import MAX_CANDIDATES, ServiceClass
from router.timings import DEFAULT_TIMINGS
from runtime.logging import LogStyle

_ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")


class GatewaySettings(BaseSettings):
    """Settings of one gateway process (`HEADRACE_…`)."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    gateway_id: str = Field(
        "gateway-1",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Unique name of this gateway, after which its reply inbox is named.",
    )
    host: str = Field("127.0.0.1", description="Address that the API listens on.")
    port: int = Field(8000, ge=0, le=65535, description="Port of the API.")
    trusted_proxies: str = Field(
        "",
        description="Comma-separated addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are "
        "trusted.",
    )
    cors_origins: str = Field(
        "",
        description="Comma-separated origins, such as https://app.example, whose pages may call the API from browsers, "
        "without cookies; `*`: all.",
    )
    ops_host: str = Field("127.0.0.1", description="Address of /metrics and /status; never make it public.")
    ops_port: int = Field(0, ge=0, le=65535, description="Port of /metrics and /status; 0: any free one.")
    amqp_url: str = Field("", description="URL of RabbitMQ; empty only inside the all-in-one process.")
    mongodb_url: str = Field("", description="URL of MongoDB; empty only inside the all-in-one process.")
    api_key_pepper: str = Field(
        "", repr=False, description="Secret that API keys are hashed with; the same in all processes that check keys."
    )
    control_secret: str = Field(
        "", repr=False, description="Secret that signs control messages; empty: derived from the pepper."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Minimum level that is logged.")
    log_style: LogStyle = Field("console", description="Format of log lines: console or json.")

    model_aliases: str = Field(
        "", description='TOML file of model aliases: a table [aliases] of `name = "model"`; read at start-up.'
    )
    moderation_rules: str = Field(
        "",
        description="TOML file of moderation: words and expressions by category, thresholds, and labels of models; "
        "read at start-up.",
    )
    limits_per_key: str = Field(
        "2000 concurrent",
        description="Default rate limits of every API key: any of `60 requests/minute, 90000 tokens/minute, "
        "1000 requests/day, 20 concurrent`; `headrace limits` sets others for one key.",
    )
    limits_per_person: str = Field(
        "",
        description="Rate limits of every user of an organisation, over all API keys and chats, which its "
        "administrators can lower; `headrace limits --person` sets others for one.",
    )
    limits_per_organisation: str = Field(
        "",
        description="Rate limits of every organisation, over all its projects; `headrace limits` sets others for one.",
    )
    limits_per_project: str = Field(
        "",
        description="Rate limits of every project, over all models, which its administrators can lower; "
        "`headrace limits` sets others for one project.",
    )
    limits_per_model: str = Field("", description="The same of every project for each model.")
    max_strangers: PositiveInt = Field(
        2048,
        description="Maximum number of unauthenticated connections per address; not counted behind trusted proxies.",
    )
    max_choices: int = Field(16, ge=1, le=128, description="Maximum `n` of a request.")
    default_max_tokens: PositiveInt = Field(
        4096,
        description="Maximum number of generated tokens where a request sets none; credit is held for that many.",
    )
    max_search_tokens: int = Field(
        131_072,
        ge=MAX_CANDIDATES,
        description="Maximum `test_time_compute.budget_tokens` of a request; the default where a search can use more.",
    )
    max_body_bytes: PositiveInt = Field(4 * 1024 * 1024, description="Maximum size of a request body in bytes.")
    body_timeout: PositiveFloat = Field(10.0, description="Seconds in which a request body must arrive.")
    max_request_seconds: PositiveFloat = Field(
        600.0, description="Maximum duration of a request in seconds, queueing included."
    )
    no_worker_timeout: PositiveFloat = Field(
        30.0, description="Seconds without replies and without a live worker after which a request fails."
    )
    max_wait: PositiveFloat = Field(
        10.0, description="Estimated queueing time in seconds above which a request is refused."
    )
    max_wait_flex: PositiveFloat = Field(60.0, description='The same for `service_tier: "flex"`.')
    max_loop_lag: PositiveFloat = Field(
        0.2, description="Sustained event loop lag in seconds above which requests are refused."
    )
    header_delay: float = Field(
        1.0, ge=0, description="Maximum seconds that a stream's status line waits for the worker's first reply."
    )
    ping_interval: PositiveFloat = Field(
        1.0, description="Seconds without an event after which a comment keeps a stream open."
    )
    send_timeout: PositiveFloat = Field(
        30.0, description="Seconds without progress after which a stream to a client that does not read is closed."
    )
    max_unread_bytes: PositiveInt = Field(
        1024 * 1024, description="Maximum bytes of text buffered for a client that reads too slowly."
    )
    registry_warmup: float = Field(
        1.5,
        ge=0,
        description="Seconds that a starting gateway collects heartbeats before it accepts requests; if none arrives, "
        "up to five times as long.",
    )
    embedding_model: str = Field(
        "",
        description="Embedding model of new vector stores; empty: the only embedding model that is served.",
    )
    rerank_model: str = Field(
        "",
        description="Model with the task `score` that ranks the passages of searches again, those of the chat too, "
        "unless a request names another `ranker`; empty: none.",
    )
    ocr_languages: str = Field(
        "",
        pattern=r"^([A-Za-z0-9_]{1,32}(\+[A-Za-z0-9_]{1,32}){0,7})?$",
        description="Languages of text that Tesseract recognises in scanned pages, by its names, such as `eng+deu`; "
        "empty: those of `eng` and `pol` that are installed; `none`: text is not recognised.",
    )
    max_background_seconds: PositiveFloat = Field(
        3600.0, description="Maximum duration of a background response in seconds, queueing included."
    )
    shutdown_grace: float = Field(
        DEFAULT_TIMINGS.drain_grace,
        ge=0,
        description="Grace period in seconds for running requests when the gateway stops.",
    )

    @field_validator(
        "limits_per_key", "limits_per_person", "limits_per_organisation", "limits_per_project", "limits_per_model"
    )
    @classmethod
    def _are_limits(cls, text: str) -> str:
        parse_limits(text)
        return text

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, text: str) -> str:
        for origin in text.split(","):
            if text not in ("", "*") and not _ORIGIN.fullmatch(origin.strip()):
                raise ValueError(f"{origin.strip()!r} is not an origin such as https://app.example")
        return text

    @property
    def allowed_origins(self) -> list[str]:
        """Origins whose pages may call the API from browsers."""
        return [origin.strip() for origin in self.cors_origins.split(",") if origin.strip()]

    @property
    def max_waits(self) -> dict[ServiceClass, float]:
        """Maximum estimated queueing time in seconds, by service class; requests that would wait longer are refused."""
        flex = max(self.max_wait, self.max_wait_flex)
        return {each: flex if each is ServiceClass.FLEX else self.max_wait for each in ServiceClass}

    @property
    def default_limits(self) -> dict[SubjectKind, Limits]:
        """Operator's rate limits by kind of subject, which hold for a subject without limits of its own."""
        texts = {
            SubjectKind.KEY: self.limits_per_key,
            SubjectKind.PERSON: self.limits_per_person,
            SubjectKind.ORGANISATION: self.limits_per_organisation,
            SubjectKind.PROJECT: self.limits_per_project,
            SubjectKind.MODEL: self.limits_per_model,
        }
        return {kind: parse_limits(text) for kind, text in texts.items()}
