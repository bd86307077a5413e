"""Converts English and Polish number words to digits: "one hundred and twenty-five" to 125, "dwie trzecie" to (2/3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from assistant.tools.folding import without_diacritics

_Value = TypeVar("_Value", int, str)


def _typed(values: dict[str, _Value]) -> dict[str, _Value]:
    """Return words with their values, and the words as people type them without diacritics."""
    return {without_diacritics(word): value for word, value in values.items()} | values


def _numbered(words: str, first: int, step: int = 1) -> dict[str, int]:
    """Return words with their values, with and without diacritics; forms of one value are joined by a slash."""
    forms = enumerate(words.split())
    return _typed({form: first + step * number for number, word in forms for form in word.split("/")})


_ENGLISH = {
    **_numbered(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen", 0
    ),
    **_numbered("seventeen eighteen nineteen", 17),
    **_numbered("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10),
}
_POLISH = {
    **_numbered("zero jeden/jedna/jedno dwa/dwie/dwóch trzy/trzech cztery/czterech pięć/pięciu sześć/sześciu", 0),
    **_numbered(
        "siedem/siedmiu osiem/ośmiu dziewięć/dziewięciu dziesięć/dziesięciu jedenaście dwanaście trzynaście", 7
    ),
    **_numbered("czternaście piętnaście szesnaście siedemnaście osiemnaście dziewiętnaście", 14),
    **_numbered("dwadzieścia trzydzieści czterdzieści pięćdziesiąt sześćdziesiąt siedemdziesiąt", 20, 10),
    **_numbered("osiemdziesiąt dziewięćdziesiąt", 80, 10),
    **_numbered("sto/stu dwieście trzysta czterysta pięćset sześćset siedemset osiemset dziewięćset", 100, 100),
}
_SCALES = {
    **_numbered("thousand/tysiąc/tysiące/tysięcy", 1000),
    **_numbered("million/milion/miliony/milionów", 10**6),
    **_numbered("billion/miliard/miliardy/miliardów", 10**9),
}
_PARTS = {
    **_numbered("half/halves/druga/drugie/drugich third/thirds/trzecia/trzecie/trzecich", 2),
    **_numbered("quarter/quarters/fourth/fourths/czwarta/czwarte/czwartych fifth/fifths/piąta/piąte/piątych", 4),
    **_numbered("sixth/sixths/szósta/szóste/szóstych seventh/sevenths/siódma/siódme/siódmych", 6),
    **_numbered("eighth/eighths/ósma/ósme/ósmych ninth/ninths/dziewiąta/dziewiąte/dziewiątych", 8),
    **_numbered("tenth/tenths/dziesiąta/dziesiąte/dziesiątych", 10),
    **_numbered("hundredth/hundredths/setna/setne/setnych", 100),
}
_ALONE = _typed({"half": "(1/2)", "pół": "(1/2)", "połowa": "(1/2)", "połowę": "(1/2)", "ćwierć": "(1/4)"})
"""Fractions without a numerator."""
ORDINALS = {
    **_numbered("second/drugiej/drugiego third/trzeciej/trzeciego fourth/czwartej/czwartego fifth/piątej/piątego", 2),
    **_numbered("sixth/szóstej/szóstego seventh/siódmej/siódmego eighth/ósmej/ósmego ninth/dziewiątej/dziewiątego", 6),
    **_numbered("tenth/dziesiątej/dziesiątego", 10),
}
"""Exponents in words: "to the third"."""

_TOKEN = re.compile(r"[^\W\d_]+|\d+|\s+|.")
_HYPHENS = re.compile(rf"\b({'|'.join(word for word in _ENGLISH if word.endswith('ty'))})-(?=[a-z])")
_OF = re.compile(r"(\(\d+/\d+\)) (?:of|z|ze) ")


def with_digits(text: str, language: str) -> str:
    """Return a question in lower case with the number words of `language` as digits, fractions in parentheses."""
    values = {**_ENGLISH, **_POLISH}
    if language.startswith("pl"):
        del values["ten"]  # "This" in Polish.
    words = [each for each in _TOKEN.findall(_HYPHENS.sub(r"\1 ", text)) if not each.isspace() or each == " "]
    return _OF.sub(r"\1 * ", "".join(_converted(words, values)))


def _converted(tokens: Sequence[str], values: dict[str, int]) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(tokens):
        number, after = _number(tokens, at, values)
        if number is None and tokens[at] in ("a", "an") and _word(tokens, at + 2) in _PARTS:
            number, after = 1, at + 1
        if number is not None:
            text, at = _with_part(tokens, number, after)
            found.append(text)
            continue
        found.append(tokens[at] if _is_hyphenated(tokens, at) else _ALONE.get(tokens[at], tokens[at]))
        at += 1
    return found


def _is_hyphenated(tokens: Sequence[str], at: int) -> bool:
    return _word(tokens, at + 1) == "-" or (at > 0 and tokens[at - 1] == "-")


def _number(tokens: Sequence[str], at: int, values: dict[str, int]) -> tuple[int | None, int]:
    """Return the number whose words begin at a token, and the token behind it; `None`: no number begins there."""
    total = group = 0
    found = False
    end = at
    while at < len(tokens):
        word = tokens[at]
        if word in values and _fits(group, values[word], found and group == 0):
            group += values[word]
        elif word == "hundred" and 0 < group < 10:
            group *= 100
        elif word in _SCALES and (total == 0 or total >= 1000 * _SCALES[word]):
            total += max(group, 1) * _SCALES[word]
            group = 0
        else:
            break
        found = True
        end = at + 1
        at = _next_word(tokens, end, joined=group % 100 == 0 and (group > 0 or total > 0), values=values)
    return (total + group, end) if found else (None, end)


def _fits(group: int, value: int, begun: bool) -> bool:
    """Return whether a word continues a number: "twenty two" does, "two three" does not."""
    if value == 0:
        return group == 0 and not begun
    place = 100 if value >= 100 else 10 if value >= 10 else 1
    return group % (place * 10) == 0 if value not in range(10, 20) else group % 100 == 0


def _next_word(tokens: Sequence[str], at: int, *, joined: bool, values: dict[str, int]) -> int:
    """Return the token at which a number may go on; "and" joins words only behind hundreds and thousands."""
    if _word(tokens, at) != " ":
        return len(tokens)
    if joined and _word(tokens, at + 1) == "and" and _word(tokens, at + 3) in values:
        return at + 3
    return at + 1


def _with_part(tokens: Sequence[str], number: int, at: int) -> tuple[str, int]:
    """Return a number with the fraction or decimals behind it, and the token behind them."""
    word = _word(tokens, at + 1)
    if _word(tokens, at) == " " and word in _PARTS and number > 0:
        return f"({number}/{_PARTS[word]})", at + 2
    rest = "".join(tokens[at : at + 6])
    for phrase in (" and a half", " i pół", " i pol"):
        if rest.startswith(phrase):
            return f"({number}+1/2)", at + len(_TOKEN.findall(phrase))
    return str(number), at


def _word(tokens: Sequence[str], at: int) -> str:
    return tokens[at] if at < len(tokens) else ""
