"""Finds the mathematics tool's arguments in an English or Polish question: its keywords, and the expression in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from assistant.tools.folding import lenient_pattern
from assistant.tools.mathematics.numerals import with_digits
from assistant.tools.mathematics.order import Operation
from assistant.tools.mathematics.spoken import with_changes, written
from runtime.mathematics.errors import ExpressionRefused
from runtime.mathematics.expression import Binary, Call, Relation, Statement, free_variables, nodes
from runtime.mathematics.functions import FUNCTIONS, GREEK, canonical
from runtime.mathematics.parser import parse, parse_expression

MAX_CHARACTERS = 1_500
"""Longer questions are not searched."""

_KEYWORDS: tuple[tuple[Operation, str], ...] = (
    (
        Operation.INTEGRATE,
        r"integrate|(?:indefinite |definite )?integral(?: of)?|anti-?derivative(?: of)?|∫"
        r"|s?całk(?:a|ę|i|ą|uj|ować)(?: nieoznaczon\w+| oznaczon\w+)?|s?calk(?:a|e|i|uj)",
    ),
    (
        Operation.DIFFERENTIATE,
        r"differentiate|derivative(?: of)?|d/d[a-z]\b|pochodn(?:a|ą|ej|e)\b|zróżniczkuj|zrozniczkuj",
    ),
    (Operation.FACTOR, r"factori[sz]e|factor|rozłóż(?: \S+)? na czynniki|na czynniki(?: pierwsze)?|rozłóż"),
    (
        Operation.SOLVE,
        r"solve|find [a-z]\b(?=,? (?:if|when|in|such|from))|find [a-z]$|(?:roots?|zeros?|zeroes) of(?=.*[a-z])"
        r"|for (?:what|which) [a-z]\b"
        r"|rozwiąż|rozwiązać|rozwiaz|znajdź [a-z]\b|pierwiastki równania"
        r"|miejsca zerowe|dla jakie(?:go|j|ch) [a-z]\b|wyznacz [a-z]\b",
    ),
    (Operation.SIMPLIFY, r"simplify|uprość|uprosc|uprościć"),
    (Operation.EXPAND, r"expand|multiply out|rozwiń(?: wyrażenie)?|wymnóż"),
    (
        Operation.PLOT,
        r"(?:plot|graph|sketch|chart)(?: of)?|draw(?= (?:the |a )?(?:graph|function|plot|curve))"
        r"|(?:narysuj |naszkicuj |pokaż )?wykres(?:u)?|naszkicuj|narysuj(?= (?:funkcj|krzyw))",
    ),
    (
        Operation.EVALUATE,
        r"calculate|compute|evaluate|work out|how much (?:is|are)|what(?:'s|’s| is| are| does)|tell me"
        r"|oblicz(?:yć)?|policz(?:yć)?|wylicz(?:yć)?|ile (?:to )?(?:jest|wynosi|będzie|bedzie|daje|to)|ile to"
        r"|jaki jest wynik|podaj wartość",
    ),
)
_COMPILED = tuple((operation, lenient_pattern(rf"(?<!\w)(?:{words})(?!\w)")) for operation, words in _KEYWORDS)

_FILLERS = lenient_pattern(
    r"(?<!\w)(?:please|thanks|thank you|the|an?(?= (?:function|equation|expression|integral|derivative|graph|plot))"
    r"|value|result|of(?= the)|functions?|equations?|expressions?|following|system|inequality|curve|graph|for me"
    r"|proszę|prosze|dzięki|funkcj(?:i|a|ę|ą)|równa(?:nie|nia|ń)|rowna(?:nie|nia|n)|wyrażeni(?:e|a)|układ|nierówność"
    r"|wartość|wynik|liczb(?:a|ę|y)|wielomian(?:u)?|trójmian(?:u)?|mi|krzyw(?:ą|ej)|on|where"
    r"|in terms|is|equal|=\?)(?!\w)"
)
_LEADING = lenient_pattern(
    r"^(?:[\s,:]|(?:of|for|from|z|ze|dla|od|to|jest|się|both sides|that|if|when|such that|jeśli|jeżeli|gdy|kiedy)(?= )"
    r"|(?:what|how much|ile)(?= [-\d(])|[yf]\s*(?:\(\s*[a-z]\s*\))?\s*=(?!\s*0))+"
)
_FRAMES = lenient_pattern(
    r"(?<!\w)(?:please|pls|thanks|thank you|hi|hello|hey|ok|can you|could you|would you|i (?:need|want)(?: to know)?"
    r"|i(?:'d| would) like to know|give me|find|what do you get (?:if|when) you|for me|the value of|the result of"
    r"|proszę|prosze|dzięki|cześć|hej|czy możesz|czy mógłbyś|czy mogłabyś|możesz|mi|podaj|wartość"
    r"|wynik|mam zadanie(?: domowe)?"
    r"|chcę wiedzieć|a ile|powiedz)(?!\w)[,!:.]?",
    re.IGNORECASE,
)
"""Words around a calculation that say nothing about it."""
_SHOWING = lenient_pattern(
    r"[\s,]+(?:(?:and|i|oraz) )?(?:(?:show|give|explain|plot|graph|sketch|draw"
    r"|pokaż|podaj|wyjaśnij|zapisz|narysuj|naszkicuj)(?: me| mi)?(?: the| your| all| its| a)? ?"
    r"(?:answers?|steps?|working|work|results?|solutions?|it|graph|plot|rozwiązani\w+|wynik\w*|odpowied\w+|krok\w*"
    r"|obliczenia|go|ją|wykres(?: wyniku| rozwiązania)?)"
    r"|step by step|krok po kroku)$"
)
_CURRENCY = lenient_pattern(
    r"[$€£](?=\s*\d)|(?<=\d)\s*(?:zł(?:otych|ote|oty)?|pln|eur(?:o)?|usd|dollars?|dolar\w*|€|\$)(?!\w)"
)
_TRAILING = lenient_pattern(r"(?:[\s,.?:;]|=\s*\??$)+$")
_NUMBER = r"[-−]?(?:[\d.,]*\d|∞|oo|inf\w*|nieskończono\w+|pi|π|e)(?:\s*(?:pi|π)|\s*/\s*\d+)*"
_RANGE = lenient_pattern(
    rf"(?<!\w)(?:w granicach |in the range |on the interval |na przedziale )?"
    rf"(?:from|od|between|for [a-z] from|dla [a-z] od) (?P<lower>[-−]?\s*{_NUMBER})"
    rf" (?:to|do|and|a|i) (?P<upper>[-−]?\s*{_NUMBER})(?!\w|\s*[-+*/^(])"
)
_INTERVAL = lenient_pattern(
    r"(?:on|w przedziale|na przedziale|over)\s*[\[(](?P<lower>[^\[\](),;]+)[,;](?P<upper>[^\[\](),;]+)[\])]"
)
_VARIABLE = lenient_pattern(
    r"(?<!\w)(?:with respect to|w\.?r\.?t\.?|względem|wzgledem|ze względu na|po zmiennej|po|for|dla)"
    r" (?P<variable>[a-z])\b(?!\s*[=<>^])"
)
_DIFFERENTIAL = lenient_pattern(r"\s*\bd(?P<variable>[a-z])$")
_ORDERS = {
    2: r"second|2nd|drug(?:a|ą|iej)|2\.",
    3: r"third|3rd|trzeci(?:a|ą|ej)|3\.",
    4: r"fourth|4th|czwart(?:a|ą|ej)|4\.",
    5: r"fifth|5th|piąt(?:a|ą|ej)|5\.",
}
_ORDER = {
    order: lenient_pattern(rf"(?<!\w)(?:{words}) (?:order )?(?:derivative|pochodn)") for order, words in _ORDERS.items()
}
_AND_OR_I = re.compile(r"[\w)] i [\w(]")
"""The Polish "and" between operands, which the parser would read as the imaginary unit."""
_AND = lenient_pattern(r"\s+(?:and|i|oraz)\s+|\s*,\s+")
_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (lenient_pattern(rf"(?<!\w)(?:{words})(?!\w)"), sign)
    for words, sign in (
        (r"per ?cent|procent(?:a|u|ów)?", "% "),
        (r"(?:the )?cube root of|pierwiastek (?:sześcienny|trzeciego stopnia) z(?:e)?", " cbrt "),
        (r"(?:the )?square root of|sqrt of|pierwiastek(?: kwadratowy| drugiego stopnia)? z(?:e)?|root of", " sqrt "),
        (r"(?<=\d )(?:factorial|silnia)", "!"),
        (r"(?:the )?factorial of|silni[aę] z(?:e)?", " factorial "),
        (r"natural (?:log|logarithm) of|logarytm naturalny z(?:e)?", " ln "),
        (r"logarithm of|log of|logarytm z(?:e)?", " log "),
        (r"sine(?: of)?|sinusa?(?: z)?", " sin "),
        (r"cosine(?: of)?|[ck]osinusa?(?: z)?", " cos "),
        (r"tangent(?: of)?|tangensa?(?: z)?", " tan "),
        (r"to the power(?: of)?|raised to|do potęgi", "^"),
        (r"squared|do kwadratu", "^2"),
        (r"cubed|do sześcianu", "^3"),
        (r"multiplied by|times|razy|pomnożone przez", "*"),
        (
            r"divided by|over(?!\s*[\[(][^\[\]()]*[,;])|podzielić(?: na| przez)?|podzielone przez|dzielone przez|przez",
            "/",
        ),
        (r"(?<=\d )(?:degrees?|stopni[ea]?|stopień)", "°"),
        (r"plus|dodać", "+"),
        (r"minus|odjąć", "-"),
        (r"infinity|nieskończono(?:ść|ści)", "oo"),
        (r"is equal to|equals|równa się|równe", "="),
    )
)
_NUMBERS = lenient_pattern(r"(?<![\w.,])\d+(?:[.,]\d+)*")
_YEAR = lenient_pattern(r"1\d{3}|20\d\d")
_MATHEMATICS = lenient_pattern(
    r"[%=^√∫]|(?<!\w)(?:calculate|compute|evaluate|work out|solve|simplify|factori[sz]e|integrate"
    r"|differentiate|derivative|integral|roots?|sqrt"
    r"|percent|limit|plot|graph|wykres\w*|convert|area|volume|perimeter|average|prime|divided|times|plus|minus|how much"
    r"|sine|cosine|tangent|logarithm"
    r"|oblicz\w*|policz\w*|wylicz\w*|rozwiąż|rozwiązać|uprość|pochodn\w+|całk\w*|pierwiast\w+|procent\w*|granic\w+|zamień"
    r"|pole|objętość|obwód|średni\w+|razy|podziel\w*|pomnóż|przez|dodać|odjąć|ile (?:to|jest|wynosi))(?!\w)"
)
_PERCENT_OF = lenient_pattern(r"%\s*(?:of|z|ze|od)\s+")
_DATE = lenient_pattern(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}|\d{4}\s*[-–]\s*\d{4}|\d{1,2}:\d{2}")
_WORD = lenient_pattern(r"[A-Za-zÀ-ž]{2,}")


def arguments_of(question: str, language: str) -> dict[str, Any] | None:
    """Return the mathematics tool's arguments that a question states; `None` if it states no readable calculation."""
    text = " ".join(question.split()).strip()
    if not text or len(text) > MAX_CHARACTERS:
        return None
    text = _CURRENCY.sub("", with_digits(_lower(text), language))
    for operation, pattern in _COMPILED:
        found = pattern.search(text)
        if found is not None:
            arguments = _stated(operation, text, found, language)
            if arguments is not None:
                return arguments
    return _bare(text, language)


