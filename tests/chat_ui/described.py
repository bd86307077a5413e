"""What our own OpenAPI document says of each call of the chat's API, to hold answers against."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.chat_ui.chatting import Person

DOCUMENT = Path(__file__).parents[2] / "chat_ui" / "web" / "openapi.json"


class DescribedPerson(Person):
    """Somebody whose every answer must be as the document describes it, with nothing more in it."""

    async def call(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer = await super().call(method, path, body, status=status)
        check(method, path.partition("?")[0], status, answer)
        return answer


def check(method: str, path: str, status: int, answer: Any) -> None:
    """See that an answer is a described one."""
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
    """With closed objects: what is not described is not there."""
    document = json.loads(DOCUMENT.read_text())
    for schema in document["components"]["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    return document


def _template(path: str) -> str:
    """The described path that this is one of; what is spelled out counts before what is filled in."""
    templates = sorted(_document()["paths"], key=lambda each: each.count("{"))
    return next(each for each in templates if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", each), f"/api{path}"))
