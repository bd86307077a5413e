"""Compiles the grammar of a request's structured output to a matcher, which says which tokens are allowed next.

Compiling is lazy and takes about a millisecond for any schema; the automaton grows while it is used. The limits here
bound both, in steps of work instead of seconds, so that all machines reject the same grammars.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection
from weakref import WeakValueDictionary

import llguidance

from inference_worker.errors import GrammarRejected, UnsupportedModel
from inference_worker.structured.additional_properties import forbid_additional_properties
from inference_worker.structured.json_text_grammar import expanded
from inference_worker.structured.matcher import CompiledGrammar, Matcher, error_summary
from inference_worker.structured.vocabulary import Vocabulary, trie
from router.messages import Grammar, GrammarKind

LIMITS = llguidance.LLParserLimits(
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=100_000,
    step_max_items=20_000,
    max_items_in_row=1_000,
    max_lexer_states=20_000,
    max_grammar_size=200_000,
    verbose_errors=False,
)
"""Bounds of about 20 ms to compile, 7 ms per mask, and 40 MB for the automaton."""

JSON_OPTIONS = {"whitespace_pattern": r"\n[ \t]{0,40}| "}
"""White space between two JSON tokens: none, a space, or a line break and an indentation. Without a bound, a confused
model writes white space until its tokens are used up."""


HEADER = '%llguidance {"no_forcing": true}\n'
"""Lets the model sample also where only one text is possible, since it may be tokenised in several ways."""


class GrammarCompiler:
    """Compiler of grammars for one model's vocabulary. Equal grammars in use at the same time share one automaton.

    Unused grammars are not cached, so the running sequences bound the memory. Thread-safe.
    """

    def __init__(self, vocabulary: Vocabulary, width: int, eos_token_ids: Collection[int]) -> None:
        """Index the vocabulary; arguments as for `vocabulary.trie`.

        Raises:
            UnsupportedModel: the model has no end-of-sequence token.
        """
        if not eos_token_ids:
            raise UnsupportedModel("no token ends a sequence")
        self._end_token_ids = frozenset(eos_token_ids)
        self._trie = trie(vocabulary, width, eos_token_ids)
        self._in_use: WeakValueDictionary[Grammar, CompiledGrammar] = WeakValueDictionary()
        self._lock = threading.Lock()

    def matcher(self, grammar: Grammar) -> Matcher:
        """Compile a grammar and return a new matcher at its start; an equal grammar in use is not compiled again.

        Raises:
            GrammarRejected: the grammar is invalid or exceeds the limits.
        """
        with self._lock:
            compiled = self._in_use.get(grammar)
        if compiled is None:
            compiled = self._compile(grammar)
            with self._lock:
                self._in_use[grammar] = compiled
        return compiled.matcher()

    def _compile(self, grammar: Grammar) -> CompiledGrammar:
        inner = llguidance.LLMatcher(self._trie, _source(grammar), log_level=0, limits=LIMITS)
        # The first mask takes the most work: compute it to reject a grammar that exceeds the limits right away.
        if not inner.is_error():
            inner.compute_bitmask()
        if inner.is_error():
            raise GrammarRejected(error_summary(inner.get_error()))
        return CompiledGrammar(inner, self._end_token_ids)


def _source(grammar: Grammar) -> str:
    """Return the grammar in llguidance's notation: Lark with embedded JSON schemas."""
    library = llguidance.LLMatcher
    try:
        return library.grammar_from_lark(HEADER + _rules(grammar))
    except (ValueError, RecursionError) as error:
        raise GrammarRejected(error_summary(str(error))) from error


def _rules(grammar: Grammar) -> str:
    source = grammar.source
    match grammar.kind:
        case GrammarKind.JSON_OBJECT:
            return _of_schema({"type": "object"})
        case GrammarKind.JSON_SCHEMA:
            return _of_schema(json.loads(source))
        case GrammarKind.REGEX:
            return f"start: /{llguidance.regex_to_lark(source)}/"
        case GrammarKind.CHOICE:
            return "start: " + " | ".join(json.dumps(choice, ensure_ascii=False) for choice in json.loads(source))
        case GrammarKind.LARK:
            return expanded(source)


def _of_schema(schema: object) -> str:
    if not isinstance(schema, dict):
        raise GrammarRejected("a schema must be a JSON object")
    return "start: %json " + json.dumps({**forbid_additional_properties(schema), "x-guidance": JSON_OPTIONS})