def asks_to_calculate(question: str, language: str) -> bool:
    """Return whether a question seems to ask for a calculation, even one that can't be read.

    It has a word of mathematics and a number, or several numbers that are no years.
    """
    text = with_digits(_lower(" ".join(question[:MAX_CHARACTERS].split())), language)
    numbers = [each for each in _NUMBERS.findall(text) if not _YEAR.fullmatch(each)]
    return len(numbers) > 1 or (bool(numbers) and _MATHEMATICS.search(text) is not None)


def _lower(text: str) -> str:
    """Return the text with its words in lower case; single letters are variables and stay."""
    return _WORD.sub(lambda found: found[0].lower(), text)


def _stated(operation: Operation, text: str, keyword: re.Match[str], language: str) -> dict[str, Any] | None:
    arguments: dict[str, Any] = {}
    if operation is Operation.DIFFERENTIATE:
        arguments["order"] = next((order for order, words in _ORDER.items() if words.search(text)), 1)
        if keyword[0].startswith("d/d"):
            arguments["variable"] = keyword[0][-1]
    for part in (text[keyword.end() :], text[: keyword.start()]):
        found = dict(arguments)
        rest = _without_details(operation, part, found, language)
        if (expression := _readable(operation, rest, language)) is not None:
            return _arguments(operation, expression, found, language)
    return None


