"""Settings of the launchers `headrace serve` and `headrace up`, from environment variables and the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.home.home import Home
from infra.install.models import MODEL_FILE


class LauncherSettings(BaseSettings):
    """Settings of `serve` and `up`: environment variables `HEADRACE_...`, overridden by the command line."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    home: Path = Field(Path(".headrace"), description="Directory of models, data, logs, secrets and pid files")
    host: str = Field("127.0.0.1", description="Address that the API and the chat listen on")
    port: int = Field(8000, ge=1, le=65535, description="Port of the API and the chat")
    model: str = Field(
        "",
        description="Model to serve: a Hugging Face id, a folder with safetensors, or a .gguf file; "
        "by default the SmolLM2-135M-Instruct that `make setup` downloads",
    )
    device: str = Field(
        "cpu", pattern=r"^(cpu|cuda(:\d+)?)$", description="Device of the workers' engines: cpu, cuda or cuda:N"
    )
    model_aliases: str = Field("", description='TOML file of model aliases: a table [aliases] of `name = "model"`')
    proxy_config: str = Field(
        "", description="TOML file of the models of upstream providers; if set, a proxy is started too"
    )
    assistant: bool = Field(True, description="Whether to run the assistant, which answers with tools and the model")
    search: bool = Field(True, description="Whether workers also run searches for answers (test-time compute)")
    workers: int = Field(2, ge=1, le=64, description="Workers that `headrace up` starts")
    rabbitmq_port: int = Field(5672, ge=1, le=65535, description="Port of the private RabbitMQ node (`up`)")
    rabbitmq_console_port: int = Field(15672, ge=1, le=65535, description="Port of its management console (`up`)")
    log_level: str = Field("info", description="Minimum log level: debug, info, warning or error")
    log_style: Literal["console", "json"] = Field(
        "console", description="Log format: console for people, json for log collectors"
    )

    @property
    def folder(self) -> Home:
        """Home directory of the installation, with an absolute path."""
        return Home(self.home.expanduser().resolve())

    @property
    def url(self) -> str:
        """Base URL of the API and the chat, for clients on this machine."""
        reachable = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host  # noqa: S104 - compared, not bound
        return f"http://{reachable}:{self.port}"

    @property
    def model_or_default(self) -> str:
        """Name or path of the model to serve: the configured one, else the default model."""
        return self.model or str(self.folder.models / MODEL_FILE)
