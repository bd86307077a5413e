"""Extracts title and text of HTML pages in sandboxed processes, as parsing a malformed page can cost seconds."""

from __future__ import annotations

from assistant.tools.sandbox import ToolSandbox
from assistant.tools.sentences import Sentence
from assistant.tools.tool import ToolContext, Unavailable
from runtime.sandbox.limits import WorkLimits

WORK = "assistant.tools.html_text:work"
LIMITS = WorkLimits(
    memory_bytes=256 * 2**20,
    cpu_seconds=1.0,
    output_bytes=8 * 2**20,
    message_bytes=8 * 2**20,
    wait_seconds=8.0,
    busy_seconds=1.6,
)
"""Limits of reading one document. One of 1 MiB takes about 0.3 s of CPU time."""

_TOO_COSTLY = Sentence("This page is too complex to be read.", "Ta strona jest zbyt złożona, by ją odczytać.")
_UNREADABLE = Sentence("This page can't be read.", "Tej strony nie można odczytać.")


class PageReader:
    """Reads HTML documents in sandboxed processes. Close it at the end."""

    def __init__(self, limits: WorkLimits = LIMITS) -> None:
        self._sandbox = ToolSandbox(WORK, limits, too_costly=_TOO_COSTLY, unreadable=_UNREADABLE)

    async def read(self, document: str, context: ToolContext) -> tuple[str, str]:
        """Return the title and the visible text of an HTML document, extracted in a sandboxed process.

        Raises:
            TooLarge: reading it takes more than `LIMITS`.
            Unavailable: it can't be read.
        """
        found = await self._sandbox.run(document.encode("utf-8", "replace"), context)
        if len(found) != 2:
            raise Unavailable(_UNREADABLE)
        return found[0].decode(), found[1].decode()

    def close(self) -> None:
        """End the sandboxed processes that read documents."""
        self._sandbox.close()