def _without_details(operation: Operation, part: str, found: dict[str, Any], language: str) -> str:
    """Remove the range and the variable from a part of the question and put them into `found`."""
    part = _signs(_prepared(part))
    if operation in (Operation.INTEGRATE, Operation.PLOT):
        for pattern in (_RANGE, _INTERVAL):
            limits = pattern.search(part)
            if limits is not None:
                found["lower"], found["upper"] = (limits[name].strip() for name in ("lower", "upper"))
                part = part[: limits.start()] + " " + part[limits.end() :]
                break
    if operation is not Operation.EVALUATE and (variable := _VARIABLE.search(part)) is not None:
        found["variable"] = variable["variable"]
        part = part[: variable.start()] + " " + part[variable.end() :]
    if operation is Operation.INTEGRATE:
        part = _TRAILING.sub("", part)
        if (differential := _DIFFERENTIAL.search(part)) is not None:
            found["variable"] = differential["variable"]
            part = part[: differential.start()]
    return part


def _prepared(part: str) -> str:
    """Return a part of a question without frames like "and show the steps", its phrases of arithmetic in notation."""
    bare = _TRAILING.sub("", _SHOWING.sub("", _TRAILING.sub("", part)))
    return written(_TRAILING.sub("", _FRAMES.sub(" ", bare)))


