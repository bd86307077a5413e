"""Reads the settings of the billing process from environment variables and the command line, once at start-up."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from runtime.logging import LogStyle


class BillingSettings(BaseSettings):
    """Settings of the billing process: environment variables `HEADRACE_...`, overridden by the command line."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    amqp_url: str = Field(
        default="",
        repr=False,
        description="URL of RabbitMQ, the source of usage records and dead-lettered jobs; required",
    )
    mongodb_url: str = Field(default="", repr=False, description="URL of MongoDB (or the embedded store); required")
    price_file: str = Field(
        default="",
        description="TOML price file, reloaded when it changes, which locks the prices (docs/prices.md)",
    )
    proxy_config: str = Field(default="", description="Catalogue file of a proxy, whose models' prices are loaded too")
    alert_url: str = Field(
        default="",
        repr=False,
        description="URL of the webhook for alerts about low budgets and credit (docs/money.md)",
    )
    alert_secret: str = Field(
        default="", repr=False, description="Secret that signs the alerts: `whsec_` and base64, or any long text"
    )
    alert_thresholds: str = Field(
        default="50,80,100",
        pattern=r"^[1-9]\d{0,2}(,[1-9]\d{0,2})*$",
        description="Percentages of a monthly budget at which an alert is sent",
    )
    alert_credit: str = Field(default="5", description="USD of credit below which an alert is sent; 0: never")
    ops_host: str = Field(
        default="127.0.0.1", description="Address of /metrics, /healthz and /status; never make it public"
    )
    ops_port: int = Field(default=9102, ge=0, le=65535, description="Port of /metrics, /healthz and /status")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Minimum log level")
    log_style: LogStyle = Field(
        default="console", description="Log format: console for people, json for log collectors"
    )
