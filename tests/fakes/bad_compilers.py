"""Compilers of grammars that do what only a limit of the operating system can end. Picklable, and light to import."""

from __future__ import annotations

import os

from inference_worker.structured import trial_process
from inference_worker.structured.compiler import GrammarCompiler
from inference_worker.structured.matcher import Matcher
from router.messages import Grammar


class Endless(GrammarCompiler):
    """Takes for ever."""

    def __init__(self) -> None:
        """Nothing to prepare."""

    def matcher(self, grammar: Grammar) -> Matcher:
        while True:
            pass


class Greedy(Endless):
    """Takes more memory than it may."""

    def matcher(self, grammar: Grammar) -> Matcher:
        bytearray(2 * trial_process.MEMORY)
        raise AssertionError


class Crashing(Endless):
    """As a fault in native code would."""

    def matcher(self, grammar: Grammar) -> Matcher:
        os.abort()
