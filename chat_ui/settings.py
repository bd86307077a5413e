"""Settings of browser sessions and sign-up, read once at start-up of the gateway process."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from auth_billing.people.throttle import PER_MINUTE


class ChatSettings(BaseSettings):
    """Settings of the web chat (`HEADRACE_…`), which the gateway process reads beside its own."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    session_signing_keys: str = Field(
        "",
        repr=False,
        description="Signing keys of browser sessions as ID:SECRET, at most two, separated by a comma; the first "
        "signs; the same in all gateways; by default one key is generated in the home directory",
    )
    chat_storage_mib: int = Field(
        1024,
        ge=1,
        le=2**30,
        description="MiB of conversations, messages and files that one person of the chat may store, imports included",
    )
    open_sign_up: bool = Field(
        False, description="Whether people may sign up uninvited, each with a new organisation without credit"
    )
    sign_ins_per_minute: int = Field(
        PER_MINUTE, ge=1, le=100_000, description="Sign-in attempts per account and per address, over all gateways"
    )
    console_url: str = Field(
        "",
        pattern=r"^(https?://\S+)?$",
        description="URL of the RabbitMQ console, shown to administrators; empty: not shown",
    )
