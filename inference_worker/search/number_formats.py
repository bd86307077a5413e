r"""Reads numbers in a search's answers, in English, Polish and LaTeX notation, and writes equal numbers alike.

`1,234.50`, `1 234,5`, `1{,}234.5` and `\frac{2469}{2}` are one number. One comma before exactly three digits separates
thousands (`1,234`), unless the number begins with 0; every other single comma or point is a decimal sign.
"""

from __future__ import annotations

import re
from fractions import Fraction

MAX_CHARACTERS = 60
"""Longer numbers are compared as texts."""

_SPACES = "\u00a0\u202f\u2009 "
"""Spaces between thousands: no-break, narrow no-break, thin, plain."""
_DIGITS = rf"(?:\d{{1,3}}(?:[{_SPACES}'’]\d{{3}})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*|\.\d+)"
_FRACTION = (
    r"\\[dt]?frac(?:\s*\{\s*(?P<above>-?\d{1,20})\s*\}\s*\{\s*(?P<below>\d{1,20})\s*\}"
    r"|\s?(?P<short_above>\d)\s?(?P<short_below>\d))"
)
_NUMBER = re.compile(
    rf"(?P<sign>(?<![\w)\].,/])[-+−–])?(?:\\?[$€£¥]\s?(?P<minus>-)?)?"
    rf"(?:(?:(?<![\w.,/])(?P<whole>\d{{1,20}})\s{{0,3}})?{_FRACTION}"
    rf"|(?<![^\W\d])(?<!\d)(?<!\d[.,])(?P<digits>{_DIGITS})"
    rf"(?:\s?(?:[eE](?P<exponent>[-+]?\d{{1,3}})\b|(?:×|\\times|\\cdot)\s?10\^\{{?(?P<power>[-−]?\d{{1,3}})\}}?)"
    rf"|\s?/\s?(?P<denominator>\d{{1,20}})(?![\d/]|[.,]\d))?)"
    r"(?P<percent>\s?\\?%)?"
)
_LATEX_SEPARATOR = re.compile(r"(?<=\d)(?:\{,\}|\\[,!;:]|~)(?=\d{3})")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+|\d{1,3}(?:\.\d{3}){2,}")
_GROUPS = re.compile(r"\d{1,3}(?:,\d{3})+|\d{1,3}(?:\.\d{3})+")
_UNIT = re.compile(
    r"\s*(?:\\?[$€£¥]|\\(?:text|mathrm|mbox|textrm)\s*\{[^{}]*\}(?:\^\{?[23]\}?)?|\^?\{?\\circ\}?|°\s?[CF]?"
    r"|(?:km|cm|mm|m|kg|mg|g|l|ml|s|min|h|km/h|m/s|zł|PLN|USD|EUR|GBP|dollars?|euros?|cents?|degrees?"
    r"|seconds?|minutes?|hours?|days?|weeks?|months?|years?|meters?|metres?|miles?|feet|inches"
    r"|groszy|złotych|złote|sekund|minut|godzin|dni|metrów)(?:\^\{?[23]\}?|[²³])?)?\.?\s*"
)


def find_last_number(text: str) -> Fraction | None:
    """Return the last number in a text as a fraction; `None` if there is none.

    Of a list or a date without spaces it is the last part.
    """
    for match in reversed(list(_NUMBER.finditer(_plain(text)))):
        if len(match.group()) <= MAX_CHARACTERS:
            value = _value(match)
            if value is None and match["digits"] and _decimal(match["digits"]) is None:
                value = Fraction(re.split("[.,]", match["digits"])[-1])
            if value is not None:
                return value
    return None


def read_number(text: str) -> Fraction | None:
    """Return the number that a whole text is, perhaps with a known unit; `None` if the text is anything else."""
    text = _plain(text).strip()
    match = _NUMBER.match(text)
    if match is None or len(match.group()) > MAX_CHARACTERS or not _UNIT.fullmatch(text, match.end()):
        return None
    return _value(match)


def normal_number(value: Fraction) -> str:
    """Return a number as text that is equal for equal numbers.

    It is a decimal without trailing zeros, or a reduced fraction if the number has no finite decimals.
    """
    rest, places = value.denominator, 0
    for prime in (2, 5):
        exponent = 0
        while rest % prime == 0:
            rest, exponent = rest // prime, exponent + 1
        places = max(places, exponent)
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else f"{sign}{digits}"


def _plain(text: str) -> str:
    return _LATEX_SEPARATOR.sub(",", text)


def _value(match: re.Match[str]) -> Fraction | None:
    """Return the value of a match; `None` if it divides by zero, is out of range or is a list of numbers."""
    if match["digits"] is not None:
        value = _decimal(match["digits"])
        exponent = int((match["exponent"] or match["power"] or "0").replace("−", "-"))
        denominator = int(match["denominator"] or 1)
        if value is None or abs(exponent) > MAX_CHARACTERS:
            return None
        if match["denominator"] and match.string[: match.start()].endswith("/"):  # the last part of a date
            return Fraction(denominator)
        numerator: Fraction | int = value * Fraction(10) ** exponent
    else:
        above, below, short_above, short_below = match.group("above", "below", "short_above", "short_below")
        numerator, denominator = int(above or short_above), int(below or short_below)
    if denominator == 0:
        return None
    value = int(match["whole"] or 0) + Fraction(numerator) / denominator
    if (match["sign"] or "+") != "+":
        value = -value
    if match["minus"]:
        value = -value
    return value / 100 if match["percent"] else value


def _decimal(digits: str) -> Fraction | None:
    """Return the value of digits with separators of thousands and a decimal sign; `None`: a list, a date, a version."""
    digits = re.sub(rf"[{_SPACES}'’]", "", digits)
    if _THOUSANDS.fullmatch(digits) and not digits.startswith("0"):
        return Fraction(re.sub("[.,]", "", digits))
    whole, places = digits, ""
    if (sign := max(digits.rfind("."), digits.rfind(","))) >= 0:
        whole, places = digits[:sign], digits[sign + 1 :]
        if digits[sign] in whole or (re.search("[.,]", whole) and not _GROUPS.fullmatch(whole)):
            return None
    return Fraction(re.sub("[.,]", "", whole) + f".{places}" if places else whole)
