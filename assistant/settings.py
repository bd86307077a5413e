"""Defines the settings of an assistant process (broker, store, catalogue, logs), from environment and command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from router.timings import DEFAULT_TIMINGS
from router.topology import check_worker_id
from runtime.logging import LogStyle


class AssistantSettings(BaseSettings):
    """Settings of an assistant process: environment variables `HEADRACE_...`, overridden by the command line."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    amqp_url: str = Field(default="", repr=False, description="URL of RabbitMQ; empty only in the all-in-one process")
    control_secret: str = Field(
        default="",
        repr=False,
        description="Shared secret that signs control messages, the same as the gateways'; required with RabbitMQ",
    )
    mongodb_url: str = Field(
        default="",
        repr=False,
        description="URL of MongoDB (or the embedded store), which lists stored images; empty: no tool draws",
    )
    assistant_config: Path | None = Field(
        default=None,
        description="TOML file with the assistants; without it one, `assistant`, with mathematics and images",
    )
    assistant_id: Annotated[str, AfterValidator(check_worker_id)] = Field(
        default="assistant-1", description="Id of this assistant, unique on its broker"
    )
    drain_grace: float = Field(
        default=DEFAULT_TIMINGS.drain_grace,
        ge=0,
        description="Seconds that running jobs may take to finish when draining",
    )
    no_worker_timeout: float = Field(
        default=30.0, gt=0, description="Seconds without a live worker after which a silent call of a model fails"
    )
    ops_host: str = Field(
        default="127.0.0.1", description="Address of /metrics, /healthz and /status; never make it public"
    )
    ops_port: int = Field(default=0, ge=0, le=65535, description="Port of that server; 0: any free port")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Minimum log level")
    log_style: LogStyle = Field(
        default="console", description="Log format: console for people, json for log collectors"
    )
