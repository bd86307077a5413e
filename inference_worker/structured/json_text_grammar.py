"""Translates Lark grammars of a text to grammars of the same text inside a JSON string, with its characters escaped.

A custom tool's input is such a text: the model writes it as the argument of a call. Only the usual subset of Lark is
translated: rules, terminals, strings, ranges, regular expressions without assertions and lazy repetition, repetition,
`%ignore`, and `%import` of the library `common`. Everything else is rejected by name.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from re import _constants as ops
from re import _parser as parser
from typing import Any

from inference_worker.errors import GrammarRejected

_DIRECTIVE = re.compile(r'^%json_text ([a-z][a-z0-9_]*) (".*")$', re.MULTILINE)
_TOKEN = re.compile(
    r"""
    (?P<space> [ \t\r]+ | (?://|\#)[^\n]* )
    | (?P<range> (?P<low>"(?:\\.|[^"\\\n])+") \s* \.\. \s* (?P<high>"(?:\\.|[^"\\\n])+") )
    | (?P<string> "(?:\\.|[^"\\\n])*" i? )
    | (?P<regex> /(?:\\.|[^/\\\n])+/ [a-z]* )
    | (?P<import> %import \s+ common \s* (?:
        \. \s* (?P<imported>\w+) (?: \s* -> \s* (?P<renamed>\w+) )? | \( (?P<several>[\w\s,]*) \) ) )
    | (?P<kept> %ignore\b | \n | [!?]?[a-zA-Z_]\w* | ~ \s* \d+ (?:\s*\.\.\s*\d+)? | \{ \s* \d* \s* (?:,\s*\d*\s*)? \}
        | [:|()\[\]?*+] )
    | (?P<alias> -> \s* \w+ )
    """,
    re.VERBOSE,
)
_FLAGS = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE, "x": re.VERBOSE, "u": re.UNICODE}
_COMMON = {
    "DIGIT": r"[0-9]",
    "HEXDIGIT": r"[a-fA-F0-9]",
    "INT": r"[0-9]+",
    "SIGNED_INT": r"[+-]?[0-9]+",
    "DECIMAL": r"[0-9]+\.[0-9]*|\.[0-9]+",
    "FLOAT": r"[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "SIGNED_FLOAT": r"[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
    "NUMBER": r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "SIGNED_NUMBER": r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\.)*"',
    "LCASE_LETTER": r"[a-z]",
    "UCASE_LETTER": r"[A-Z]",
    "LETTER": r"[A-Za-z]",
    "WORD": r"[A-Za-z]+",
    "CNAME": r"[_A-Za-z][_A-Za-z0-9]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "SQL_COMMENT": r"--[^\n]*",
}
"""Terminals of Lark's library `common`, as regular expressions."""

_ESCAPED = (*range(0x20), ord('"'), ord("\\"))
"""Characters that JSON escapes in strings."""
_SPACES = frozenset(range(9, 14))
_CLASSES = {
    ops.CATEGORY_DIGIT: (r"\d", frozenset[int]()),
    ops.CATEGORY_NOT_DIGIT: (r"\D", frozenset(_ESCAPED)),
    ops.CATEGORY_SPACE: (r"\s", _SPACES),
    ops.CATEGORY_NOT_SPACE: (r"\S", frozenset(_ESCAPED) - _SPACES),
    ops.CATEGORY_WORD: (r"\w", frozenset[int]()),
    ops.CATEGORY_NOT_WORD: (r"\W", frozenset(_ESCAPED)),
}
"""Predefined classes, and which of the escaped characters they have."""


def json_text(rule: str, definition: str) -> str:
    """Return a line of a grammar in Lark's notation: `rule` is the text of the grammar `definition`, JSON-escaped.

    The line is an extension, which `expanded` translates.
    """
    return f"%json_text {rule} {json.dumps(definition)}"


def expanded(source: str) -> str:
    """Return a grammar in Lark's notation with the lines of `json_text` as rules that llguidance reads.

    Raises:
        GrammarRejected: a definition is malformed, or beyond the subset that is translated.
    """
    return _DIRECTIVE.sub(lambda line: f"{line[1]}: %lark {{\n{_translated(json.loads(line[2]))}\n}}", source)


def _translated(definition: str) -> str:
    written: list[str] = []
    imported: dict[str, str] = {}
    place = 0
    while place < len(definition):
        token = _TOKEN.match(definition, place)
        if token is None:
            raise GrammarRejected(_unsupported(definition[place:]))
        place = token.end()
        match token.lastgroup:
            case "range":
                low, high = (_literal(token[each]) for each in ("low", "high"))
                if len(low) != 1 or len(high) != 1:
                    raise GrammarRejected("the ends of a range must be single characters")
                written.append(f"/{_class([(ops.RANGE, (ord(low), ord(high)))], 0)}/")
            case "string":
                written.append(_string(token["string"]))
            case "regex":
                body, _, flags = token["regex"][1:].rpartition("/")
                written.append(f"/{_regex(body.replace(chr(92) + '/', '/'), flags)}/")
            case "import":
                imported |= _imports(token)
            case "kept":
                written.append(token["kept"])
    return "\n".join([" ".join(written), *(f"{name}: /{_regex(_COMMON[of])}/" for name, of in imported.items())])


def _unsupported(rest: str) -> str:
    what = rest.split(maxsplit=1)[0][:20]
    return (
        f"grammars of tools can't have {what!r} here: only rules, terminals, %ignore and %import common are supported"
    )


def _imports(token: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of the imported terminals in the grammar and in the library."""
    several = token["several"]
    named = [(token["renamed"] or token["imported"], token["imported"])] if several is None else []
    for name, of in (*named, *((each.strip(), each.strip()) for each in (several or "").split(",") if each.strip())):
        if of not in _COMMON:
            raise GrammarRejected(f"Lark's library has no terminal {of[:40]!r} that is supported")
        yield name, of


def _literal(quoted: str) -> str:
    try:
        text = str(ast.literal_eval(quoted))
        text.encode()
    except (SyntaxError, ValueError) as error:
        raise GrammarRejected("a string has an invalid escape") from error
    return text


def _string(token: str) -> str:
    text = _literal(token.removesuffix("i"))
    if token.endswith("i") and text:
        return f"/{''.join(_character(ord(each), re.IGNORECASE) for each in text)}/"
    return json.dumps(_escape(text), ensure_ascii=False)


def _escape(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _regex(pattern: str, flags: str = "") -> str:
    """Return a regular expression in Rust's syntax of the texts that `pattern`, in Python's, matches, JSON-escaped."""
    if unknown := set(flags) - _FLAGS.keys():
        raise GrammarRejected(f"the flag {min(unknown)!r} of regular expressions is not supported")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what Python reads in another way than Rust does
            tree = parser.parse(pattern, sum(_FLAGS[each] for each in set(flags)))
    except (re.error, FutureWarning, DeprecationWarning, OverflowError) as error:
        raise GrammarRejected(f"a regular expression is invalid: {str(error)[:100]}") from error
    return _sequence(tree, tree.state.flags)


def _sequence(nodes: Any, flags: int) -> str:
    return "".join(_node(op, value, flags) for op, value in nodes)


def _node(op: Any, value: Any, flags: int) -> str:
    match op:
        case ops.LITERAL:
            return _character(value, flags)
        case ops.NOT_LITERAL | ops.ANY | ops.IN:
            return _class(_items(op, value, flags), flags)
        case ops.BRANCH:
            return f"(?:{'|'.join(_sequence(branch, flags) for branch in value[1])})"
        case ops.SUBPATTERN:
            _, added, removed, inside = value
            return f"(?:{_sequence(inside, (flags | added) & ~removed)})"
        case ops.MAX_REPEAT:
            least, most, inside = value
            upper = "" if most is ops.MAXREPEAT else int(most)
            return f"(?:{_sequence(inside, flags)}){{{least},{upper}}}"
        case ops.MIN_REPEAT:
            raise GrammarRejected("lazy repetition in regular expressions is not supported")
        case _:
            raise GrammarRejected(f"{str(op).lower()} in regular expressions is not supported")


def _items(op: Any, value: Any, flags: int) -> Any:
    """Return the items of the class that a node of one character is."""
    if op is ops.IN:
        return value
    every = op is ops.ANY and flags & re.DOTALL
    excluded = [] if every else [(ops.LITERAL, ord("\n") if op is ops.ANY else value)]
    return [(ops.NEGATE, None), *excluded]


def _character(code: int, flags: int) -> str:
    """Return the expression of one character, escaped if JSON escapes it."""
    quoted = "".join(each if each.isalnum() else f"\\x{{{ord(each):X}}}" for each in _escape(chr(code)))
    return f"(?i:{quoted})" if flags & re.IGNORECASE and code not in _ESCAPED else quoted


def _class(items: Any, flags: int) -> str:
    """Return the expression of one character of a class: of those that JSON leaves, or an escape."""
    negated = bool(items) and items[0][0] is ops.NEGATE
    written, escaped, plain = "", set[int](), negated
    for op, value in items[1:] if negated else items:
        match op:
            case ops.LITERAL:
                low = high = value
            case ops.RANGE:
                low, high = value
            case _:
                text, of_class = _CLASSES[value]
                written, escaped, plain = written + text, escaped | of_class, True
                continue
        written += f"\\x{{{low:X}}}-\\x{{{high:X}}}"
        inside = {each for each in _ESCAPED if low <= each <= high}
        escaped |= inside
        plain = plain or len(inside) < high - low + 1
    if negated:
        escaped = set(_ESCAPED) - escaped
    choices = [_character(each, 0) for each in sorted(escaped)]
    if plain:
        chosen = f"[{'^' if negated else ''}{written}]" if written else r"[\x{0}-\x{10FFFF}]"
        allowed = (
            rf"[{chosen}&&[^\x{{0}}-\x{{1F}}\x{{22}}\x{{5C}}]]" if negated or choices or "\\" in written else chosen
        )
        choices.append(f"(?i:{allowed})" if flags & re.IGNORECASE else allowed)
    return f"(?:{'|'.join(choices)})"
