"""What an operator can set about people in browsers. Read once at start-up by the process that serves them."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from auth_billing.people.throttle import PER_MINUTE


class ChatSettings(BaseSettings):
    """Settings of signing in (`HEADRACE_…`); the gateway's process reads them beside its own."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    session_signing_keys: str = Field(
        "",
        repr=False,
        description="Keys of browser sessions, written ID:SECRET, at most two with a comma between; the first signs; "
        "the same in all gateways; by default one that is made in the home",
    )
    open_sign_up: bool = Field(
        False, description="Whether anybody may sign up, with an organisation of his own that has no credit"
    )
    sign_ins_per_minute: int = Field(
        PER_MINUTE, ge=1, le=100_000, description="Tries to sign in per account, and per address, in all gateways"
    )
    console_url: str = Field(
        "",
        pattern=r"^(https?://\S+)?$",
        description="Address of the RabbitMQ console, shown to administrators; empty: none is shown",
    )
