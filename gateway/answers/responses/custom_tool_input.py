"""Reads the input of a custom tool's call out of the arguments of the function that stands for the tool."""

from __future__ import annotations

import json
import re

from gateway.openai.responses.tools import CUSTOM_INPUT

_BEGIN = re.compile(rf'\s*\{{\s*"{CUSTOM_INPUT}"\s*:\s*"')
_WHOLE = re.compile(r'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
"""Whole characters of a JSON string."""
_HIGH_SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})$")


class CustomToolInput:
    """Decodes the only argument of a call, a JSON string, while the call's arguments arrive in pieces."""

    def __init__(self) -> None:
        self._unread = ""
        self._begun = self._ended = False

    def take(self, arguments: str) -> str:
        """Add a piece of the arguments; return the text that it adds to the input, as far as characters are whole."""
        self._unread += arguments
        if not self._begun:
            if (begin := _BEGIN.match(self._unread)) is None:
                return ""
            self._begun, self._unread = True, self._unread[begin.end() :]
        if self._ended:
            return ""
        match = _WHOLE.match(self._unread)
        encoded = match[0] if match is not None else ""
        self._ended = self._unread[len(encoded) : len(encoded) + 1] == '"'
        if not self._ended and (pair := _HIGH_SURROGATE.search(encoded)) is not None:
            encoded = encoded[: pair.start(1)]  # the other half of the character follows
        self._unread = self._unread[len(encoded) :]
        return str(json.loads(f'"{encoded}"'))

    def rest(self) -> str:
        """Return the arguments as they are if they are no object with an input, which only a free call can be."""
        return "" if self._begun else self._unread
