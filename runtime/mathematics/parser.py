"""Parses mathematical expressions by a fixed grammar of numbers, operators, and known functions and variables.

statements = statement { ("," | ";") statement }
statement  = sum [ ("=" | "<" | "<=" | ">" | ">=") sum ]
sum        = product { ("+" | "-") product }
product    = signed { ("*" | "/") signed | power }         a power side by side is multiplied, unless it is a number
signed     = { "+" | "-" } power
power      = postfix [ "^" signed power ]
postfix    = atom { "!" | "%" | "°" }
atom       = number | name | "(" sum ")" | "|" sum "|" | "√" atom
           | function [ "^" integer ] ( "(" sum { ("," | ";") sum } ")" | power { power } )
"""

from __future__ import annotations

from fractions import Fraction

from runtime.mathematics.errors import ExpressionRefused, Problem
from runtime.mathematics.expression import (
    CONSTANTS,
    Binary,
    Call,
    Name,
    Negation,
    Node,
    Number,
    Relation,
    Statement,
)
from runtime.mathematics.functions import FUNCTIONS, INVERSES
from runtime.mathematics.tokens import END, Token, normalise, tokens

MAX_DEPTH = 40
"""Most levels of nesting."""
MAX_STATEMENTS = 4
_RELATIONS = frozenset({"=", "<", "<=", ">", ">="})
_BRACKETS = {"(": ")", "[": "]"}
_PARTS_OF_LEVEL = 3
"""Nested calls of parsing functions per level of the expression that count."""


def parse(text: str, language: str) -> tuple[Statement, ...]:
    """Parse a text to its expressions or equations, as syntax trees, with the number notation of `language`.

    Raises:
        ExpressionRefused: the text is not in the grammar, too long, nested too deeply, or has too many statements.
    """
    normalised = normalise(text)
    return _Parser(normalised, tokens(normalised, language), language.lower().startswith("pl")).statements()


def parse_expression(text: str, language: str) -> Node:
    """Parse a text that must be a single expression to its syntax tree, with the number notation of `language`.

    Raises:
        ExpressionRefused: the text is not in the grammar, is an equation, or is too long or nested too deeply.
    """
    found = parse(text, language)
    if len(found) != 1 or isinstance(found[0], Relation):
        raise ExpressionRefused(Problem.NO_EQUATION)
    return found[0]


