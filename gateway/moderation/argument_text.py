"""Decodes the arguments of tool calls while they arrive, so that escapes of JSON hide nothing from moderation."""

from __future__ import annotations

import json
import re

_INSIDE = re.compile(r'(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
"""Whole characters of a JSON string."""
_UNFINISHED = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
"""Beginning of an escape at the end of a text."""
_HIGH_SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})\Z")


class ArgumentText:
    """The text of one call's arguments: as it arrives, with the escapes in JSON strings decoded.

    Names and punctuation stay, and so do arguments that are not JSON.
    """

    def __init__(self) -> None:
        self._inside = False
        """Whether the next character is in a string."""
        self._unread = ""
        """Beginning of an escape, or half of an escaped character, whose rest has not arrived."""

    def take(self, arguments: str) -> str:
        """Return the text of the next piece of the arguments; the beginning of an escape follows with its rest."""
        text, self._unread = self._unread + arguments, ""
        read, at = [], 0
        while at < len(text):
            if self._inside:
                found, at = self._string(text, at)
            else:
                end = text.find('"', at)
                found, at = (text[at:], len(text)) if end < 0 else (text[at:end], end)
            read.append(found)
            if at < len(text):
                self._inside ^= text[at] == '"'
                read.append(text[at])
                at += 1
        return "".join(read)

    def _string(self, text: str, at: int) -> tuple[str, int]:
        """Return the decoded characters of a string from an index on, and the index after them.

        That is the string's end, the end of `text`, or a character that is no JSON.
        """
        match = _INSIDE.match(text, at)
        found, end = ("", at) if match is None else (match[0], match.end())
        if end == len(text) or _UNFINISHED.match(text, end):
            half = _HIGH_SURROGATE.search(found)
            whole = len(found) if half is None else half.start(1)
            self._unread, found, end = found[whole:] + text[end:], found[:whole], len(text)
        return str(json.loads(f'"{found}"', strict=False)), end
