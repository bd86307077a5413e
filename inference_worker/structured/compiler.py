"""From a grammar of the wire to a matcher.

Compiling is lazy and fast: about a millisecond, whatever the schema; its automaton grows while it is used. The limits
here bound both, in steps of work and not in seconds, so that a grammar is refused on every machine or on none.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection
from weakref import WeakValueDictionary

import llguidance

from inference_worker.errors import UnsupportedModel
from inference_worker.structured.errors import GrammarRejected
from inference_worker.structured.matcher import Compiled, Matcher, one_line
from inference_worker.structured.open_objects import closed
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
"""About 20 ms to compile, 7 ms for one mask, and 40 MB for the automaton, at the very most."""

JSON_OPTIONS = {"whitespace_pattern": r"\n[ \t]{0,40}| "}
"""Between two parts of a JSON text: nothing, a space, or a line break and an indentation. Without a bound a model that
has lost its way writes white space until its tokens are used up."""


HEADER = '%llguidance {"no_forcing": true}\n'
"""Text that a grammar leaves no choice about may be written in any tokens: the model picks among them as always."""


class GrammarCompiler:
    """Compiles for one vocabulary. Equal grammars in use at the same time share one automaton.

    Nothing is kept of a grammar that is not in use: memory is bounded by the sequences that run. Use from any thread.
    """

    def __init__(self, vocabulary: Vocabulary, width: int, eos_token_ids: Collection[int]) -> None:
        """See `vocabulary.trie`.

        Raises:
            UnsupportedModel: the model has no end of sequence.
        """
        if not eos_token_ids:
            raise UnsupportedModel("no token ends a sequence")
        self._ends = frozenset(eos_token_ids)
        self._trie = trie(vocabulary, width, eos_token_ids)
        self._in_use: WeakValueDictionary[Grammar, Compiled] = WeakValueDictionary()
        self._lock = threading.Lock()

    def matcher(self, grammar: Grammar) -> Matcher:
        """A matcher at the beginning.

        Raises:
            GrammarRejected: it can't be compiled within the limits.
        """
        with self._lock:
            compiled = self._in_use.get(grammar)
        if compiled is None:
            compiled = self._compile(grammar)
            with self._lock:
                self._in_use[grammar] = compiled
        return compiled.matcher()

    def _compile(self, grammar: Grammar) -> Compiled:
        inner = llguidance.LLMatcher(self._trie, _source(grammar), log_level=0, limits=LIMITS)
        # The first mask is the most work: a grammar that can't pay for it is refused before anything is generated.
        if not inner.is_error():
            inner.compute_bitmask()
        if inner.is_error():
            raise GrammarRejected(one_line(inner.get_error()))
        return Compiled(inner, self._ends)


def _source(grammar: Grammar) -> str:
    """In the library's own notation, which is Lark's with JSON schemas in it."""
    library = llguidance.LLMatcher
    try:
        return library.grammar_from_lark(HEADER + _rules(grammar))
    except (ValueError, RecursionError) as error:
        raise GrammarRejected(one_line(str(error))) from error


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
            return source


def _of_schema(schema: object) -> str:
    if not isinstance(schema, dict):
        raise GrammarRejected("a schema must be a JSON object")
    return "start: %json " + json.dumps({**closed(schema), "x-guidance": JSON_OPTIONS})
