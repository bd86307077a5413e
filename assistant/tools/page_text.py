"""Reads HTML documents from outside in a sandbox: a malformed document can cost seconds of parsing."""

from __future__ import annotations

from contextlib import aclosing

from assistant.tools.sentences import Sentence
from assistant.tools.tool import TooLarge, Unavailable
from runtime.sandbox import process
from runtime.sandbox.limits import LimitExceeded, SandboxUnavailable, WorkFailed, WorkLimits

WORK = "assistant.tools.html_text:work"
LIMITS = WorkLimits(
    memory_bytes=256 * 2**20,
    cpu_seconds=1.0,
    output_bytes=8 * 2**20,
    message_bytes=8 * 2**20,
    wait_seconds=6.0,
)
"""Limits of reading one document. One of 1 MiB takes about 0.3 s of CPU time."""

_TOO_COSTLY = Sentence("This page is too complex to be read.", "Ta strona jest zbyt złożona, by ją odczytać.")
_UNREADABLE = Sentence("This page can't be read.", "Tej strony nie można odczytać.")
_NO_SANDBOX = Sentence(
    "Web pages can't be read safely on this installation.", "Na tej instalacji nie można bezpiecznie czytać stron."
)


async def read_html(document: str) -> tuple[str, str]:
    """Return the title and the visible text of an HTML document.

    Raises:
        TooLarge: reading it takes more than `LIMITS`.
        Unavailable: it can't be read.
    """
    try:
        async with aclosing(process.run(WORK, LIMITS, document.encode("utf-8", "replace"))) as messages:
            found = [message async for message in messages]
    except LimitExceeded as error:
        raise TooLarge(_TOO_COSTLY) from error
    except SandboxUnavailable as error:
        raise Unavailable(_NO_SANDBOX) from error
    except WorkFailed as error:
        raise Unavailable(_UNREADABLE) from error
    if len(found) != 2:
        raise Unavailable(_UNREADABLE)
    return found[0].decode(), found[1].decode()
