"""Validates responses of the chat API against its own OpenAPI document."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.chat_ui.chat_clients import Person

DOCUMENT = Path(__file__).parents[2] / "chat_ui" / "web" / "openapi.json"


class DescribedPerson(Person):
    """A user for whom every response is validated; undocumented fields are errors."""

    async def call(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer = await super().call(method, path, body, status=status)
        check(method, path.partition("?")[0], status, answer)
        return answer


def check(method: str, path: str, status: int, answer: Any) -> None:
    """Require that a response matches its description."""
    document, template = _document(), _template(path)
    responses = document["paths"][template][method.lower()]["responses"]
    content = (responses.get(str(status)) or responses[f"{status // 100}XX"]).get("content")
    if content is None:
        assert answer is None, f"{method} {template}"
        return
    schema = {**content["application/json"]["schema"], "components": document["components"]}
    Draft202012Validator(schema).validate(answer)


@cache
def _document() -> Any:
    """Return the document with `additionalProperties: false` in all objects."""
    document = json.loads(DOCUMENT.read_text())
    for schema in document["components"]["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    return document


def _template(path: str) -> str:
    """Return the path template that matches; literal segments have precedence over parameters."""
    templates = sorted(_document()["paths"], key=lambda each: each.count("{"))
    return next(each for each in templates if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", each), f"/api{path}"))
