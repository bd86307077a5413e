"""Settings of the billing process, read once at start-up."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.runtime.logging import LogStyle


class BillingSettings(BaseSettings):
    """Settings of the billing process: environment variables `HEADRACE_...`, overridden by the command line."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    amqp_url: str = Field(
        default="", repr=False, description="RabbitMQ to take usage records and dead jobs from; required"
    )
    mongodb_url: str = Field(
        default="", repr=False, description="MongoDB (or the embedded store) to keep them in; required"
    )
    price_file: str = Field(
        default="",
        description="TOML file of prices, read again when it changes (docs/prices.md); by default a cheap one",
    )
    proxy_config: str = Field(
        default="", description="The catalogue of a proxy: prices of its models are taken from it too"
    )
    alert_url: str = Field(
        default="",
        repr=False,
        description="Webhook that is told when a budget or the credit of an organisation runs low (docs/money.md)",
    )
    alert_secret: str = Field(
        default="", repr=False, description="What its messages are signed with: `whsec_` and base64, or any long text"
    )
    alert_thresholds: str = Field(
        default="50,80,100",
        pattern=r"^[1-9]\d{0,2}(,[1-9]\d{0,2})*$",
        description="Percentages of a monthly budget at which it is told",
    )
    alert_credit: str = Field(default="5", description="USD of credit below which it is told; 0: never")
    ops_host: str = Field(
        default="127.0.0.1", description="Address of /metrics, /healthz and /status; never make it public"
    )
    ops_port: int = Field(default=9102, ge=0, le=65535, description="Port of /metrics, /healthz and /status")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged"
    )
    log_style: LogStyle = Field(default="console", description="Logs for people or for machines")
