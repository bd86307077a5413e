"""What an operator can set about a proxy process; which models it serves is in its catalogue (`catalogue.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.runtime.logging import LogStyle
from router.topology import check_worker_id


class ProxySettings(BaseSettings):
    """Settings of a proxy process: environment variables `HEADRACE_...`, overridden by the command line."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    amqp_url: str = Field(
        default="", repr=False, description="RabbitMQ to take jobs from; empty only in the all-in-one process"
    )
    control_secret: str = Field(
        default="",
        repr=False,
        description="Secret of control messages, as of the gateways; required with a broker",
    )
    proxy_config: Path = Field(description="TOML file that says which models are served by which upstreams")
    proxy_id: Annotated[str, AfterValidator(check_worker_id)] = Field(
        default="proxy-1", description="Name of this proxy, unique on its broker"
    )
    drain_grace: float = Field(
        default=120.0, ge=0, description="Seconds that running jobs may take to end when draining"
    )
    ops_host: str = Field(
        default="127.0.0.1", description="Address of /metrics, /healthz and /status; never make it public"
    )
    ops_port: int = Field(default=0, ge=0, le=65535, description="Port of that server; 0: any free one")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged"
    )
    log_style: LogStyle = Field(default="console", description="Logs for people or for machines")
