"""Runs clients' regular expressions on the answers of a search, with bounds on time and memory.

`regex` has a time limit but backtracks and keeps what each repetition matched, so constructs whose cost the limit does
not bound are rejected: references, look-around, recursion, fuzzy matching, and many or nested repetitions, which
`regex` writes out when it compiles a pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache

import regex

SEARCHED_CHARACTERS = 4096
"""Length of the end of a text that is searched."""
MATCH_TIMEOUT = 0.1
"""Seconds that all matches in all texts of a step may take, in a thread beside the worker's event loop."""
MAX_REPETITIONS = 1000
"""Largest product of the counts of a pattern's repetitions; a group that is repeated at least once counts twice."""
MAX_EXPANDED = 20_000
"""Most characters of a pattern times that product: a compiled pattern keeps about 100 bytes for each."""
KEPT_PATTERNS = 32
"""Compiled patterns that are kept."""

_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
"""An escape or a class."""
_SET_OPERATION = re.compile(r"\[|--|&&|~~|\|\|")
_GROUP_START = re.compile(r"\(\?(?!:|P<\w+>|i\))")
_BRACES = re.compile(r"\{([^}]*)\}")
_COUNT = re.compile(r"(\d{0,4})(?:,(\d{0,4}))?")


def is_supported(pattern: str) -> bool:
    """Return whether a client's pattern compiles and has only constructs whose time and memory are bounded."""
    return _compiled(pattern) is not None


def last_match(pattern: str, text: str, timeout: float = MATCH_TIMEOUT) -> str | None:
    """Return a client's regular expression's last match in the end of a text: its first group, else the whole match.

    `None` if there is no match, or the pattern is not supported.

    Raises:
        TimeoutError: the pattern took longer than `timeout` seconds.
    """
    if timeout <= 0:
        raise TimeoutError
    compiled = _compiled(pattern)
    if compiled is None:
        return None
    found: str | None = None
    # Another thread may run meanwhile.
    for match in compiled.finditer(text[-SEARCHED_CHARACTERS:], timeout=timeout, concurrent=True):
        found = match.group(1 if compiled.groups else 0)
    return found


@lru_cache(maxsize=KEPT_PATTERNS)
def _compiled(pattern: str) -> regex.Pattern | None:
    if not _is_bounded(pattern):
        return None
    try:
        re.compile(pattern)  # only what both libraries understand
        return regex.compile(pattern, regex.VERSION0, cache_pattern=False)
    except (re.error, regex.error, OverflowError, RecursionError, ValueError):
        return None


def _is_bounded(pattern: str) -> bool:
    for atom in _ATOM.findall(pattern):
        reference = atom[0] == "\\" and atom[1] in "123456789"
        if reference or (atom[0] == "[" and _SET_OPERATION.search(re.sub(r"\\.", "", atom[1:]))):
            return False
    plain = _ATOM.sub("a", pattern)
    repetitions = 2 ** plain.count(")+")
    for braces in _BRACES.findall(plain):
        if (count := _COUNT.fullmatch(braces)) is None:
            return False
        repetitions *= max(2, *(int(bound or 1) for bound in count.groups()))
    bounded = repetitions <= MAX_REPETITIONS and repetitions * len(pattern) <= MAX_EXPANDED
    return bounded and not _GROUP_START.search(plain)
