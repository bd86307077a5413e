"""The tests of Anthropic's Python client for the resources that the gateway has, generated as those of OpenAI's."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from types import MappingProxyType

from tests.gateway.conftest import MODEL
from tests.suites.call import Call
from tests.suites.objects import Objects
from tests.suites.proxy import Preparation
from tests.suites.record import Expected
from tests.suites.scripts import count_or_tokenise
from tests.suites.sources import environment_of, source
from tests.suites.suite import API_RESOURCES, Environment, Suite, resource_of

TEST_REQUIREMENTS = ("http-snapshot[httpx]==0.1.9", "inline-snapshot==0.36.1", "respx==0.23.1", "rich==15.0.0")
"""What the tests import besides."""
FILES = ("test_messages.py", "test_models.py", "beta/test_messages.py", "beta/test_models.py")


async def _prompt(_objects: Objects, call: Call) -> None:
    """Name a served model; more tokens than its context has are not asked for."""
    if call.body is not None:
        call.body["model"] = MODEL
        if "max_tokens" in call.body:
            call.body["max_tokens"] = 16


async def _model(_objects: Objects, call: Call) -> None:
    call.ids["model_id"] = MODEL


async def _models(_objects: Objects, _call: Call) -> None:
    """Change nothing."""


PREPARATIONS: Mapping[str, Preparation] = MappingProxyType(
    {
        "POST /v1/messages": _prompt,
        "POST /v1/messages/count_tokens": _prompt,
        "GET /v1/models": _models,
        "GET /v1/models/{model_id}": _model,
    }
)
REFUSED: Expected = MappingProxyType(
    {
        "POST /v1/messages": ["container", "mcp_servers", "tools"],
        "POST /v1/messages/count_tokens": ["mcp_servers", "tools"],
    }
)
"""Fields that the gateway refuses in the tests' requests: what is not offered, and a schema that is none."""


def _environment() -> Environment:
    version = metadata.version("anthropic")
    tools = [f"{each}=={metadata.version(each)}" for each in ("pytest", "pytest-asyncio")]
    python = environment_of("anthropic", [f"anthropic[aiohttp]=={version}", *tools, *TEST_REQUIREMENTS])
    return Environment(source("anthropic"), str(python), version)


SUITE = Suite(
    name="anthropic-python",
    environment=_environment,
    files=[API_RESOURCES + each for each in FILES],
    script=count_or_tokenise,
    group=resource_of,
    base="",
    preparations=PREPARATIONS,
    expected=REFUSED,
)
