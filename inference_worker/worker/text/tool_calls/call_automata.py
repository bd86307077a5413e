"""Recognises one tool call character by character: a JSON object, or a name before its arguments, `name[ARGS]{...}`.

    {"name": "weather", "arguments": {"city": "Łódź"}}
    weather[ARGS]{"city": "Łódź"}

They report where the arguments are without parsing them. `call_parser.py` handles the markup around calls.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Set

from inference_worker.worker.text.tool_calls.json_scanner import SPACE, JsonScanner

_ARGUMENTS = ("arguments", "parameters")
_STRINGS = ("name", "id", "type")
"""Keys with string values that a call may have besides its arguments."""
_MAX_HEAD = 128
"""Maximum characters of a name with its tags."""


class CallAutomaton(ABC):
    """Incremental recogniser of one tool call. Offsets are characters from the call's first one."""

    def __init__(self, names: Set[str]) -> None:
        self.name = ""
        """Name of the called function, one of those allowed; "" until it is known."""
        self.arguments_at = -1
        """Offset of the arguments, or -1 before they begin."""
        self.arguments_end = -1
        """Offset of the arguments' end, or -1 before it."""
        self.done = False
        self._names = names
        self._length = 0
        self._scanner = JsonScanner()

    @abstractmethod
    def push(self, character: str) -> bool:
        """Add one character; return false if the text is no tool call, or the call was complete before it.

        Each notation implements this method.
        """

    def skip(self, text: str, at: int) -> int:
        """Consume the characters of `text` from index `at` on that are certainly arguments, and return their number.

        Faster than `push` for each; 0 if the next character must be pushed.
        """
        count = self._scanner.skip(text, at) if self.arguments_at >= 0 and self.arguments_end < 0 else 0
        self._length += count
        return count


class JsonCall(CallAutomaton):
    """Recogniser of a tool call as a JSON object with string values and arguments; the arguments may be missing."""

    def __init__(self, names: Set[str]) -> None:
        super().__init__(names)
        self._keys: list[str] = []
        self._read: list[str] = []
        self._step: Callable[[str], bool] = self._open

    def push(self, character: str) -> bool:
        """Add a character of a call in JSON; return false if the text is no such call, or was complete before."""
        taken = not self.done and self._step(character)
        self._length += 1
        return taken

    def _open(self, character: str) -> bool:
        self._step = self._before_key
        return character == "{"

    def _before_key(self, character: str) -> bool:
        return character in SPACE or (character == '"' and self._begin(character, self._in_key))

    def _in_key(self, character: str) -> bool:
        if not self._scan(character):
            return False
        if self._scanner.done:
            key = json.loads("".join(self._read))
            key = "arguments" if key in _ARGUMENTS else key
            if key in self._keys or key not in ("arguments", *_STRINGS):
                return False
            self._keys.append(key)
            self._step = self._colon
        return True

    def _colon(self, character: str) -> bool:
        if character == ":":
            self._step = self._before_arguments if self._keys[-1] == "arguments" else self._before_string
            return True
        return character in SPACE

    def _before_string(self, character: str) -> bool:
        return character in SPACE or (character == '"' and self._begin(character, self._in_string))

    def _in_string(self, character: str) -> bool:
        if not self._scan(character):
            return False
        if self._scanner.done:
            self._step = self._after
            if self._keys[-1] == "name":
                self.name = json.loads("".join(self._read))
                return self.name in self._names
        return True

    def _before_arguments(self, character: str) -> bool:
        if character != "{":
            return character in SPACE
        self.arguments_at = self._length
        return self._begin(character, self._in_arguments)

    def _in_arguments(self, character: str) -> bool:
        taken = self._scanner.push(character)
        if self._scanner.done:
            self.arguments_end = self._length + 1
            self._step = self._after
        return taken

    def _after(self, character: str) -> bool:
        if character == "}":
            self.done = True
            return bool(self.name)
        if character == ",":
            self._step = self._before_key
            return True
        return character in SPACE

    def _begin(self, character: str, then: Callable[[str], bool]) -> bool:
        self._scanner, self._read, self._step = JsonScanner(), [character], then
        return self._scanner.push(character)

    def _scan(self, character: str) -> bool:
        self._read.append(character)
        return self._scanner.push(character)


class NamedCall(CallAutomaton):
    """Recogniser of a tool call as a name, an optional `[CALL_ID]...`, an optional `[ARGS]`, and the arguments."""

    def __init__(self, names: Set[str]) -> None:
        super().__init__(names)
        self._head = ""

    def push(self, character: str) -> bool:
        """Add a character of a call by name; return false if the text is no such call, or was complete before."""
        self._length += 1
        if self.arguments_at < 0:
            return self._arguments(character) if character == "{" else self._in_head(character)
        taken = self._scanner.push(character)
        if self._scanner.done and taken:
            self.arguments_end, self.done = self._length, True
        return taken

    def _in_head(self, character: str) -> bool:
        self._head += character
        return len(self._head) <= _MAX_HEAD and (character.isalnum() or character in "_-[] \n")

    def _arguments(self, character: str) -> bool:
        name, *tags = self._head.split("[")
        self.name = name.strip()
        self.arguments_at = self._length - 1
        tags_fit = all(tag.startswith(("CALL_ID]", "ARGS]")) for tag in tags)
        return tags_fit and self.name in self._names and self._scanner.push(character)
