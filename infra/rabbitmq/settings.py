"""Settings of the command `headrace rabbitmq-definitions`: the password of each broker user."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.rabbitmq import definitions


class BrokerSettings(BaseSettings):
    """Settings of `headrace rabbitmq-definitions`: environment variables `HEADRACE_RABBITMQ_..._PASSWORD`."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    rabbitmq_admin_password: str = Field(min_length=1, description="Password of RabbitMQ's administrator")
    rabbitmq_gateway_password: str = Field(min_length=1, description="Password of the gateways' RabbitMQ user")
    rabbitmq_billing_password: str = Field(min_length=1, description="Password of billing's RabbitMQ user")
    rabbitmq_worker_password: str = Field(min_length=1, description="Password of the workers' RabbitMQ user")
    rabbitmq_assistant_password: str = Field(min_length=1, description="Password of the assistants' RabbitMQ user")
    rabbitmq_proxy_password: str = Field(min_length=1, description="Password of the proxies' RabbitMQ user")
    rabbitmq_searcher_password: str = Field(
        min_length=1, description="Password of the RabbitMQ user of workers that run searches"
    )

    def passwords(self) -> dict[str, str]:
        """Return the configured password of each RabbitMQ user of the platform, by user name."""
        return {user: getattr(self, f"rabbitmq_{user}_password") for user in definitions.permissions()}
