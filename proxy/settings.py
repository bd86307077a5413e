"""Settings of a proxy process from environment variables; the models that it serves are in its catalogue file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from router.timings import DEFAULT_TIMINGS
from router.topology import check_worker_id
from runtime.logging import LogStyle


class ProxySettings(BaseSettings):
    """Settings of a proxy process: environment variables `HEADRACE_...`, overridden by the command line."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    amqp_url: str = Field(default="", repr=False, description="URL of RabbitMQ; empty only in the all-in-one process")
    control_secret: str = Field(
        default="",
        repr=False,
        description="Shared secret that signs control messages, the same as the gateways'; required with RabbitMQ",
    )
    proxy_config: Path = Field(description="TOML file with the served models and their upstreams")
    proxy_id: Annotated[str, AfterValidator(check_worker_id)] = Field(
        default="proxy-1", description="Id of this proxy, unique on its broker"
    )
    drain_grace: float = Field(
        default=DEFAULT_TIMINGS.drain_grace,
        ge=0,
        description="Seconds that running jobs may take to finish when draining",
    )
    ops_host: str = Field(
        default="127.0.0.1", description="Address of /metrics, /healthz and /status; never make it public"
    )
    ops_port: int = Field(default=0, ge=0, le=65535, description="Port of that server; 0: any free port")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Minimum log level")
    log_style: LogStyle = Field(
        default="console", description="Log format: console for people, json for log collectors"
    )
