"""Validates one JSON value (RFC 8259) in generated text, such as a call's arguments, character by character.

Takes constant time per character even for hostile text: no recursion, no backtracking, bounded nesting.
"""

from __future__ import annotations

import re
from collections.abc import Callable

SPACE = " \t\n\r"
MAX_DEPTH = 128

_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPES = '"\\/bfnrt'
_HEX = "0123456789abcdefABCDEF"
_LITERALS = {"t": "rue", "f": "alse", "n": "ull"}
_DIGITS = "0123456789"
_NUMBER: dict[str, tuple[tuple[str, str], ...]] = {
    "-": (("0", "zero"), (_DIGITS, "integer")),
    "zero": ((".", "point"), ("eE", "e")),
    "integer": ((_DIGITS, "integer"), (".", "point"), ("eE", "e")),
    "point": ((_DIGITS, "fraction"),),
    "fraction": ((_DIGITS, "fraction"), ("eE", "e")),
    "e": (("+-", "sign"), (_DIGITS, "exponent")),
    "sign": ((_DIGITS, "exponent"),),
    "exponent": ((_DIGITS, "exponent"),),
}
_NUMBER_MAY_END = frozenset({"zero", "integer", "fraction", "exponent"})


class JsonScanner:
    """Incremental validator of one JSON object, array or string; `done` once the value is complete."""

    def __init__(self) -> None:
        self.done = False
        self._closers: list[str] = []
        self._step: Callable[[str], bool] = self._value
        self._in_key = False
        self._rest = ""
        """Expected rest of a literal, or one character per missing hexadecimal digit of an escape."""
        self._number = ""

    def push(self, character: str) -> bool:
        """Add one character; return false if the JSON value is invalid with it, or was complete before it."""
        return not self.done and self._step(character)

    def skip(self, text: str, at: int) -> int:
        """Consume the characters of `text` from index `at` that are certainly in a JSON string; return their number."""
        return _PLAIN.match(text, at).end() - at if self._step == self._in_string else 0  # type: ignore[union-attr]

    # Before a value

    def _value(self, character: str) -> bool:
        if character in SPACE:
            return True
        if character == "{":
            return self._open("}", self._first_key)
        if character == "[":
            return self._open("]", self._first_item)
        if character == '"':
            return self._string(key=False)
        return bool(self._closers) and self._scalar(character)

    def _scalar(self, character: str) -> bool:
        if character in _LITERALS:
            self._rest, self._step = _LITERALS[character], self._literal
            return True
        if character not in "-" + _DIGITS:
            return False
        self._number = {"-": "-", "0": "zero"}.get(character, "integer")
        self._step = self._in_number
        return True

    def _open(self, closer: str, then: Callable[[str], bool]) -> bool:
        self._closers.append(closer)
        self._step = then
        return len(self._closers) <= MAX_DEPTH

    def _first_item(self, character: str) -> bool:
        return self._close() if character == "]" else self._value_after_space(character, self._first_item)

    def _value_after_space(self, character: str, here: Callable[[str], bool]) -> bool:
        self._step = here if character in SPACE else self._step
        return self._value(character)

    def _first_key(self, character: str) -> bool:
        return self._close() if character == "}" else self._key(character)

    def _key(self, character: str) -> bool:
        return character in SPACE or (character == '"' and self._string(key=True))

    def _colon(self, character: str) -> bool:
        if character == ":":
            self._step = self._value
            return True
        return character in SPACE

    # Within a value

    def _string(self, *, key: bool) -> bool:
        self._in_key, self._step = key, self._in_string
        return True

    def _in_string(self, character: str) -> bool:
        if character == '"':
            return self._after_key() if self._in_key else self._after_value()
        if character == "\\":
            self._step = self._escape
        return character >= " "

    def _escape(self, character: str) -> bool:
        if character == "u":
            self._rest, self._step = "0000", self._hexadecimal
            return True
        self._step = self._in_string
        return character in _ESCAPES

    def _hexadecimal(self, character: str) -> bool:
        self._rest = self._rest[1:]
        if not self._rest:
            self._step = self._in_string
        return character in _HEX

    def _literal(self, character: str) -> bool:
        expected, self._rest = self._rest[0], self._rest[1:]
        return character == expected and (bool(self._rest) or self._after_value())

    def _in_number(self, character: str) -> bool:
        for characters, state in _NUMBER[self._number]:
            if character in characters:
                self._number = state
                return True
        return self._number in _NUMBER_MAY_END and self._after_value() and self._after(character)

    # After a value

    def _after_key(self) -> bool:
        self._step = self._colon
        return True

    def _after_value(self) -> bool:
        self._step = self._after
        self.done = not self._closers
        return True

    def _after(self, character: str) -> bool:
        if character == self._closers[-1]:
            return self._close()
        if character == ",":
            self._step = self._key if self._closers[-1] == "}" else self._value
            return True
        return character in SPACE

    def _close(self) -> bool:
        self._closers.pop()
        return self._after_value()
