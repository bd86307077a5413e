"""Grammar compilers that only a limit of the operating system can stop. Picklable, and light to import."""

from __future__ import annotations

import os

from inference_worker.structured import sandbox_process
from inference_worker.structured.compiler import GrammarCompiler
from inference_worker.structured.matcher import Matcher
from router.messages import Grammar


class Endless(GrammarCompiler):
    """Never returns."""

    def __init__(self) -> None:
        """Skip the real compiler's initialisation."""

    def matcher(self, grammar: Grammar) -> Matcher:
        while True:
            pass


class Greedy(Endless):
    """Allocates more memory than the limit."""

    def matcher(self, grammar: Grammar) -> Matcher:
        bytearray(2 * sandbox_process.LIMITS.memory_bytes)
        raise AssertionError


class Crashing(Endless):
    """Aborts the process, as a fault in native code does."""

    def matcher(self, grammar: Grammar) -> Matcher:
        os.abort()
