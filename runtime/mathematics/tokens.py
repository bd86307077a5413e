"""Splits a mathematical text into tokens: numbers in English or Polish notation, names and operators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from runtime.mathematics.errors import ExpressionRefused, Problem
from runtime.mathematics.expression import CONSTANTS
from runtime.mathematics.functions import CONSTANT_ALIASES, FUNCTIONS, GREEK, canonical

MAX_CHARACTERS = 1_000
MAX_TOKENS = 300
"""Also bounds the depth of the syntax tree, which functions walk recursively."""
MAX_EXPONENT = 400
"""Most of the exponent of a number in scientific notation."""
MAX_SPLIT_LETTERS = 12

_REPLACED = str.maketrans(
    {
        **dict.fromkeys("−–‐‑‒﹣－", "-"),
        **dict.fromkeys("×·∙⋅∗✕", "*"),
        **dict.fromkeys("÷∕⁄:", "/"),
        **dict.fromkeys("\u00a0\u2009\u202f\u2007\t\n\r", " "),
        "＋": "+",
        "π": " pi ",
        "∞": " oo ",
        "≤": "<=",
        "≥": ">=",
    }
)
_SUPERSCRIPTS = re.compile("[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_OPERATORS = re.compile(r"<=|>=|\*\*|[-+*/^()\[\],;=<>|!%°√]")
_LETTERS = re.compile(r"[A-Za-z]+")
_INDEX = re.compile(r"_?[0-9]{1,2}(?![0-9])")
_GROUPS = {"en": re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])"), "pl": re.compile(r"(?!)")}
_SPACED_GROUPS = re.compile(r"[0-9]{1,3}(?: [0-9]{3})+(?! ?[0-9])")
_FRACTION = {"en": re.compile(r"\.[0-9]+"), "pl": re.compile(r"[.,][0-9]+")}
_EXPONENT = re.compile(r"[eE][-+]?[0-9]+")
_SPLIT_LETTERS = frozenset("xyzteabc")
"""Variables that may be written side by side, as in `4ac` and `xe^x`."""


@dataclass(frozen=True)
class Token:
    """A token: a number with its value, a name, or an operator; `END` at the end."""

    text: str
    at: int
    """Offset in the normalised text."""
    number: Fraction | None = None
    decimal: bool = False

    @property
    def is_name(self) -> bool:
        """Whether the token names a variable, constant or function."""
        return self.number is None and self.text[:1].isalpha()


END = ""


def normalise(text: str) -> str:
    """Return a mathematical text with typeset characters (minus, times, superscripts, Greek pi) as typed ones."""
    if len(text) > MAX_CHARACTERS:
        raise ExpressionRefused(Problem.TOO_LONG)
    raised = _SUPERSCRIPTS.sub(lambda found: f"^({found[0].translate(_PLAIN)})", text)
    return raised.translate(_REPLACED).strip()


def tokens(text: str, language: str) -> list[Token]:
    """Split a normalised mathematical text into its tokens, with numbers read in the notation of `language`.

    The last token has the text `END`.

    Raises:
        ExpressionRefused: a character, number or name is not known, there are too many tokens, or an exponent is too
            large.
    """
    found = list(_Scanner(text, "pl" if language.lower().startswith("pl") else "en").scan())
    if len(found) > MAX_TOKENS:
        raise ExpressionRefused(Problem.TOO_LONG)
    return [*found, Token(END, len(text))]


class _Scanner:
    def __init__(self, text: str, language: str) -> None:
        self._text = text
        self._language = language
        self._at = 0
        self._lists: list[bool] = []
        """For each open parenthesis, whether it may contain several arguments."""
        self._after_list_function = False

    def scan(self) -> Iterator[Token]:
        """Yield the tokens of the text, in order."""
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == " ":
                self._at += 1
            elif character in "0123456789" or (character == "." and self._peek(1) in set("0123456789")):
                yield self._number()
            elif letters := _LETTERS.match(self._text, self._at):
                yield from self._names(letters[0])
            elif operator := _OPERATORS.match(self._text, self._at):
                yield self._operator(operator[0])
            else:
                raise ExpressionRefused(Problem.UNREADABLE, at=self._text[self._at :][:20])

    def _peek(self, offset: int) -> str:
        return self._text[self._at + offset : self._at + offset + 1]

    def _match(self, pattern: re.Pattern[str], at: int) -> str:
        found = pattern.match(self._text, at)
        return found[0] if found else ""

    def _number(self) -> Token:
        began = self._at
        in_list = bool(self._lists) and self._lists[-1]
        grouped = "" if in_list else self._match(_GROUPS[self._language], began)
        whole = grouped or self._match(_SPACED_GROUPS, began) or self._match(re.compile("[0-9]*"), began)
        at = began + len(whole)
        fraction = self._match(_FRACTION[self._language], at)
        if fraction.startswith(",") and in_list:
            raise ExpressionRefused(Problem.AMBIGUOUS_COMMA, at=whole + fraction)
        at += len(fraction)
        exponent = self._match(_EXPONENT, at)
        self._at = at + len(exponent)
        self._after_list_function = False
        digits = whole.replace(",", "").replace(" ", "") or "0"
        if len(exponent) > 8 or (exponent and abs(int(exponent[1:])) > MAX_EXPONENT):
            raise ExpressionRefused(Problem.TOO_BIG)
        value = Fraction(digits + fraction.replace(",", ".") + exponent)
        return Token(self._text[began : self._at], began, value, bool(fraction or exponent))

    def _names(self, letters: str) -> Iterator[Token]:
        began = self._at
        index = self._match(_INDEX, began + len(letters))
        plain_index = index.removeprefix("_")
        if index and canonical(letters + plain_index):
            name = letters + plain_index
        elif index and (letters in GREEK or (len(letters) == 1 and letters not in CONSTANTS)):
            yield self._name(f"{letters}_{int(plain_index)}", began, len(letters) + len(index))
            return
        else:
            name = letters
            index = ""
        yield from self._plain_names(name, began, len(letters) + len(index))

    def _plain_names(self, name: str, began: int, length: int) -> Iterator[Token]:
        known = _known(name)
        if known:
            yield self._name(known, began, length)
            return
        for part in _split(name):
            yield self._name(part, began, length)

    def _name(self, name: str, began: int, length: int) -> Token:
        self._at = began + length
        self._after_list_function = FUNCTIONS.get(name, (1, 1))[1] > 1
        return Token(name, began)

    def _operator(self, operator: str) -> Token:
        if operator in "([":
            self._lists.append(self._after_list_function)
        elif operator in ")]" and self._lists:
            self._lists.pop()
        self._after_list_function = False
        token = Token("^" if operator == "**" else operator, self._at)
        self._at += len(operator)
        return token


def _known(name: str) -> str | None:
    """Return a function's canonical name, a constant or a variable of one name; `None`: it is none of them."""
    constant = CONSTANT_ALIASES.get(name.lower(), name)
    if constant in CONSTANTS or len(name) == 1 or name in GREEK:
        return constant
    return canonical(name)


def _split(name: str) -> tuple[str, ...]:
    """Split letters without spaces into names: `xsinx` is `x sin x`, `4ac` is `4 a c`."""
    parts = _parts(name) if len(name) <= MAX_SPLIT_LETTERS else None
    if parts is None:
        raise ExpressionRefused(Problem.UNKNOWN_NAME, name=name)
    return parts


@cache
def _functions_by_length() -> tuple[str, ...]:
    from_two = (each for each in ("pi", *FUNCTIONS, "tg", "ctg", "arcsin", "arccos", "arctan", "arctg") if each)
    return tuple(sorted(from_two, key=len, reverse=True))


def _parts(name: str) -> tuple[str, ...] | None:
    if not name:
        return ()
    for function in _functions_by_length():
        if name.startswith(function):
            rest = _parts(name[len(function) :])
            if rest is not None:
                return (canonical(function) or function, *rest)
    rest = _parts(name[1:]) if name[0] in _SPLIT_LETTERS else None
    return None if rest is None else (name[0], *rest)
