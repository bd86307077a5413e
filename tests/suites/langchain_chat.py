"""LangChain's standard integration tests of chat models, for its `ChatOpenAI` on both of OpenAI's APIs."""

from __future__ import annotations

from pathlib import Path

from tests.suites.scripts import oblige
from tests.suites.sources import environment_of
from tests.suites.suite import Environment, Suite

FOLDER = Path(__file__).parent / "langchain_standard"
REQUIREMENTS = ("langchain-openai==1.7.4", "langchain-tests==1.1.9")


def _environment() -> Environment:
    python = environment_of("langchain", REQUIREMENTS)
    return Environment(FOLDER, str(python), ", ".join(each.replace("==", " ") for each in REQUIREMENTS))


SUITE = Suite(
    name="langchain",
    environment=_environment,
    files=["-c", "pytest.ini", "--disable-recording", "chat_models.py"],
    script=oblige,
    group=lambda test: test.split("::")[1].removeprefix("Test"),
)
