"""Converts arithmetic in English or Polish words, and changes such as "80 + 20%", to the parser's notation."""

from __future__ import annotations

import re
from collections.abc import Callable

from assistant.tools.folding import lenient_pattern
from assistant.tools.mathematics.numerals import ORDINALS

_ORDINAL = rf"(?P<ordinal>{'|'.join(ORDINALS)}|\d{{1,3}}(?:st|nd|rd|th))"
_OPERATOR = r"\s(?:[-+*/]|plus|minus|times|divided|multiplied|over|razy|przez|dodać|odjąć|podziel\w+|pomnoż\w+)\s"
_LAST = rf"(?:(?!{_OPERATOR})[^,;]){{1,80}}"
"""An operand. One of several terms is not read: "the product of 3 and 4 plus 2" may be 14 or 18."""
_OPERAND = f"{_LAST}?"
_AND = r"(?:and|i|oraz)"
_WHOLE = r"(?:whole |natural |positive )?(?:integers|numbers)|liczb(?: naturalnych| całkowitych)?"
_POWER = lenient_pattern(
    rf"\s*(?<!\w)(?:to the {_ORDINAL}(?: power)?|do (?:potęgi {_ORDINAL.replace('<ordinal>', '<second>')}"
    rf"|{_ORDINAL.replace('<ordinal>', '<third>')}(?: potęgi)?))(?!\w)"
)


def _listed(sign: str) -> Callable[[re.Match[str]], str]:
    return lambda found: sign.join(f"({each.strip()})" for each in [*found[1].split(", "), found[2]])


_PHRASES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (lenient_pattern(rf"(?<!\w){pattern}"), written)
    for pattern, written in (
        (
            rf"(?:the )?(?:sum|suma|sumę) (?:of )?(?:the )?(?:all )?(?:{_WHOLE})"
            r" (?:from|od|between) (\d+) (?:to|do|and) (\d+)",
            r"sum(n; n; \1; \2)",
        ),
        (rf"(?:the )?sum of ({_LAST}(?:, {_LAST}){{0,20}}),? and ({_LAST})$", _listed(" + ")),
        (rf"(?:suma|sumę)(?: liczb)? ({_LAST}(?:, {_LAST}){{0,20}}) (?:i|oraz) ({_LAST})$", _listed(" + ")),
        (
            rf"(?:the )?(?:product of|iloczyn)(?: liczb)? ({_LAST}(?:, {_LAST}){{0,20}}),? {_AND} ({_LAST})$",
            _listed(" * "),
        ),
        (
            rf"(?:the )?(?:difference (?:between|of)|różnica|różnicę)(?: liczb)? ({_OPERAND}) {_AND} ({_LAST})$",
            r"(\1) - (\2)",
        ),
        (rf"(?:the )?(?:quotient of|iloraz)(?: liczb)? ({_OPERAND}) {_AND} ({_LAST})$", r"(\1) / (\2)"),
        (rf"(?:add|dodaj|dodać) ({_OPERAND}) (?:to|and|do|i) ({_LAST})$", r"(\1) + (\2)"),
        (rf"(?:subtract|odejmij|odjąć) ({_OPERAND}) (?:from|od) ({_LAST})$", r"(\2) - (\1)"),
        (rf"(?:multiply|pomnóż|pomnożyć|mnożąc) ({_OPERAND}) (?:by|and|przez|i) ({_LAST})$", r"(\1) * (\2)"),
        (rf"(?:divide|podziel|podzielić) ({_OPERAND}) (?:by|przez|na) ({_LAST})$", r"(\1) / (\2)"),
        (rf"(?:increase|raise|zwiększ|powiększ|podwyższ) ({_OPERAND}) (?:by|o) ([\d.,]+) ?%$", r"(\1) * (1 + \2%)"),
        (
            rf"(?:decrease|reduce|lower|zmniejsz|obniż|pomniejsz) ({_OPERAND}) (?:by|o) ([\d.,]+) ?%$",
            r"(\1) * (1 - \2%)",
        ),
        (rf"(?:increase|zwiększ) ({_OPERAND}) (?:by|o) ({_LAST})$", r"(\1) + (\2)"),
        (r"(?:raise|podnieś) (?=[^,;]{1,80}\^)", ""),
        (rf"([\d.,]+) ?% off ({_LAST})$", r"(\2) * (1 - \1%)"),
        (
            rf"(?:the )?(?:greatest|highest|największy) (?:common|wspólny) (?:divisor|factor|dzielnik)"
            rf"(?: of)?(?: liczb)? (\d+) {_AND} (\d+)",
            r"gcd(\1; \2)",
        ),
        (
            rf"(?:the )?(?:least|lowest|najmniejsza) (?:common|wspólna) (?:multiple|wielokrotność)"
            rf"(?: of)?(?: liczb)? (\d+) {_AND} (\d+)",
            r"lcm(\1; \2)",
        ),
        (rf"(?:the )?(gcd|lcm|nwd|nww)(?: of| z| dla)?(?: liczb)? (\d+) {_AND} (\d+)", r"\1(\2; \3)"),
        (
            r"log(?:arithm|arytm)?(?: to the)? (?:base|o podstawie|przy podstawie) (\d+) (?:of|z) (\d[\d.,]*)",
            r"log(\2; \1)",
        ),
        (r"(\d+) (?:mod|modulo) (\d+)", r"mod(\1; \2)"),
        (r"(?:the )?(?:remainder of|reszt[aęy] z dzielenia) (\d+) (?:divided by|przez) (\d+)", r"mod(\1; \2)"),
        (r"(\d+) choose (\d+)", r"binomial(\1; \2)"),
        (r"(?:the )?(?:square of|kwadrat(?: liczby)?) (\d[\d.,]*)", r"\1^2"),
        (r"(?:the )?(?:cube of|sześcian(?: liczby)?) (\d[\d.,]*)", r"\1^3"),
        (r"(?:negative|ujemne) (?=\d)", "-"),
    )
)
_CHANGED_BY_PERCENT = lenient_pattern(r"^([^%=]*[^%=\s])(?<![-+*/^(])\s*([-+])\s*([\d.,]*\d)\s*%$")
_FUNCTION_OF = lenient_pattern(
    r"(?<!\w)((?:square root|cube root|root|sine|cosine|tangent|logarithm|log|factorial)(?: of)?"
    r"|pierwiastek(?: \w+)? ze?|[ck]?o?sinusa?(?: z)?|tangensa?(?: z)?|logarytm(?: naturalny)? z|silni[aę] z)"
    r" ([^\s(]\S*[-+*/]\S*)"
)
"""A function in words and its argument without spaces: "sine of pi/6" is sin(pi/6), not sin(pi)/6."""
_PERCENT = lenient_pattern(r"\s*(?<!\w)(?:per ?cent|procent(?:a|u|ów)?)(?!\w)")


def written(text: str) -> str:
    """Return a calculation (lower case, no final punctuation) with its arithmetic in words as notation."""
    text = _FUNCTION_OF.sub(r"\1 (\2)", _PERCENT.sub("%", _POWER.sub(_exponent, text)))
    for pattern, notation in _PHRASES:
        text = pattern.sub(notation, text)
    return text


def with_changes(text: str) -> str:
    """Return a calculation such as "80 + 20%" as (80) * (1 + 20%), which calculators and people mean by it.

    Other texts are returned unchanged.
    """
    return _CHANGED_BY_PERCENT.sub(r"(\1) * (1 \2 \3%)", text)


def _exponent(found: re.Match[str]) -> str:
    word = found["ordinal"] or found["second"] or found["third"]
    return f"^{ORDINALS.get(word) or int(word[:-2])}"
