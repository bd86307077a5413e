"""Arguments of tool calls, text in OpenAI's API, are objects in others."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.tool_arguments import tool_arguments


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        *(
            (wrong, {"INVALID_JSON": wrong})
            for wrong in ('{"a":', "[1]", "NaN", '{"a": NaN}', '{"a":"\\ud800"}', "[" * 99)
        ),
    ],
)
def test_arguments_are_an_object(arguments: str, expected: dict[str, Any]) -> None:
    assert tool_arguments(arguments) == expected