def _signs(text: str) -> str:
    for pattern, sign in _WORDS:
        text = pattern.sub(sign, text)
    return text


def _readable(operation: Operation, part: str, language: str) -> str | None:
    """Return the expression that a part of a question is, in the parser's notation; `None`: it is none."""
    for candidate in _candidates(operation, part):
        if _is_calculation(candidate, operation, language):
            return candidate
    return None


def _candidates(operation: Operation, part: str) -> Iterator[str]:
    text = _PERCENT_OF.sub("% * ", part)
    text = _PERCENT_OF.sub("% * ", _FILLERS.sub(" ", text))
    text = _TRAILING.sub("", _LEADING.sub("", text.strip()))
    text = with_changes(" ".join(text.split()))
    if operation is Operation.PLOT and FUNCTIONS.get(text) == (1, 1):
        text = f"{text}(x)"
    if operation is Operation.SOLVE and text.count("=") > 1:
        yield _AND.sub("; ", text)
    if text:
        yield text


def _is_calculation(text: str, operation: Operation, language: str) -> bool:
    if any(not _is_mathematical(word) for word in _WORD.findall(text)) or _DATE.fullmatch(text):
        return False
    if language.startswith("pl") and _AND_OR_I.search(text):
        return False
    try:
        statements = parse(text, language)
    except ExpressionRefused:
        return False
    if operation in (Operation.EVALUATE, Operation.SIMPLIFY):
        return _computes(statements, text)
    return operation is not Operation.SOLVE or any(free_variables(each) for each in statements)


def _is_mathematical(word: str) -> bool:
    """Whether letters side by side may be a function or a product of variables: others may be words of a language."""
    if canonical(word) or word in GREEK or word in ("pi", "oo") or len(word) == 2:
        return True
    return any(name in word for name in ("pi", *FUNCTIONS, "tg") if len(name) > 1 and word.isascii())


def _computes(statements: tuple[Statement, ...], text: str) -> bool:
    everything = [node for each in statements for node in nodes(each)]
    if not any(isinstance(node, Binary | Call | Relation) for node in everything):
        return False
    return not any(free_variables(each) for each in statements) or any(sign in text for sign in "+-−*/^=()")


def _arguments(operation: Operation, expression: str, found: dict[str, Any], language: str) -> dict[str, Any]:
    statements = parse(expression, language)
    if operation is Operation.EVALUATE and any(
        isinstance(each, Relation) and free_variables(each) for each in statements
    ):
        operation = Operation.SOLVE
    for name in ("lower", "upper", "variable"):
        if name in found and not _is_expression(found[name], language):
            del found[name]
    if found.get("order") == 1:
        del found["order"]
    return {"operation": operation.value, "expression": expression, **found}


def _is_expression(text: str, language: str) -> bool:
    try:
        parse_expression(text, language)
    except ExpressionRefused:
        return False
    return True


def _bare(text: str, language: str) -> dict[str, Any] | None:
    """Return the arguments of a question that is nothing but an expression or equation."""
    expression = _readable(Operation.EVALUATE, _signs(_prepared(text)), language)
    return None if expression is None else _arguments(Operation.EVALUATE, expression, {}, language)
