"""Leaves the calls of an assistant's own tools out of an answer: its client knows its own functions only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assistant.routing.function_prompt import function_name
from assistant.tools.tool import Tool
from router.messages import Delta


class OwnCalls:
    """Calls of own tools in one answer. Give each of its deltas to `left_out`, in order."""

    def __init__(self, tools: Sequence[Tool], functions: Sequence[Mapping[str, Any]]) -> None:
        """`tools` are offered beside the client's `functions`; without such functions every call is left out."""
        self._own = {function_name(each.name) for each in tools}
        self._has_functions = bool(functions)
        self._indexes: set[int] = set()
        """Indexes of calls that are left out."""
        self._kept_any = False

    def left_out(self, delta: Delta) -> Delta:
        """Return a delta without parts of calls of own tools; an answer that ends by such calls alone just stops."""
        calls = delta.tool_calls or []
        self._indexes |= {call.index for call in calls if call.name and self._is_own(call.name)}
        kept = [call for call in calls if self._has_functions and call.index not in self._indexes]
        self._kept_any = self._kept_any or bool(kept)
        ends = delta.finish_reason == "tool_calls" and not self._kept_any and (self._indexes or not self._has_functions)
        return msgspec.structs.replace(
            delta, tool_calls=kept or None, finish_reason="stop" if ends else delta.finish_reason
        )

    def _is_own(self, name: str) -> bool:
        return not self._has_functions or name in self._own