class _Parser:
    def __init__(self, text: str, found: list[Token], polish: bool) -> None:
        self._text = text
        self._tokens = found
        self._polish = polish
        self._at = 0
        self._depth = 0
        self._open_bars = 0

    def statements(self) -> tuple[Statement, ...]:
        """Parse all tokens, to the end, and return the statements as syntax trees."""
        found = [self._statement()]
        while self._accept(",") or self._accept(";"):
            found.append(self._statement())
        if self._next.text != END:
            raise self._unreadable()
        if len(found) > MAX_STATEMENTS:
            raise ExpressionRefused(Problem.TOO_LONG)
        return tuple(found)

    def _statement(self) -> Statement:
        left = self._sum()
        if self._next.text in _RELATIONS:
            operator = self._advance().text
            return Relation(operator, left, self._sum())
        return left

    def _sum(self) -> Node:
        self._enter()
        left = self._product()
        while self._next.text in ("+", "-"):
            operator = self._advance().text
            left = Binary(operator, left, self._product())
        self._depth -= 1
        return left

    def _product(self) -> Node:
        left = self._signed()
        while True:
            if self._next.text in ("*", "/"):
                operator = self._advance().text
                left = Binary(operator, left, self._signed())
            elif self._factor_follows():
                left = Binary("*", left, self._power())
            else:
                return left

    def _signed(self) -> Node:
        negative = False
        while self._next.text in ("+", "-"):
            negative ^= self._advance().text == "-"
        operand = self._power()
        return Negation(operand) if negative else operand

    def _power(self) -> Node:
        self._enter()
        base = self._postfix()
        if self._accept("^"):
            base = Binary("^", base, self._signed())
        self._depth -= 1
        return base

    def _postfix(self) -> Node:
        operand = self._atom()
        while self._next.text in ("!", "%", "°"):
            operator = self._advance().text
            if operator == "!":
                operand = Call("factorial", (operand,))
            elif operator == "%":
                operand = Binary("/", operand, Number(Fraction(100)))
            else:
                operand = Binary("*", operand, Binary("/", Name("pi"), Number(Fraction(180))))
        return operand

    def _atom(self) -> Node:
        token = self._advance()
        if token.number is not None:
            return Number(token.number, token.decimal)
        if token.is_name:
            return self._call(token.text) if token.text in FUNCTIONS else Name(token.text)
        if token.text in _BRACKETS:
            return self._closed(token.text)
        if token.text == "|":
            return self._absolute()
        if token.text == "√":
            return Call("sqrt", (self._nested_atom(),))
        self._at -= 1
        raise self._unreadable()

    def _nested_atom(self) -> Node:
        self._enter()
        found = self._atom()
        self._depth -= 1
        return found

    def _closed(self, opening: str) -> Node:
        bars, self._open_bars = self._open_bars, 0
        inside = self._sum()
        self._open_bars = bars
        self._expect(_BRACKETS[opening])
        return inside

    def _absolute(self) -> Node:
        self._open_bars += 1
        inside = self._sum()
        self._open_bars -= 1
        self._expect("|")
        return Call("abs", (inside,))

    def _call(self, function: str) -> Node:
        exponent = self._function_exponent()
        if exponent == -1 and function in INVERSES:
            function, exponent = INVERSES[function], None
        in_brackets = self._next.text in _BRACKETS
        call = self._checked(function, self._arguments() if in_brackets else (self._bare_argument(),))
        return call if exponent is None else Binary("^", call, Number(Fraction(exponent)))

    def _function_exponent(self) -> int | None:
        """Read the exponent of `sin^2 x` or `sin^(-1) x`."""
        if not self._accept("^"):
            return None
        closing = _BRACKETS[self._advance().text] if self._next.text in _BRACKETS else None
        negative = self._accept("-")
        token = self._advance()
        if token.number is None or token.number.denominator != 1 or token.number > 100:
            self._at -= 1
            raise self._unreadable()
        if closing is not None:
            self._expect(closing)
        return -int(token.number) if negative else int(token.number)

    def _arguments(self) -> tuple[Node, ...]:
        opening = self._advance().text
        bars, self._open_bars = self._open_bars, 0
        found = [self._sum()]
        while self._accept(",") or self._accept(";"):
            found.append(self._sum())
        self._expect(_BRACKETS[opening])
        self._open_bars = bars
        return tuple(found)

    def _bare_argument(self) -> Node:
        """Read the argument of a function without parentheses: `sin 2x`, up to the next function or parenthesis."""
        argument = self._power()
        while self._factor_follows() and self._next.text not in FUNCTIONS and self._next.text not in _BRACKETS:
            argument = Binary("*", argument, self._power())
        return argument

    def _checked(self, function: str, arguments: tuple[Node, ...]) -> Node:
        fewest, most = FUNCTIONS[function]
        if not fewest <= len(arguments) <= most:
            raise ExpressionRefused(Problem.ARGUMENT_COUNT, name=function)
        if function == "sum" and (not isinstance(arguments[1], Name) or arguments[1].name in CONSTANTS):
            raise ExpressionRefused(Problem.UNREADABLE, at="sum")
        if function == "log" and len(arguments) == 1:
            return Call("log10" if self._polish else "ln", arguments)
        return Call(function, arguments)

    def _factor_follows(self) -> bool:
        token = self._next
        if token.number is not None:
            return False
        return (
            token.is_name or token.text in _BRACKETS or token.text == "√" or (token.text == "|" and not self._open_bars)
        )

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _advance(self) -> Token:
        token = self._next
        if token.text == END:
            raise ExpressionRefused(Problem.INCOMPLETE)
        self._at += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._next.number is not None or self._next.text != text or text == END:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise ExpressionRefused(Problem.INCOMPLETE) if self._next.text == END else self._unreadable()

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH * _PARTS_OF_LEVEL:
            raise ExpressionRefused(Problem.TOO_LONG)

    def _unreadable(self) -> ExpressionRefused:
        if self._next.text == END:
            return ExpressionRefused(Problem.INCOMPLETE)
        return ExpressionRefused(Problem.UNREADABLE, at=self._text[self._next.at :][:20])
