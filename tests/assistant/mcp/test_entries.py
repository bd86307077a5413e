"""Entries of MCP servers in the catalogue file: one transport each, and secrets from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.catalogue import Catalogue, mcp_secrets, read
from runtime.lifecycle import StartupError

MODEL = """
[models.helper]
tools = ["math", "mcp.shop.search"]
routing = { way = "function" }
"""
SHOP = """
[mcp.shop]
url = "https://shop.example/mcp"
token_env = "SHOP_TOKEN"
tools = ["search"]
"""


def catalogue(tmp_path: Path, text: str) -> Catalogue:
    path = tmp_path / "assistant.toml"
    path.write_text(text)
    return read(path)


def test_a_person_consents_unless_the_operator_does(tmp_path: Path) -> None:
    found = catalogue(tmp_path, MODEL + SHOP)
    assert found.mcp["shop"].consent == "person"
    assert mcp_secrets(found, {"SHOP_TOKEN": " secret\n", "OTHER": "x"}) == {"SHOP_TOKEN": "secret"}


@pytest.mark.parametrize(
    "environment", [{}, {"SHOP_TOKEN": " "}, {"SHOP_TOKEN": "a\nb"}], ids=["none", "empty", "lines"]
)
def test_a_token_has_to_be_there(tmp_path: Path, environment: dict[str, str]) -> None:
    with pytest.raises(StartupError, match="SHOP_TOKEN"):
        mcp_secrets(catalogue(tmp_path, MODEL + SHOP), environment)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (MODEL, "no \\[mcp\\] table permits"),
        (MODEL.replace("function", "classifier") + SHOP, "a classifier chooses no MCP tools"),
        (MODEL + SHOP + 'command = ["a"]', "either"),
        (MODEL + SHOP.replace("url = ", "# "), "either"),
        (MODEL + SHOP + 'env = ["A"]', "`env` is for"),
        (MODEL + SHOP.replace("url =", "command = ['a'] #"), "are for a `url`"),
        (MODEL + SHOP + 'fingerprints = { other = "' + "0" * 64 + '" }', "which `tools` lacks"),
        (MODEL + SHOP.replace("[mcp.shop]", "[mcp.'a.b']"), "mcp"),
    ],
    ids=["no entry", "classifier", "two transports", "no transport", "env", "token", "fingerprint", "name"],
)
def test_entries_that_contradict_themselves_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(StartupError, match=problem):
        catalogue(tmp_path, text)
